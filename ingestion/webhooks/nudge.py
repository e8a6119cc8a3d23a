"""Tells whoever works off hints that there are some; a nudge that is lost costs a few seconds and nothing else."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

log = logging.getLogger(__name__)


class Nudges:
    """Calls `nudge(connector)`, one call a connector at a time: however many deliveries came while it ran, it is called
    once more for them. Thread-safe, and never raises; `failed` counts calls that did."""

    def __init__(self, nudge: Callable[[str], object]) -> None:
        self._nudge = nudge
        self._lock = threading.Lock()
        self._again: dict[str, bool] = {}
        self.failed = 0

    def send(self, connectors: Iterable[str]) -> None:
        """Nudge for these connectors."""
        for connector in sorted(set(connectors)):
            with self._lock:
                if connector in self._again:
                    self._again[connector] = True
                    continue
                self._again[connector] = False
            self._run(connector)

    def _run(self, connector: str) -> None:
        while True:
            try:
                self._nudge(connector)
            except Exception as e:
                # Whatever it is, the hints are kept, and whoever looks for them regularly will find them.
                with self._lock:
                    self.failed += 1
                log.warning("no worker could be told of hints for %s: %s", connector, type(e).__name__)
            with self._lock:
                if not self._again[connector]:
                    del self._again[connector]
                    return
                self._again[connector] = False
