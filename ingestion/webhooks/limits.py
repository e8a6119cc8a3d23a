"""What a body may be before anybody looks into it: so many bytes, in so long, no deeper than that."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import anyio
from starlette.requests import ClientDisconnect, Request

from ingestion.webhooks.outcomes import Outcome, Refused

DEEPEST: Final = 64
# Far more than any delivery has; texts may hold some too.
MOST_BRACKETS: Final = 200_000
READ_SECONDS: Final = 10.0
_STRING: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))


class Held:
    """The bytes of bodies that are held in memory, of all requests together: many large ones are told to come again,
    and many that trickle in cost next to nothing."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.bytes = 0

    def add(self, n: int) -> None:
        """Hold so many more. Raises Refused where that is too much."""
        if self.bytes + n > self._most:
            raise Refused(Outcome.UNKEPT, "too much at once")
        self.bytes += n

    def free(self, n: int) -> None:
        """Hold so many less."""
        self.bytes -= n


async def read_body(request: Request, body: bytearray, *, most: int, held: Held) -> None:
    """Read the body of a request into `body`, no further than `most` bytes and no longer than READ_SECONDS. What is
    read is `held`, for the caller to free. Raises Refused."""
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Refused(Outcome.MALFORMED, "compressed")
    declared = request.headers.get("content-length", "0")
    if not (declared.isascii() and declared.isdigit()) or int(declared[:20]) > most:
        raise Refused(Outcome.OVERSIZED, "more bytes than max_bytes")
    try:
        with anyio.fail_after(READ_SECONDS):
            async for piece in request.stream():
                if len(body) + len(piece) > most:
                    raise Refused(Outcome.OVERSIZED, "more bytes than max_bytes")
                held.add(len(piece))
                body += piece
    except TimeoutError:
        raise Refused(Outcome.SLOW, "its body did not come in time") from None
    except ClientDisconnect:
        raise Refused(Outcome.SLOW, "its sender went away") from None


def read_json(body: bytes) -> Mapping[str, Any]:
    """The JSON object in a body. Raises Refused."""
    if body.count(b"[") + body.count(b"{") > DEEPEST:
        _check_depth(body)
    try:
        data = json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise Refused(Outcome.MALFORMED, "no JSON") from None
    if not isinstance(data, dict):
        raise Refused(Outcome.MALFORMED, "no JSON object")
    return data


def _check_depth(body: bytes) -> None:
    brackets = _STRING.sub(b"", body).translate(None, _NOT_BRACKETS)
    if len(brackets) > 2 * MOST_BRACKETS:
        raise Refused(Outcome.OVERSIZED, "too many lists and objects")
    depth = 0
    for bracket in brackets:
        depth += 1 if bracket in b"[{" else -1
        if depth > DEEPEST:
            raise Refused(Outcome.OVERSIZED, "nested too deep")


def _no_number(name: str) -> None:
    raise ValueError(name)
