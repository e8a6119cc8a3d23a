"""Ages in words."""

from __future__ import annotations

from datetime import datetime

_STEPS = ((365, "year"), (30, "month"), (7, "week"), (1, "day"))


def ago(at: datetime, now: datetime) -> str:
    """How long before `now` (both aware) `at` was: "today", "3 weeks ago"; a future time is "in the future"."""
    days = (now - at).total_seconds() / 86400
    if days < -1:
        return "in the future"
    if days < 1:
        return "today"
    for length, word in _STEPS:
        if days >= length:
            n = int(days // length)
            return f"{n} {word}{'' if n == 1 else 's'} ago"
    return "today"
