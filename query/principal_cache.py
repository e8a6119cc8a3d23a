"""What an asker belongs to, remembered for a short time under the access epoch.

The epoch moves with every change of access, in the same transaction, so what is remembered under the present one is
what the directory says. The time limit is for what is not known to have changed at all.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol

from core.principals import Principal

CACHE_SIZE: Final = 4096


class PrincipalCache(Protocol):
    """Remembers principal sets. It may forget at any time, and never fails."""

    def get(self, principal: Principal, epoch: int) -> frozenset[Principal] | None:
        """What was put for just that principal under just that epoch, not long ago; else None."""
        ...

    def put(self, principal: Principal, epoch: int, found: frozenset[Principal]) -> None:
        """Remember a complete set that was read while the epoch stood still."""
        ...


class LocalPrincipalCache:
    """In this process. Thread-safe. `seconds`: how long a set is remembered; `now` must never go back."""

    def __init__(self, seconds: float, *, size: int = CACHE_SIZE, now: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._size, self._now = seconds, size, now
        self._known: OrderedDict[Principal, tuple[int, float, frozenset[Principal]]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, principal: Principal, epoch: int) -> frozenset[Principal] | None:
        """See PrincipalCache."""
        with self._lock:
            known = self._known.get(principal)
            if known is None or known[0] != epoch or self._now() >= known[1]:
                return None
            self._known.move_to_end(principal)
            return known[2]

    def put(self, principal: Principal, epoch: int, found: frozenset[Principal]) -> None:
        """See PrincipalCache."""
        if self._seconds <= 0:
            return
        with self._lock:
            self._known[principal] = (epoch, self._now() + self._seconds, found)
            self._known.move_to_end(principal)
            while len(self._known) > self._size:
                self._known.popitem(last=False)
