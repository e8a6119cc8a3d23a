"""What is due, one thing after the other: the schedule of one thread, or of a test that turns the clock by hand."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Final

from core.clock import Clock
from graph.jobs import JobStore
from ingestion.lanes import Lane
from ingestion.schedule.jobs import Job, Planned
from ingestion.schedule.runner import JobResult, JobRunner

# What could not start because another has the lease or the slots is tried again after this.
_TRIED_AGAIN: Final = timedelta(seconds=1)


class Agenda:
    """The jobs of a runner, or those of some lanes. `clock` is the runner's."""

    def __init__(self, runner: JobRunner, jobs: JobStore, clock: Clock, lanes: Collection[Lane] = tuple(Lane)) -> None:
        self._runner = runner
        self._jobs = jobs
        self._clock = clock
        self.plan: tuple[Planned, ...] = tuple(p for p in runner.plan if p.job.kind.lane in lanes)
        self._not_before: dict[Job, datetime] = {}

    def next_due(self) -> datetime:
        """When something is to be run next; now or earlier where something is already."""
        return min(self._due().values())

    def run_due(self, now: datetime) -> list[JobResult]:
        """Run what is due at `now`, where the clock stands, each job once, in the order of the plan (access first; what
        one brings forward for a later one counts). Raises StoreUnavailableError."""
        results, due = list[JobResult](), self._due()
        for planned in self.plan:
            if due[planned.job] <= now:
                results.append(self._run(planned.job))
                due = self._due()
        return results

    def run_next(self) -> JobResult | None:
        """Run what has been due for longest, access first; None where nothing is. Raises StoreUnavailableError."""
        due, now = self._due(), self._clock.now()
        ready = [p.job for p in self.plan if due[p.job] <= now]
        if not ready:
            return None
        return self._run(min(ready, key=lambda job: (job.kind.lane, due[job])))

    def _run(self, job: Job) -> JobResult:
        result = self._runner.run(job)
        self._not_before.pop(job, None)
        if result.state in ("busy", "no_slot", "not_due"):
            self._not_before[job] = self._clock.now() + _TRIED_AGAIN
        return result

    def _due(self) -> dict[Job, datetime]:
        states, now = self._jobs.states(), self._clock.now()
        due = {}
        for planned in self.plan:
            known = states.get(planned.job.name)
            at = known.due_at if known is not None else now
            due[planned.job] = max(at, self._not_before.get(planned.job, at))
        return due
