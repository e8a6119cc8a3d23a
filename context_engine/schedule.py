"""The in-process schedule of embedded mode: one thread for what decides access, one for crawls, woken when nudged."""

from __future__ import annotations

import logging
import threading
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Final

from core.clock import Clock
from core.errors import ContextEngineError
from graph.jobs import JobStore
from ingestion.schedule import Agenda, Job, JobKind, JobRunner, Lane

log = logging.getLogger(__name__)

# Seconds: the longest sleep, the pause where the record is down, and how long a stop waits for a batch to end.
_LONGEST_SLEEP: Final = 60.0
_PAUSE: Final = 5.0
_PATIENCE: Final = 60.0


class Schedule(AbstractContextManager["Schedule"]):
    """Runs a runner's jobs as they become due while the context is open. `clock` is the runner's and `stop` what its
    running jobs look at: a crawl ends at its next batch."""

    def __init__(self, runner: JobRunner, jobs: JobStore, clock: Clock, stop: threading.Event) -> None:
        self._jobs = jobs
        self._clock = clock
        self._stop = stop
        self._agendas = {lane: Agenda(runner, jobs, clock, [lane]) for lane in Lane}
        self._awake = {lane: threading.Event() for lane in Lane}
        self._threads = [
            threading.Thread(target=self._run, args=(lane,), name=f"schedule-{lane.value}", daemon=True)
            for lane in Lane
        ]

    def __enter__(self) -> Schedule:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._wake()
        for thread in self._threads:
            thread.join(timeout=_PATIENCE)

    def nudge(self, connector: str) -> None:
        """There are hints for a connector: look at them now. Raises StoreUnavailableError."""
        self._jobs.bring_forward([Job(connector, JobKind.HINTS).name])
        self._awake[Lane.ACCESS].set()

    def nudge_all(self) -> None:
        """Do everything now: something changed at the sources. Raises StoreUnavailableError."""
        self._jobs.bring_forward([p.job.name for agenda in self._agendas.values() for p in agenda.plan])
        self._wake()

    def _wake(self) -> None:
        for awake in self._awake.values():
            awake.set()

    def _run(self, lane: Lane) -> None:
        agenda, awake = self._agendas[lane], self._awake[lane]
        while not self._stop.is_set():
            # Cleared before looking, so that a nudge while we look is not lost.
            awake.clear()
            try:
                ran = agenda.run_next()
                sleep = 0.0 if ran else (agenda.next_due() - self._clock.now()).total_seconds()
            except ContextEngineError as e:
                # A store that is down now may be up at the next turn; meanwhile permissions age and fail closed.
                log.error("the schedule waits: %s", e)
                sleep = _PAUSE
            except Exception:
                log.exception("the schedule met an error of ours")
                sleep = _PAUSE
            if sleep > 0 and not self._stop.is_set():
                awake.wait(min(sleep, _LONGEST_SLEEP))
