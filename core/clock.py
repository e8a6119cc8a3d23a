"""The present, as a value that can be set: worlds have a clock of their own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """What the engine takes as the present when it judges age."""

    def now(self) -> datetime:
        """Return the present as an aware datetime in UTC."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Return the machine's time in UTC."""
        return datetime.now(UTC)


class FixedClock:
    """A clock that stands still until it is moved."""

    def __init__(self, now: datetime) -> None:
        if now.tzinfo is None:
            raise ValueError("a clock needs a time with a zone")
        self._now = now.astimezone(UTC)

    def now(self) -> datetime:
        """Return the time at which the clock stands."""
        return self._now

    def move_to(self, now: datetime) -> None:
        """Set the clock to `now` (aware)."""
        self._now = now.astimezone(UTC)

    def advance(self, by: timedelta) -> None:
        """Move the clock forward by `by`."""
        self._now += by
