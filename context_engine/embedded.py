"""Embedded mode: one process owns Postgres, Qdrant Edge, the schedule and, for a world, the sandbox.

Opening it on a data folder that another process owns is a ConfigError; the command line then talks to that process
(see `running`).
"""

from __future__ import annotations

import fcntl
import os
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, closing
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from fastapi import FastAPI

from context_engine import worlds
from context_engine.audit_wiring import build_audit_plane
from context_engine.auditing import AuditPlane
from context_engine.postgres import EmbeddedPostgres
from context_engine.scheduling import build_runner
from context_engine.stores import Index, WritingHalf, build_embedder, build_index, build_writing_index
from context_engine.wiring import build_api, build_connectors, build_synchronizer, configured_sources
from core.clock import Clock, SystemClock
from core.embedding.port import Embedder
from core.errors import ConfigError
from core.settings import Settings, WebhookSettings
from fixtures.sandbox.server import SandboxServer
from fixtures.sandbox.world_models import World
from graph.db import Database
from graph.jobs import JobStore
from graph.leases import LeaseStore
from graph.migrate import migrate
from graph.runs import RunStore
from graph.scopes import ScopeStore
from ingestion.connector import Connector
from ingestion.schedule import JobKind, JobRunner, jobs_of
from ingestion.sync import ACCESS, Progress, RunReport, Synchronizer
from query.api import create_app

QUERY_ROLE = "context_query"
# Connections of the ingestion plane: two lanes of jobs, each with some at once, and the receiver of deliveries.
_CONNECTIONS = 10


