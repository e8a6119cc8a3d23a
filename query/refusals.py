"""What a client is told of an error: a class that programs branch on and a way to mend it, the same by HTTP and MCP.

Never details of what was refused or of a store, and in the log never the text that was asked or found.
"""

from __future__ import annotations

import logging
import math
import traceback
from dataclasses import dataclass

from core.errors import (
    ContextEngineError,
    ForbiddenError,
    IdentityError,
    InputError,
    NotFoundError,
    RateLimitedError,
    StoreUnavailableError,
    UnresolvedIdentityError,
)

log = logging.getLogger(__name__)

TYPE = "urn:context-engine:problem:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An error as it is told. `kind` is the stable name of its class, `retry_after` whole seconds to wait."""

    status: int
    kind: str
    title: str
    detail: str | None = None
    retry_after: int | None = None


INTERNAL = Refusal(status=500, kind="internal", title="The engine failed on this request; nothing was returned")


def refusal_of(error: ContextEngineError) -> Refusal:
    """How an error of ours is told. What no client can mend is logged, and told as an internal error."""
    match error:
        case IdentityError():
            return Refusal(status=401, kind=error.reason.value, title="The bearer token was refused")
        case ForbiddenError():
            return Refusal(status=403, kind="forbidden", title=error.message, detail=error.mend)
        case NotFoundError():
            return Refusal(status=404, kind="not-found", title="There is no such item, or you may not read it")
        case InputError():
            return Refusal(status=422, kind="invalid-input", title=error.message, detail=error.mend)
        case RateLimitedError():
            return Refusal(
                status=429, kind="rate-limited", title="Too many requests", retry_after=_whole(error.retry_after)
            )
        case UnresolvedIdentityError():
            title = "Your memberships are not fully known yet"
            return Refusal(status=503, kind="identity-unresolved", title=title, retry_after=5)
        case StoreUnavailableError():
            log.error("store unavailable: %s", error.store)
            title = f"A store does not answer: {error.store}"
            retry_after = _whole(error.retry_after)
            return Refusal(status=503, kind="store-unavailable", title=title, retry_after=retry_after)
    log.error("unexpected error of kind %s", type(error).__name__)
    return INTERNAL


def log_unexpected(error: Exception) -> None:
    """Log where an error of nobody's making came from. Not what it says: messages of drivers and validators quote the
    text that they choked on."""
    kinds = [type(error).__name__]
    cause = error.__cause__ or error.__context__
    while cause is not None and len(kinds) < 5:
        kinds.append(type(cause).__name__)
        cause = cause.__cause__ or cause.__context__
    frames = "".join(traceback.format_tb(error.__traceback__))
    log.error("unexpected error of kind %s\n%s", " from ".join(kinds), frames)


def _whole(seconds: float) -> int:
    return max(1, math.ceil(seconds))
