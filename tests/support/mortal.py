"""A process that dies at a chosen step: between any two requests, statements, writes to the index or embeddings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from psycopg import Connection
from psycopg.rows import DictRow

from context_engine.wiring import build_synchronizer
from core.embedding.port import Embedder
from core.index.port import DenseVector
from fixtures.sandbox.server import SandboxServer
from graph.db import Database
from ingestion.azure_devops.client import AdoClient
from tests.support.ingest_side import IngestSide
from tests.support.postgres import FreshDatabase
from tests.support.quick_embedder import QuickEmbedder


class Killed(BaseException):
    """The process ends here: nothing after this step happened."""


class Fate:
    """Counts steps, and ends the process at the one that was chosen (`left` None: never)."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.steps = 0

    def step(self, where: str) -> None:
        """One more step; raises Killed where it is the last."""
        self.steps += 1
        if self.left is not None:
            self.left -= 1
            if self.left <= 0:
                self.left = None
                raise Killed(where)


class _MortalDatabase(Database):
    """Dies before a transaction begins, before it commits, or just after."""

    fate: Fate

    @contextmanager
    def connection(self) -> Iterator[Connection[DictRow]]:
        self.fate.step("before a transaction")
        with super().connection() as connection:
            yield connection
            self.fate.step("before a commit")
        self.fate.step("after a commit")


class _MortalClient(AdoClient):
    """Dies before a request or with its answer in hand."""

    fate: Fate

    def exchange(self, method: str, url: str, **more: Any) -> httpx.Response | None:
        self.fate.step(f"before {method} {url}")
        answer = super().exchange(method, url, **more)
        self.fate.step(f"after {method} {url}")
        return answer


class _MortalEmbedder(QuickEmbedder):
    """Dies before it embeds."""

    fate: Fate

    def embed_documents(self, texts: Sequence[str]) -> list[DenseVector]:
        self.fate.step("before embedding")
        return super().embed_documents(texts)


class _MortalShard:
    """The index's engine; dies before or after any write, so in the midst of an item's replacement too."""

    def __init__(self, engine: Any, fate: Fate) -> None:
        self._engine, self._fate = engine, fate

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._engine, name)
        if name not in ("update", "flush"):
            return found

        def call(*given: Any) -> Any:
            self._fate.step(f"before the index's {name}")
            answer = found(*given)
            self._fate.step(f"after the index's {name}")
            return answer

        return call


class MortalSide(IngestSide):
    """An ingestion side whose process can be killed; `restart` begins a new one over the same stores."""

    def __init__(
        self, sandbox: SandboxServer, database: FreshDatabase, folder: Path, embedder: Embedder | None = None
    ) -> None:
        self.fate = Fate()
        super().__init__(sandbox, database, folder, embedder)

    def open(self) -> None:
        """Start, with the index's engine under the same fate as the rest."""
        super().open()
        shard = self.index._shard
        shard._engine = _MortalShard(shard._engine, self.fate)  # type: ignore[assignment]

    def make_embedder(self) -> Embedder:
        """An embedder that can die."""
        made = _MortalEmbedder()
        made.fate = self.fate
        return made

    def make_database(self, dsn: str) -> Database:
        """A way to Postgres that can die."""
        made = _MortalDatabase(dsn, max_size=2)
        made.fate = self.fate
        return made

    def make_client(self) -> AdoClient:
        """A client that can die."""
        assert self.settings.azure_devops is not None
        made = _MortalClient(self.settings.azure_devops, sleep=lambda _: None, jitter=lambda: 0.0, now=lambda: 0.0)
        made.fate = self.fate
        return made

    def restart(self) -> None:
        """A new process: what was in memory is gone; the stores are as the dead one left them."""
        for connector in self.connectors:
            connector.close()
        self.connectors = self.make_connectors()
        self.synchronizer = build_synchronizer(self.settings, self.database, self.make_index(), self.embedder)

    def die(self, after: int, work: Callable[[], Any]) -> str | None:
        """Work until the step of that number, then begin a new process; where it died, None where it came to its
        end before."""
        self.fate.left = after
        try:
            work()
        except Killed as e:
            self.restart()
            return str(e)
        finally:
            self.fate.left = None
        return None
