"""A runner of jobs over real stores and the scripted source, under a clock that is turned by hand."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from core.settings import Settings
from graph.db import Database
from graph.dead_letters import DeadLetters
from graph.jobs import JobStore
from graph.leases import LeaseStore
from ingestion.connector import Connector, Reader
from ingestion.schedule import Agenda, Job, JobKind, JobRunner, RunnerParts
from tests.ingestion.scripted import ScriptedSide, scripted_side

# A flush to a disk takes as long as a whole run of these small stores.
IN_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None

CONTENT = Job("scripted", JobKind.CONTENT, "wikis")
RECONCILIATION = Job("scripted", JobKind.RECONCILIATION, "wikis")
PERMISSIONS = Job("scripted", JobKind.PERMISSIONS)
MEMBERSHIPS = Job("scripted", JobKind.MEMBERSHIPS)
HINTS = Job("scripted", JobKind.HINTS)
PAYLOADS = Job(None, JobKind.PAYLOADS)


class WrittenHints:
    """Hints that a test writes down (`due`: what waits), and what was done about them, in order. `while_reading` is
    what happens while items are read that hints name."""

    def __init__(self) -> None:
        self.due: set[str] = set()
        self.done: list[str] = []
        self.while_reading: Callable[[], None] = lambda: None

    def withhold_gone(self, connector: Connector) -> int:
        return 0

    def waiting(self, connector: Connector) -> set[str]:
        return set(self.due)

    def access(self, connector: Connector) -> bool:
        return self._did("access")

    def items(
        self,
        connector: Connector,
        reader: Reader,
        *,
        between: Callable[[], None] = lambda: None,
        only_items: bool = False,
    ) -> bool:
        self._did(reader.name)
        self.while_reading()
        between()
        return True

    def subscriptions(self, connector: Connector) -> bool:
        return self._did("subscriptions")

    def covered_by_access(self, connector: Connector, began: datetime) -> int:
        self.due.discard("access")
        return 0

    def covered_by_reader(self, connector: Connector, reader: Reader, began: datetime) -> int:
        self.due.discard(reader.name)
        return 0

    def _did(self, what: str) -> bool:
        self.due.discard(what)
        self.done.append(what)
        return True


class Scheduled:
    """The scripted source under a schedule. `runner` is one process; `another` makes a second one over the same
    stores."""

    def __init__(self, side: ScriptedSide, **settings: Any) -> None:
        self.side = side
        self.clock = side.clock
        self.source, self.connector = side.source, side.connector
        self.settings = Settings(**settings)
        self.leases = LeaseStore(side.database, self.clock)
        self.jobs = JobStore(side.database, self.clock)
        self.dead = DeadLetters(side.database, self.clock)
        self.hints = WrittenHints()
        self.stopping = False
        self.runner = self.another("first")

    def another(self, holder: str) -> JobRunner:
        """One more process."""
        return JobRunner(
            RunnerParts(
                synchronizer=self.side.synchronizer,
                connectors=[self.side.connector],
                hints=self.hints,
                leases=self.leases,
                jobs=self.jobs,
                dead=self.dead,
                scopes=self.side.scopes,
                settings=self.settings,
                clock=self.clock,
                holder=holder,
                stopping=lambda: self.stopping,
            )
        )

    def agenda(self) -> Agenda:
        """Everything that there is to do, in one thread."""
        return Agenda(self.runner, self.jobs, self.clock)

    def after(self, seconds: float) -> None:
        """Let time go by."""
        self.clock.advance(timedelta(seconds=seconds))

    def keep_leases(self) -> None:
        """What holders do in the background, by the real clock: here nobody has lost a lease up to now."""
        until = self.clock.now() + timedelta(seconds=self.settings.lease)
        with self.side.database.connection() as connection:
            connection.execute("UPDATE leases SET until = %s WHERE until > '-infinity'", [until])

    def state(self, job: Job, runner: JobRunner | None = None, *, force: bool = False) -> str:
        """Run a job; what became of it."""
        return (runner or self.runner).run(job, force=force).state


@contextmanager
def scheduled(database: Database, **settings: Any) -> Iterator[Scheduled]:
    """A schedule over empty stores that are removed in the end."""
    with (
        tempfile.TemporaryDirectory(prefix="context-engine-schedule-", dir=IN_MEMORY) as folder,
        scripted_side(database, Path(folder)) as side,
    ):
        yield Scheduled(side, **settings)
