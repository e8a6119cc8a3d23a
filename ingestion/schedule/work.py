"""What a job does once it may run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from core.errors import InvariantError, SourceError
from graph.leases import Lease, kept
from ingestion.connector import Connector, Reader
from ingestion.report import RunReport
from ingestion.schedule.jobs import Job, JobKind
from ingestion.schedule.parts import RunnerParts

PAYLOADS: Final = Job(None, JobKind.PAYLOADS)
# Of the time after which a worker's job is killed: a long crawl ends by itself before that, and goes on next time.
_SHARE_OF_LIMIT: Final = 0.8
# How soon it is tried again what waits for the first reading of permissions, for payloads, for a first crawl.
_UNTIL_PERMISSIONS: Final = timedelta(seconds=2)
_UNTIL_WRITTEN: Final = timedelta(seconds=15)
_UNTIL_READ: Final = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Ended:
    """How it went: `reason` is why it failed, or what it could not do. `again`: there is more, so not to wait; `wait`:
    it did nothing, since it has to wait so long for something else."""

    ok: bool
    reason: str | None = None
    again: bool = False
    wait: timedelta | None = None
    reports: tuple[RunReport, ...] = ()


class PauseError(SourceError):
    """The run ends at this batch, and the next goes on from there."""


class Watch:
    """Called between batches: the job stops where it lost its lease, where its time is up, and where all has to stop.

    `paused` says afterwards that it ended for one of the last two.
    """

    def __init__(self, parts: RunnerParts, leases: Sequence[Lease]) -> None:
        self._parts = parts
        self._leases = leases
        self._ends = parts.clock.now() + _SHARE_OF_LIMIT * timedelta(seconds=parts.settings.job_time_limit)
        self.paused = False

    def __call__(self) -> None:
        """Return where the job may go on. Raises LeaseLostError or PauseError."""
        for lease in self._leases:
            lease.check()
        if self._parts.stopping() or self._parts.clock.now() >= self._ends:
            self.paused = True
            raise PauseError("the run gave way here; the next goes on from its checkpoint")


class Work:
    """Runs jobs through the synchronizer. `run` runs another job within this one, in the slot that this one has."""

    def __init__(self, parts: RunnerParts, run: Callable[[Job, bool], object]) -> None:
        self._parts = parts
        self._run = run
        self._connectors = {c.name: c for c in parts.connectors}

    def connector(self, job: Job) -> Connector:
        """The connector of a job that has one. Raises InvariantError where it is not configured here."""
        found = self._connectors.get(job.connector or "")
        if found is None:
            raise InvariantError("a job of a connector that is not configured", where=job.name)
        return found

    def do(self, job: Job, watch: Watch) -> Ended:
        """Do it. Raises LeaseLostError where the lease went, and what the stores raise."""
        parts, sync = self._parts, self._parts.synchronizer
        match job.kind:
            case JobKind.PERMISSIONS:
                return self._permissions(self.connector(job))
            case JobKind.MEMBERSHIPS:
                return _told(sync.sync_memberships(self.connector(job)))
            case JobKind.HINTS:
                return self._hints(self.connector(job), watch)
            case JobKind.SUBSCRIPTIONS:
                if parts.subscriptions is not None:
                    parts.subscriptions.keep()
                return Ended(True)
            case JobKind.PAYLOADS:
                sync.write_access(watch)
                return Ended(True)
            case JobKind.CONTENT:
                return self._content(job, watch)
            case JobKind.RECONCILIATION:
                return self._reconciliation(job)
            case JobKind.UPKEEP:
                for task in parts.upkeep:
                    task()
                return Ended(True)

    def _permissions(self, connector: Connector) -> Ended:
        began = self._parts.clock.now()
        report = self._parts.synchronizer.sync_access(connector, rewrite=False)
        if report.state == "complete":
            self._parts.hints.covered_by_access(connector, began)
        if report.counts.get("changed"):
            self._parts.jobs.bring_forward([PAYLOADS.name])
        return _told(report)

    def _content(self, job: Job, watch: Watch) -> Ended:
        """One reader from its checkpoint: repaired first, and once more where the gate found what it can mend."""
        connector, reader, sync = self.connector(job), self._reader(job), self._parts.synchronizer
        blocked = self._unknown_access(connector)
        if blocked is not None:
            return blocked

        def between() -> None:
            watch()
            self._while_crawling(connector, reader)

        if self._parts.scopes.pending():
            # The gate lets no run pass before rules that changed have reached the index.
            self._run(PAYLOADS, True)
        looked_at = self._parts.clock.now()
        compares = not self._parts.settings.reconcile_interval  # else it is a job of its own

        def read() -> RunReport:
            sync.repair(reader.source)
            return sync.sync_reader(connector, reader, between=between, looked_at=looked_at, compares=compares)

        report = read()
        if _was_checked(report):
            if self._parts.scopes.pending():
                self._run(PAYLOADS, True)
            report = read()
        if _was_checked(report) and self._parts.scopes.pending():
            # A long rewrite goes on elsewhere. All was read; it is checked once more when that may have ended.
            return Ended(False, report.reason, wait=_UNTIL_WRITTEN, reports=(report,))
        if report.state != "failed":
            self._parts.hints.covered_by_reader(connector, reader, looked_at)
        return _told(report, paused=watch.paused)

    def _reconciliation(self, job: Job) -> Ended:
        connector, reader = self.connector(job), self._reader(job)
        crawl = self._parts.jobs.states().get(Job(connector.name, JobKind.CONTENT, reader.name).name)
        if crawl is None or crawl.succeeded_at is None:
            # What was never read is no difference to be mended item by item.
            return Ended(False, "it waits for the first reading to come to its end", wait=_UNTIL_READ)
        return self._unknown_access(connector) or _told(self._parts.synchronizer.reconcile(connector, reader))

    def _while_crawling(self, connector: Connector, reader: Reader) -> None:
        """What must not wait for the end of a crawl."""
        hints = self._parts.hints
        hints.withhold_gone(connector)
        waiting = hints.waiting(connector)
        if reader.name in waiting:
            hints.items(connector, reader, only_items=True)
        if "access" in waiting and self._parts.settings.source_concurrency == 1:
            # Nobody else can: this crawl has the only slot.
            self._under(f"{connector.name}/access", lambda: hints.access(connector))
        self._keep_access_fresh(connector)

    def _hints(self, connector: Connector, watch: Watch) -> Ended:
        """What deliveries ask for. Whoever holds the lease of something does its hints (see `_while_crawling`)."""
        hints = self._parts.hints
        waiting = hints.waiting(connector)
        if "access" in waiting:
            self._under(f"{connector.name}/access", lambda: hints.access(connector))
        if "subscriptions" in waiting:
            self._under(f"{connector.name}/subscriptions", lambda: hints.subscriptions(connector))

        def between() -> None:
            watch()
            self._keep_access_fresh(connector)

        def items(reader: Reader) -> None:
            self._under(f"{connector.name}/{reader.name}", lambda: hints.items(connector, reader, between=between))

        for reader in connector.readers():
            if reader.name in waiting:
                between()
                items(reader)
        return Ended(True)

    def _under(self, name: str, do: Callable[[], object]) -> None:
        """Do something under another lease, where nobody has it."""
        parts = self._parts
        lease = parts.leases.acquire(name, parts.holder, timedelta(seconds=parts.settings.lease))
        if lease is not None:
            with kept(lease):
                do()

    def _keep_access_fresh(self, connector: Connector) -> None:
        """Read permissions here where they are older than half of what was promised: whoever should have has not."""
        last = self._access_at(connector)
        if last is None or self._parts.clock.now() - last > self._parts.settings.revocation_limit / 2:
            self._run(Job(connector.name, JobKind.PERMISSIONS), False)

    def _unknown_access(self, connector: Connector) -> Ended | None:
        """Why content may not be read: nobody could say yet who may read what it brings."""
        self._keep_access_fresh(connector)
        reading = self._parts.jobs.states().get(Job(connector.name, JobKind.PERMISSIONS).name)
        if self._access_at(connector) is not None or (reading is not None and reading.succeeded_at is not None):
            return None
        return Ended(False, "it waits for permissions, which were not read yet", wait=_UNTIL_PERMISSIONS)

    def _access_at(self, connector: Connector) -> datetime | None:
        return self._parts.scopes.ages().get(connector.name)

    def _reader(self, job: Job) -> Reader:
        for reader in self.connector(job).readers():
            if reader.name == job.reader:
                return reader
        raise InvariantError("a job of a reader that the connector does not have", where=job.name)


def _was_checked(report: RunReport) -> bool:
    """Whether a run came to its end and the gate found something wrong."""
    return report.state == "failed" and report.checks.get("passed") is False


def _told(report: RunReport, *, paused: bool = False) -> Ended:
    # What waits for a rewrite of payloads has done its own part.
    ok = paused or report.state in ("complete", "partial", "blocked")
    return Ended(ok, report.reason, again=paused, reports=(report,))
