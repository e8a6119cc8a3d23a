"""What a message is before it is read: what somebody says, an event of the channel, or something taken away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Json = Mapping[str, Any]

EVENT: Final = "system event"
MEMBERSHIP_EVENT: Final = "membership event"
UNKNOWN_KIND: Final = "message of an unknown kind"
_EVENTS: Final = frozenset({"systemeventmessage", "chatevent", "typing"})
# How details begin that tell that the readers of a channel may have changed.
_ABOUT_READERS: Final = ("members", "conversationmember")


def silence(message: Json) -> str | None:
    """Why a message says nothing, in words; None where somebody says something."""
    kind = str(message.get("messageType") or "message").lower()
    if kind == "message":
        return None
    detail = message.get("eventDetail")
    if isinstance(detail, Mapping):
        name = str(detail.get("@odata.type") or "").rsplit(".", 1)[-1].lower()
        return MEMBERSHIP_EVENT if name.startswith(_ABOUT_READERS) else EVENT
    content = (message.get("body") or {}).get("content")
    # To who does not ask for later kinds, an event arrives as one of an unknown kind that says nothing.
    if kind in _EVENTS or not content or str(content).strip().lower() == "<systemeventmessage/>":
        return EVENT
    return UNKNOWN_KIND


def is_speech(message: Json) -> bool:
    """Whether somebody wrote it: not an event, and not of a kind that we don't know."""
    return silence(message) is None


def is_gone(message: Json) -> bool:
    """Whether it may not be shown though it is listed: deleted, or blocked by a policy."""
    return "@removed" in message or bool(message.get("deletedDateTime")) or _is_blocked(message)


def _is_blocked(message: Json) -> bool:
    return "block" in str((message.get("policyViolation") or {}).get("dlpAction") or "").lower()