class EmbeddedEngine(AbstractContextManager["EmbeddedEngine"]):
    """Everything in one process. Use as a context manager; `app` is the HTTP API.

    `answers` False: nobody asks, so stores on servers need no credentials of the query plane, and there is no `app`.
    """

    def __init__(
        self,
        *,
        data: Path,
        world: Path | World | None = None,
        settings: Settings | None = None,
        overrides: dict[str, Any] | None = None,
        real_clock: bool = False,
        embedder: Embedder | None = None,
        answers: bool = True,
        on_progress: Callable[[Progress], None] = lambda _: None,
        on_step: Callable[[str], None] = lambda _: None,
    ) -> None:
        if (world is None) == (settings is None):
            raise ConfigError("an engine runs on a world or on settings", mend="Give one of them")
        self._data = data
        self._world = world
        self._given = settings
        self._overrides = overrides or {}
        self._real_clock = real_clock
        self._embedder = embedder
        self._answers = answers
        self._on_progress = on_progress
        self._on_step = on_step
        self._stack = ExitStack()
        self.sandbox: SandboxServer | None = None
        self.stop = threading.Event()

    def __enter__(self) -> EmbeddedEngine:
        try:
            self._open()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _open(self) -> None:
        self._data.mkdir(parents=True, exist_ok=True)
        self._stack.enter_context(owned(self._data))
        if self._world is not None:
            if isinstance(self._world, Path):
                worlds.forget_if_changed(self._world, self._data)
            self._on_step("sandbox")
            self.sandbox = self._stack.enter_context(SandboxServer(self._world, self._data))
            self.settings = worlds.world_settings(self.sandbox, self._data, self._overrides)
        else:
            assert self._given is not None
            self.settings = self._given
        self.clock: Clock = worlds.clock_of(self.sandbox) if self.sandbox and not self._real_clock else SystemClock()
        self._on_step("postgres")
        ingest_url, query_url, audit_url = self._postgres()
        self.database = self._stack.enter_context(closing(Database(ingest_url, max_size=_CONNECTIONS)))
        # Nobody else owns the data folder, so what a killed predecessor still held is let go.
        LeaseStore(self.database).forget(self.holder)
        hooks_url = self.settings.postgres_hooks_url
        self.hooks_database = self._stack.enter_context(
            closing(Database(hooks_url.get_secret_value() if hooks_url is not None else ingest_url))
        )
        self._on_step("model")
        self.embedder = self._embedder or build_embedder(self.settings)
        self._on_step("index")
        self.index: Index | WritingHalf = self._index()
        self._stack.callback(self.index.close)
        self.audit_plane = self._audit_plane(audit_url)
        self.connectors: list[Connector] = build_connectors(self.settings, self.clock)
        for connector in self.connectors:
            self._stack.callback(connector.close)
        self.synchronizer: Synchronizer = build_synchronizer(
            self.settings, self.database, self.index, self.embedder, on_progress=self._on_progress
        )
        self.checks: Mapping[str, Callable[[], object]] = {
            "postgres": self.database.ping,
            "qdrant": self.index.writer.count_points,
        }
        if self._answers:
            assert isinstance(self.index, Index)
            self.query_database = self._stack.enter_context(closing(Database(query_url)))
            self.services = build_api(self.settings, self.query_database, self.index, self.embedder, self.clock)
            self.checks = self.services.checks
            self.app: FastAPI = create_app(self.services)

    def _index(self) -> Index | WritingHalf:
        if not self._answers and self.settings.qdrant_url is not None:
            return build_writing_index(self.settings, self.embedder)
        return build_index(self.settings, self.embedder)

    def _audit_plane(self, url: str | None) -> AuditPlane | None:
        """What looks into answers afterwards; where it lacks a role or a key, no question is kept for it."""
        privileged = self.index.privileged if isinstance(self.index, Index) else None
        if url is None or privileged is None:
            self.settings = self.settings.model_copy(update={"audit_withheld": 0})
            return None
        database = self._stack.enter_context(closing(Database(url, max_size=2, name="postgres (audit)")))
        return build_audit_plane(self.settings, database, privileged, self.embedder)

    def _postgres(self) -> tuple[str, str, str | None]:
        """How each plane gets in; the audit plane's is None where the settings name none."""
        if self.settings.postgres_url is not None:
            ingest = self.settings.postgres_url.get_secret_value()
            query, audit = self.settings.postgres_query_url, self.settings.postgres_audit_url
            if query is None and not self._answers:
                migrate(ingest, query_role=QUERY_ROLE)
                return ingest, "", None
            if query is None:
                raise ConfigError(
                    "the query plane needs a role of its own",
                    where="postgres_query_url",
                    mend=f"Give it the role {QUERY_ROLE}, which `context-engine migrate` grants what it needs",
                )
            migrate(ingest, query_role=QUERY_ROLE)
            return ingest, query.get_secret_value(), audit.get_secret_value() if audit is not None else None
        server = self._stack.enter_context(EmbeddedPostgres(self._data))
        migrate(server.ingest_dsn, query_role=QUERY_ROLE)
        return server.ingest_dsn, server.query_dsn, server.audit_dsn

    def sync(self) -> list[RunReport]:
        """One whole sync: permissions, then content, of every source."""
        return self.synchronizer.sync(self.connectors, between=self.keep_access_fresh)

    def runner(self, webhooks: WebhookSettings | None = None) -> JobRunner:
        """What runs the jobs of the schedule; its crawls end where `stop` is set. `webhooks`: settings of a receiver
        that was started meanwhile."""
        settings = self.settings if webhooks is None else self.settings.model_copy(update={"webhooks": webhooks})
        return build_runner(
            settings,
            self.database,
            self.synchronizer,
            self.connectors,
            holder=self.holder,
            clock=SystemClock(),
            stopping=self.stop.is_set,
        )

    @property
    def holder(self) -> str:
        """Who leases of this engine name: whoever owns this data folder on this machine, so its predecessors too."""
        return f"embedded on {socket.gethostname()} in {self._data.resolve()}"

    @property
    def lease(self) -> timedelta:
        """For how long a lease is taken at a time."""
        return timedelta(seconds=self.settings.lease)

    def jobs(self) -> JobStore:
        """When the jobs of the schedule are due."""
        return JobStore(self.database, SystemClock())

    def read_anew(self) -> None:
        """Let the next sync read every source from the beginning, whatever it has seen."""
        for connector in self.connectors:
            self.synchronizer.forget_checkpoints(connector)

    def sync_access(self) -> list[RunReport]:
        """Permissions and memberships only: what a start needs before it may answer."""
        return [self.synchronizer.sync_access(c) for c in self.connectors]

    def bring_up_to_date(self) -> list[RunReport]:
        """What a start needs before it may answer: everything the first time (or where the last sync was cut short),
        else permissions, and whatever the index lacks of the record. The schedule goes on from there."""
        if self.was_synced():
            self.synchronizer.repair()
            reports, done = self.sync_access(), [JobKind.PERMISSIONS, JobKind.MEMBERSHIPS]
        else:
            reports, done = self.sync(), [JobKind.PERMISSIONS, JobKind.MEMBERSHIPS, JobKind.CONTENT]
        failed = {(r.connector, r.reader) for r in reports if r.state in ("failed", "blocked")}
        jobs = self.jobs()
        for job, every in jobs_of(self.connectors, self.settings):
            if job.kind in done and (job.connector, job.reader or ACCESS) not in failed:
                jobs.put_off(job.name, every=every)
        return reports

    def keep_access_fresh(self) -> None:
        """Read permissions again where they are older than half of what the revocation promise allows."""
        now, limit = SystemClock().now(), self.settings.revocation_limit / 2
        ages = ScopeStore(self.database, revocation_limit=self.settings.revocation_limit).ages()
        for connector in self.connectors:
            last = ages.get(connector.name)
            if last is None or now - last > limit:
                self.synchronizer.sync_access(connector)

    def was_synced(self) -> bool:
        """Whether every source has been synced to its end into this data folder."""
        return set(configured_sources(self.settings)) <= set(RunStore(self.database).synced_at())


def owned(data: Path) -> AbstractContextManager[IO[str]]:
    """Hold the data folder for this process alone."""
    handle = (data / "owner.lock").open("a+", encoding="utf-8")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as e:
        handle.seek(0)
        owner = handle.read().strip() or "another process"
        handle.close()
        raise ConfigError(
            f"the data folder is in use by process {owner}",
            where=str(data),
            mend="Stop it, or give another folder with --data",
        ) from e
    handle.truncate(0)
    handle.write(str(os.getpid()))
    handle.flush()
    return handle
