"""Counts how deliveries end and which subscriptions are alive, and writes both down once a second at most.

A flood of forged deliveries is no flood of writes or of log lines. A kill loses the counts of the last second, and no
delivery.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from core.clock import Clock
from core.errors import ContextEngineError
from graph.deliveries import DeliveryCounts
from graph.subscriptions import SubscriptionStore
from ingestion.webhooks.outcomes import Outcome

log = logging.getLogger(__name__)

_QUIET: Final = frozenset({Outcome.ACCEPTED, Outcome.DOUBLED})
# More ids than that are no subscriptions of ours: they carry the right secret, but memory is bounded all the same.
_MOST_IDS: Final = 10_000


class Ledger:
    """What is to be written down. Thread-safe; `every` is in seconds."""

    def __init__(
        self, counts: DeliveryCounts, subscriptions: SubscriptionStore, clock: Clock, *, every: float = 1.0
    ) -> None:
        self._counts, self._subscriptions, self._clock = counts, subscriptions, clock
        self._every = every
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._waiting: Counter[tuple[str, str]] = Counter()
        self._why: dict[tuple[str, str], str] = {}
        self._delivered: dict[str, datetime] = {}
        self._timer: threading.Timer | None = None
        self._closed = False

    def count(self, source: str, outcome: Outcome, n: int = 1, why: str = "") -> None:
        """So many deliveries of a source, or items of a batch, ended so; `why` is ours and goes into the log."""
        if n:
            with self._lock:
                self._waiting[source, outcome.value] += n
                self._why[source, outcome.value] = why
                self._begin()

    def delivered(self, subscriptions: Iterable[str]) -> None:
        """These subscriptions (ids) have just told something."""
        now = self._clock.now()
        with self._lock:
            for id_ in subscriptions:
                if id_ in self._delivered or len(self._delivered) < _MOST_IDS:
                    self._delivered[id_] = now
                    self._begin()

    def flush(self) -> None:
        """Write down what waits, now. What can't be written waits on."""
        with self._writing:
            with self._lock:
                waiting, self._waiting = self._waiting, Counter()
                why, self._why = self._why, {}
                delivered, self._delivered = self._delivered, {}
                self._timer = None
            for (source, outcome), n in waiting.items():
                if outcome not in _QUIET:
                    log.warning("%s: %d deliveries were %s: %s", source, n, outcome, why.get((source, outcome), ""))
            try:
                self._counts.add(waiting)
                waiting = Counter()
                self._subscriptions.delivered(delivered)
            except ContextEngineError as e:
                log.warning("deliveries could not be counted: %s", e)
                self._wait_on(waiting, delivered)

    def close(self) -> None:
        """Write down what waits, and wait for nothing more."""
        with self._lock:
            self._closed = True
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        self.flush()

    def _begin(self) -> None:
        if self._timer is None and not self._closed:
            self._timer = threading.Timer(self._every, self.flush)
            self._timer.daemon = True
            self._timer.start()

    def _wait_on(self, waiting: Counter[tuple[str, str]], delivered: Mapping[str, datetime]) -> None:
        with self._lock:
            self._waiting += waiting
            self._delivered = {**delivered, **self._delivered}
            self._begin()
