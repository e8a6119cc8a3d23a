"""Counts requests whose token gives no right to ask, by reason. They are counted and not audited: mostly there is
nobody to name, and whoever likes could fill the log."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from typing import Final

from core.errors import ForbiddenError, IdentityError, IdentityReason

FORBIDDEN: Final = "forbidden"


class RefusedCallers:
    """The counts of one process; of use to many threads."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter(dict.fromkeys([*(r.value for r in IdentityReason), FORBIDDEN], 0))
        self._lock = threading.Lock()

    def note(self, error: IdentityError | ForbiddenError) -> None:
        """Count one more."""
        with self._lock:
            self._counts[error.reason.value if isinstance(error, IdentityError) else FORBIDDEN] += 1

    def counts(self) -> Mapping[str, int]:
        """How many there were since the process began, by reason: why the token proves nobody, or `forbidden` for one
        that does and gives no right to ask."""
        with self._lock:
            return dict(self._counts)
