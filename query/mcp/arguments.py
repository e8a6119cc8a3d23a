"""What the tools take. There is no argument that could name an asker, and an unknown argument is refused."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from core.bundle import MOST_FOCUS, ContextRequest, Focus
from query.service import MOST_TOPIC

MOST_ADDRESS = 1024


def _unpacked(value: Any) -> Any:
    """Some clients send an object inside a string; what is no JSON is left for validation to refuse."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _focus(value: Any) -> Any:
    """Say what a focus looks like where it is none at all, instead of how each of its two forms was not met."""
    unpacked = _unpacked(value)
    given = unpacked if isinstance(unpacked, list) else [unpacked]
    if unpacked is not None and not all(isinstance(one, dict) for one in given):
        raise ValueError("write an object with any of url, file, channel and item, or a list of those")
    return unpacked


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class GetContext(_Arguments):
    """Arguments of `get_context`."""

    question: str = Field(
        min_length=1,
        max_length=4000,
        description="The question in plain words, as the person would ask a colleague. Keep names, numbers and "
        "abbreviations as they were said.",
    )
    focus: Annotated[
        Focus | Annotated[tuple[Focus, ...], Field(max_length=MOST_FOCUS)] | None, BeforeValidator(_focus)
    ] = Field(
        default=None,
        description="What the person is looking at, if you know: it settles what 'this' and 'here' mean. An object "
        "with any of url, file, channel and item, or a list of those.",
    )
    max_tokens: int | None = Field(
        default=None, ge=1, le=200_000, description="How long the answer's Markdown may be, in tokens."
    )
    as_of: datetime | None = Field(
        default=None, description="Ask as of this time (with a zone, as in 2026-03-01T00:00:00Z) instead of now."
    )

    def request(self) -> ContextRequest:
        """The same as the body of the HTTP API."""
        return ContextRequest(
            question=self.question, focus=self.focus, max_tokens=self.max_tokens, as_of=self.as_of, explain=False
        )


class ExpandContext(_Arguments):
    """Arguments of `expand_context`."""

    id: str = Field(
        min_length=1,
        max_length=MOST_ADDRESS,
        description="A ctx:// address exactly as it stands in evidence, receipts, meanings, links or `more`. Refs such "
        "as E1 belong to one answer and are not known afterwards.",
    )


class WhoKnows(_Arguments):
    """Arguments of `who_knows`."""

    topic: str = Field(min_length=1, max_length=MOST_TOPIC, description="The topic in a few words.")


class Define(_Arguments):
    """Arguments of `define`."""

    term: str = Field(min_length=1, max_length=MOST_TOPIC, description="One term or abbreviation, as it is written.")
