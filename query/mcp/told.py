"""Errors as tools and resources tell them: the class, how to mend it, and when to try again."""

from __future__ import annotations

from typing import Any, Final

from mcp import MCPError
from mcp.types import INTERNAL_ERROR, INVALID_PARAMS, CallToolResult, TextContent
from pydantic import ValidationError

from core.bundle import Focus
from core.errors import InputError
from core.render import line
from query.refusals import TYPE, Refusal

# What programs read of a failed call, beside the words for the model.
PROBLEM_KEY: Final = "context-engine/problem"
_MOST_PROBLEMS: Final = 20
_OTHER_FORM: Final = frozenset({"model_type", "tuple_type"})


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
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    # Where an argument may have one of two forms, the form that it hasn't says so too: that helps nobody.
    told = [p for p in problems if p["type"] not in _OTHER_FORM] or problems
    wrong = []
    for problem in told[:_MOST_PROBLEMS]:
        at = line(".".join(str(part) for part in problem["loc"] if not _names_form(part)), 80) or "arguments"
        unknown = problem["type"] == "extra_forbidden"
        says = problem["msg"].removeprefix("Value error, ")
        wrong.append(f"{at}: there is no such argument" if unknown else f"{at}: {says}")
    return InputError("; ".join(wrong), mend=f"The arguments are {', '.join(known)}")


def _names_form(part: str | int) -> bool:
    """Whether a step of a path is pydantic's name of one of two forms (of a focus), and not the caller's word."""
    return isinstance(part, str) and (part == Focus.__name__ or part.startswith("tuple["))
