"""Errors as tools and resources tell them: the class, how to mend it, and when to try again."""

from __future__ import annotations

from typing import Any, Final

from mcp import MCPError
from mcp.types import INTERNAL_ERROR, INVALID_PARAMS, CallToolResult, TextContent
from pydantic import ValidationError

from core.errors import InputError
from core.render import line
from query.refusals import TYPE, Refusal

# What programs read of a failed call, beside the words for the model.
PROBLEM_KEY: Final = "context-engine/problem"
_MOST_PROBLEMS: Final = 20


def tool_error(refusal: Refusal) -> CallToolResult:
    """A failed call: its class and how to mend it as text, and for programs in `_meta`."""
    sentences = [f"{refusal.kind}: {refusal.title.rstrip('.')}."]
    if refusal.detail:
        sentences.append(f"{refusal.detail.rstrip('.')}.")
    if refusal.retry_after is not None:
        sentences.append(f"Try again in {refusal.retry_after} seconds, not sooner.")
    return CallToolResult(
        content=[TextContent(type="text", text=" ".join(sentences))],
        is_error=True,
        _meta={PROBLEM_KEY: problem_of(refusal)},
    )


def resource_error(refusal: Refusal, uri: str) -> MCPError:
    """A failed reading. An address that leads nowhere, to what is hidden, or that is none: one and the same error."""
    if refusal.status in (404, 422):
        return MCPError(INVALID_PARAMS, "There is no such resource, or you may not read it", {"uri": uri})
    return MCPError(INTERNAL_ERROR, refusal.title, problem_of(refusal))


def problem_of(refusal: Refusal) -> dict[str, Any]:
    """The members of the HTTP API's problem+json, with the seconds of its Retry-After."""
    problem: dict[str, Any] = {"type": TYPE + refusal.kind, "title": refusal.title, "status": refusal.status}
    if refusal.detail:
        problem["detail"] = refusal.detail
    if refusal.retry_after is not None:
        problem["retry_after"] = refusal.retry_after
    return problem


def bad_arguments(error: ValidationError, known: list[str]) -> InputError:
    """What is wrong with a call's arguments, by name; values are not repeated."""
    wrong = []
    for problem in error.errors(include_url=False, include_input=False, include_context=False)[:_MOST_PROBLEMS]:
        at = line(".".join(str(part) for part in problem["loc"]), 80) or "arguments"
        unknown = problem["type"] == "extra_forbidden"
        wrong.append(f"{at}: there is no such argument" if unknown else f"{at}: {problem['msg']}")
    return InputError("; ".join(wrong), mend=f"The arguments are {', '.join(known)}")
