"""What this process knows of teams and channels; renewed when it is old, whoever asked last."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from core.clock import Clock
from ingestion.teams.channels import Listing

# How long a list of channels is good for reading content. Permissions are never read by an old one.
GOOD_FOR: Final = timedelta(minutes=2)


class Known:
    """The last listing, and what each list held when it last came whole. Thread-safe."""

    def __init__(self, list_all: Callable[[], Listing], clock: Clock) -> None:
        self._list_all, self._clock = list_all, clock
        self._lock = threading.Lock()
        self._listing: Listing | None = None
        self._at: datetime | None = None
        self._lists: dict[str, frozenset[str]] = {}

    def listing(self) -> Listing:
        """What is known, listed now where it is unknown or old. Raises SourceError."""
        with self._lock:
            now = self._clock.now()
            if self._listing is None or self._at is None or now - self._at >= GOOD_FOR:
                return self._renewed(now)
            return self._listing

    def renew(self) -> Listing:
        """List it now. Raises SourceError; what is known stays."""
        with self._lock:
            return self._renewed(self._clock.now())

    def peek(self) -> Listing | None:
        """What is known without asking."""
        return self._listing

    def forget(self) -> None:
        """Something is otherwise than it was known: it is listed before it is used again."""
        self._at = None

    def held(self, path: str) -> frozenset[str] | None:
        """The ids of the channels that a list held when it last came whole; None: never."""
        return self._lists.get(path)

    def _renewed(self, now: datetime) -> Listing:
        listing = self._list_all()
        self._lists |= listing.lists
        self._listing, self._at = listing, now
        return listing
