"""Counts requests of callers that nobody knows, by reason. They are counted and not audited: there is no name to audit,
and whoever likes could fill the log."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping

from core.errors import IdentityReason


class UnknownCallers:
    """The counts of one process; of use to many threads."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter({reason.value: 0 for reason in IdentityReason})
        self._lock = threading.Lock()

    def note(self, reason: IdentityReason) -> None:
        """Count one more."""
        with self._lock:
            self._counts[reason.value] += 1

    def counts(self) -> Mapping[str, int]:
        """How many there were since the process began, by reason."""
        with self._lock:
            return dict(self._counts)
