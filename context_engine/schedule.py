"""The in-process schedule of embedded mode: permissions often, content less often, and at once when nudged."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import AbstractContextManager
from types import TracebackType

from context_engine.embedded import EmbeddedEngine
from core.errors import ContextEngineError

log = logging.getLogger(__name__)


class Schedule(AbstractContextManager["Schedule"]):
    """Runs syncs of an embedded engine in one background thread while the context is open."""

    def __init__(self, engine: EmbeddedEngine) -> None:
        self._engine = engine
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._everything = False
        self._thread = threading.Thread(target=self._run, name="schedule", daemon=True)

    def __enter__(self) -> Schedule:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._wake.set()
        self._thread.join(timeout=60)

    def nudge(self) -> None:
        """Sync everything now: something changed at the source."""
        self._everything = True
        self._wake.set()

    def _run(self) -> None:
        settings = self._engine.settings
        next_content = time.monotonic() + settings.content_interval
        while not self._stop.is_set():
            self._wake.wait(settings.permission_interval)
            self._wake.clear()
            if self._stop.is_set():
                return
            try:
                if self._everything or time.monotonic() >= next_content:
                    self._everything = False
                    reports = self._engine.sync()
                    next_content = time.monotonic() + settings.content_interval
                else:
                    reports = self._engine.sync_access()
            except ContextEngineError as e:
                # A store that is down now may be up at the next turn; meanwhile permissions age and fail closed.
                log.error("sync failed: %s", e)
                continue
            for report in reports:
                if report.state != "complete":
                    log.warning("sync of %s/%s is %s: %s", report.connector, report.reader, report.state, report.reason)
