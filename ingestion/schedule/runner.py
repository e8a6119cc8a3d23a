"""Runs a job: claims its period, holds its lease, does it, and writes down how it went.

Everything that runs jobs calls this: the workers' tasks, the in-process schedule, tests. It keeps nothing between two
runs, and threads may share one.
"""

from __future__ import annotations

import logging
import traceback
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final, Literal

from core.errors import ContextEngineError, InputError, LeaseLostError, SourceError, StoreUnavailableError
from graph.jobs import Claim
from graph.leases import Lease, kept
from ingestion.lanes import Lane
from ingestion.report import RunReport
from ingestion.schedule.jobs import Job, JobKind, Planned, jobs_of
from ingestion.schedule.parts import RunnerParts
from ingestion.schedule.slots import slot
from ingestion.schedule.work import Ended, Watch, Work

log = logging.getLogger(__name__)

# After so many failures in a row that should not happen somebody has to look.
GIVEN_UP_AFTER: Final = 5
LONGEST_WAIT: Final = timedelta(hours=1)
_ASK_NO_SOURCE: Final = (JobKind.PAYLOADS, JobKind.UPKEEP)

JobOutcome = Literal["done", "failed", "not_due", "busy", "no_slot"]


@dataclass(frozen=True, slots=True)
class JobResult:
    """What became of a call. `busy`: another has the lease, or it waits for another job (`reason`); `no_slot`:
    enough jobs ask that host already. `reports` are the runs of readers that it made."""

    job: Job
    state: JobOutcome
    reason: str | None = None
    reports: tuple[RunReport, ...] = ()


class JobRunner:
    """Runs the jobs of the connectors that it was given; `plan` is all of them."""

    def __init__(self, parts: RunnerParts) -> None:
        self._parts = parts
        self._leases, self._jobs = parts.leases, parts.jobs
        self._ttl = timedelta(seconds=parts.settings.lease)
        self.plan: tuple[Planned, ...] = tuple(jobs_of(parts.connectors, parts.settings))
        self._planned = {p.job: p for p in self.plan}
        self._work = Work(parts, self._within)

    def run(self, job: Job, *, force: bool = False) -> JobResult:
        """Run a job where it is due (or `force`) and nobody else runs it.

        A source that fails, and anything unexpected, is a failed result. Raises StoreUnavailableError where the
        record does not answer, InputError for a job that is not planned here.
        """
        planned = self._planned.get(job)
        if planned is None:
            raise InputError("no such job is planned here", where=job.name, mend="Look which sources are configured")
        return self._attempt(planned, force=force, in_slot=False)

    def wait_after(self, planned: Planned, failures: int) -> timedelta:
        """How long after its start a job that failed so many times in a row is tried again."""
        promised = self._parts.settings.revocation_limit / 4
        longest = promised if planned.job.kind.lane is Lane.ACCESS else LONGEST_WAIT
        # Bounded before it is raised: a power of a large number overflows.
        times: int = 2 ** min(max(failures, 1) - 1, 20)
        return max(min(planned.every * times, longest), min(planned.every, longest))

    def _attempt(self, planned: Planned, *, force: bool, in_slot: bool) -> JobResult:
        job, every, slack = planned.job, planned.every, planned.slack
        standing = self._jobs.standing(job.name, slack=slack)
        if not (force or standing.claimable):
            return JobResult(job, "not_due")
        with ExitStack() as held:
            lease = self._leases.acquire(job.lease, self._parts.holder, self._ttl)
            if lease is None:
                if not (force or standing.due):
                    return JobResult(job, "not_due")  # it runs, and its next period has not come
                why = "overlap" if standing.unfinished else "busy"
                self._jobs.skip(job.name, why, every=every, slack=slack)
                return JobResult(job, "busy")
            leases = [lease]
            held.enter_context(kept(lease))
            if job.kind is JobKind.HINTS:
                self._parts.hints.withhold_gone(self._work.connector(job))
            if not in_slot and self._asks(job):
                taken = self._slot(job)
                if taken is None:
                    self._jobs.skip(job.name, "no_slot", every=every, slack=slack)
                    return JobResult(job, "no_slot")
                leases.append(taken)
                held.enter_context(kept(taken))
            claim = self._jobs.claim(job.name, every=every, slack=slack, force=force)
            if claim is None:
                return JobResult(job, "not_due")
            return self._carry_out(planned, claim, leases)

    def _asks(self, job: Job) -> bool:
        """Whether the job will ask its source's host anything."""
        if job.kind is JobKind.HINTS:
            return bool(self._parts.hints.waiting(self._work.connector(job)))
        return job.kind not in _ASK_NO_SOURCE

    def _slot(self, job: Job) -> Lease | None:
        assert job.connector is not None
        slots = self._parts.settings.source_concurrency
        if slots == 1 and job.kind.lane is Lane.CONTENT and self._access_is_due(job.connector):
            return None
        return slot(self._leases, job.connector, job.kind.lane, slots=slots, holder=self._parts.holder, ttl=self._ttl)

    def _access_is_due(self, connector: str) -> bool:
        kinds = (JobKind.PERMISSIONS, JobKind.MEMBERSHIPS)
        return any(self._jobs.standing(Job(connector, kind).name).due for kind in kinds)

    def _within(self, job: Job, force: bool) -> JobResult:
        return self._attempt(self._planned[job], force=force, in_slot=True)

    def _carry_out(self, planned: Planned, claim: Claim, leases: list[Lease]) -> JobResult:
        job = planned.job
        if claim.died and claim.failures >= GIVEN_UP_AFTER:
            self._give_up(claim, "its worker ended before it did, again and again", attempts=claim.failures)
        watch, letter = Watch(self._parts, leases), None
        try:
            ended = self._work.do(job, watch)
        except (LeaseLostError, StoreUnavailableError, SourceError) as e:
            ended = Ended(watch.paused, str(e), again=watch.paused)
        except Exception as e:
            log.exception("job %s failed unexpectedly", job.name)
            letter = _told(e)
            ended = Ended(False, letter)
        if ended.ok:
            self._jobs.succeed(claim, told=ended.reason, again=ended.again)
            if claim.failures:
                self._parts.dead.remove([job.name])
            return JobResult(job, "done", ended.reason, ended.reports)
        reason = ended.reason or "it failed"
        if ended.wait is not None:
            self._jobs.postpone(claim, reason, wait=ended.wait)
            return JobResult(job, "busy", reason, ended.reports)
        log.warning("job %s failed: %s", job.name, reason)
        self._jobs.fail(claim, reason, wait=self.wait_after(planned, claim.failures + 1))
        if letter is not None and claim.failures + 1 >= GIVEN_UP_AFTER:
            self._give_up(claim, letter, attempts=claim.failures + 1)
        return JobResult(job, "failed", reason, ended.reports)

    def _give_up(self, claim: Claim, reason: str, *, attempts: int) -> None:
        """Tell operators. The job itself goes on at its longest interval, and takes the letter back when it succeeds:
        what reads permissions must never stop for good."""
        self._parts.dead.put(claim.name, {"job": claim.name}, reason, attempts=attempts)


def _told(error: Exception) -> str:
    """An unexpected error for operators: its kind and where in our code it arose; what it says only if it is ours,
    for any other may quote what it choked on."""
    if isinstance(error, ContextEngineError):
        return f"{type(error).__name__}: {error}"
    frames = traceback.extract_tb(error.__traceback__)
    where = f" in {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{where}"
