"""The ingestion plane of one engine on a running sandbox: real connectors, Postgres and the embedded index."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msrest.universal_http.requests import ClientRetryPolicy

from context_engine.stores import Index
from context_engine.wiring import build_synchronizer
from context_engine.worlds import world_settings
from core.embedding.port import Embedder
from core.index.edge import EdgeIndex
from core.settings import Settings
from fixtures.sandbox.server import SandboxServer
from graph.db import Database
from ingestion.azure_devops.client import AdoClient
from ingestion.azure_devops.connector import AzureDevOpsConnector
from ingestion.connector import Connector
from ingestion.sync import RunReport, Synchronizer
from ingestion.teams.client import GraphClient
from ingestion.teams.connector import TeamsConnector
from tests.support.postgres import FreshDatabase, PostgresServer
from tests.support.quick_embedder import QuickEmbedder
from tests.support.state_dump import Dump, dump

# For every client that it makes the SDK looks 999 statuses up in a list: a tenth of the time of what dies often.
ClientRetryPolicy.safe_codes = frozenset(ClientRetryPolicy.safe_codes)
# A flush to a disk takes as long as a whole run of these small stores.
_IN_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class IngestSide:
    """Stores that outlive a process, and the process over them: `reopen` is a new start of it."""

    def __init__(
        self, sandbox: SandboxServer, database: FreshDatabase, folder: Path, embedder: Embedder | None = None
    ) -> None:
        self.sandbox, self.folder = sandbox, folder
        self._dsn = database.ingest_dsn
        self.urls = (database.ingest_dsn, database.query_dsn)
        self._embedder = embedder or QuickEmbedder()
        self.settings: Settings = world_settings(sandbox, folder)
        self.open()

    def open(self) -> None:
        """Start: connect to the stores and to the sources."""
        self.embedder = self.make_embedder()
        self.database = self.make_database(self._dsn)
        self.index = EdgeIndex(self.folder / "qdrant", size=self.embedder.size, embedder=self.embedder.name)
        self.connectors: list[Connector] = self.make_connectors()
        self.synchronizer: Synchronizer = build_synchronizer(
            self.settings, self.database, self.make_index(), self.embedder
        )

    def make_embedder(self) -> Embedder:
        """The embedder of this process."""
        return self._embedder

    def make_database(self, dsn: str) -> Database:
        """The way to Postgres of this process."""
        return Database(dsn, max_size=2)

    def make_index(self) -> Index:
        """The two halves of the index as this process uses them."""
        return Index(self.index.reader, self.index.writer, self.index.close)

    def make_connectors(self) -> list[Connector]:
        """Microsoft Graph for people and groups, Azure DevOps; their clients never really sleep."""
        graph, devops = self.settings.graph, self.settings.azure_devops
        assert graph is not None
        assert devops is not None
        teams = TeamsConnector(graph, client=GraphClient(graph, sleep=lambda _: None, jitter=lambda: 0.0))
        return [teams, AzureDevOpsConnector(devops, client=self.make_client())]

    def make_client(self) -> AdoClient:
        """The client of Azure DevOps."""
        assert self.settings.azure_devops is not None
        return AdoClient(self.settings.azure_devops, sleep=lambda _: None, jitter=lambda: 0.0, now=lambda: 0.0)

    def close(self) -> None:
        """The process ends in good order."""
        for connector in self.connectors:
            connector.close()
        self.index.close()
        self.database.close()

    def sync(self) -> list[RunReport]:
        """One whole sync."""
        return self.synchronizer.sync(self.connectors)

    def settle(self, times: int = 2) -> list[str]:
        """Sync until what vanished is confirmed as gone; what broke off or is blocked in the end."""
        reports: Sequence[RunReport] = ()
        for _ in range(times):
            reports = self.sync()
        wrong = [r for r in reports if r.state not in ("complete", "partial")]
        return [f"{r.connector} {r.reader} is {r.state}: {r.reason}" for r in wrong]

    def dump(self) -> Dump:
        """Everything that the stores hold."""
        return dump(self.database, self.index)


@contextmanager
def ingest_side(
    sandbox: SandboxServer, postgres: PostgresServer, side: type[IngestSide] = IngestSide
) -> Iterator[IngestSide]:
    """An engine's ingestion side on empty stores, which are removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="context-engine-side-", dir=_IN_MEMORY))
    database = postgres.fresh_database()
    made = side(sandbox, database, folder)
    try:
        yield made
    finally:
        made.close()
        postgres.drop(database)
        shutil.rmtree(folder, ignore_errors=True)


def whole_read(sandbox: SandboxServer, postgres: PostgresServer, side: type[IngestSide] = IngestSide) -> Dump:
    """What an engine that begins with nothing makes of the sources as they are now."""
    with ingest_side(sandbox, postgres, side) as fresh:
        problems = fresh.settle(1)
        assert not problems, problems
        return fresh.dump()
