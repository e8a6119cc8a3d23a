"""What an answer of Azure DevOps means: usable, refused, throttled, missing, or broken."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from core.errors import SourceAuthError, SourceError, SourceGoneError, SourceNotFoundError, SourceThrottledError

# Answers that may be better in a moment.
RETRYABLE = frozenset({408, 429, 500, 502, 503, 504})

# Codes that open an error message: the object is missing or may not be read, whatever the status says. A disabled
# repo answers TF401027 with 403 or with 500.
_NOT_READABLE = ("TF401019", "TF401027", "TF401232", "TF26198", "VS403403", "VS800075", "TF200016")
_EXPIRED_TOKEN = re.compile(r"continuation\s*token|watermark|delta", re.IGNORECASE)


# What reading JSON raises that is not what it should be.
ODD_SHAPE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)


@contextmanager
def shaped(where: str) -> Iterator[None]:
    """What is read here comes from outside: where it is not of the shape that it should be, the source has failed."""
    try:
        yield
    except ODD_SHAPE as e:
        raise SourceError(odd_shape(e), where=where) from e


def odd_shape(error: BaseException) -> str:
    """What went wrong with an answer's shape, in words."""
    return f"the answer has an unexpected shape ({type(error).__name__}: {str(error)[:200]})"


class SourceRefusedError(SourceError):
    """The source calls the request itself wrong (400): the same request will not succeed later."""

    retryable = False


def message_of(body: bytes) -> str:
    """The message of an error body, shortened; empty where the body is not Azure DevOps' error JSON."""
    try:
        data: Any = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    message = data.get("message") if isinstance(data, Mapping) else None
    return str(message)[:300] if message else ""


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the source asks to wait; None where it does not ask. X-RateLimit-Delay is only told, not asked."""
    return number_in(headers, "Retry-After")


def number_in(headers: Mapping[str, str], name: str) -> float | None:
    """The number (not negative) in a header; None where it is missing or none that one could wait for."""
    value = headers.get(name) or headers.get(name.lower())
    try:
        number = float(value) if value else math.nan
    except ValueError:
        return None
    return max(0.0, number) if math.isfinite(number) else None


def looks_signed_out(status: int, headers: Mapping[str, str]) -> bool:
    """Whether the answer is the sign-in page: 401, 203, a redirect, or a page of HTML with a 200."""
    kind = (headers.get("Content-Type") or headers.get("content-type") or "").lower()
    return status in (401, 203) or 300 <= status < 400 or (status < 300 and kind.startswith("text/html"))


def is_unreadable(status: int, body: bytes) -> bool:
    """Whether the answer says "missing or unreadable", which is one answer by design."""
    return status in (403, 404) or message_of(body).lstrip().startswith(_NOT_READABLE)


def fault_of(status: int, headers: Mapping[str, str], body: bytes, where: str) -> SourceError | None:
    """The error that an answer stands for, or None where it is a usable one. Never quotes the request's headers."""
    if looks_signed_out(status, headers):
        return SourceAuthError(
            f"Azure DevOps refused the connector's credential (HTTP {status})",
            where=where,
            mend="Check that the personal access token is valid for this organization and has not expired",
        )
    if status < 300:
        return None
    told = message_of(body)
    text = f"HTTP {status}{': ' + told if told else ''}"
    if is_unreadable(status, body):
        return SourceNotFoundError(f"missing or unreadable ({text})", where=where)
    if status == 410 or (status == 400 and _EXPIRED_TOKEN.search(told)):
        return SourceGoneError(f"the continuation token is no longer valid ({text})", where=where)
    if status == 429:
        return SourceThrottledError(
            f"too many requests ({text})", retry_after=retry_after(headers) or 30.0, where=where
        )
    if status in RETRYABLE:
        return SourceError(f"the source failed ({text})", where=where)
    return SourceRefusedError(f"the source refused the request ({text})", where=where)
