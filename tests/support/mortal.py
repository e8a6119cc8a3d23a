"""A process that dies at a chosen step: between any two requests, statements, writes to the index or embeddings."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

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

_IDS: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{40}|\d+|(?<=Memberships/)[^/]+")


class Killed(BaseException):
    """The process ends here: nothing after this step happened."""


class Fate:
    """Knows every step by name, and ends the process at the one that was chosen.

    `left`: after so many steps; `name` and `nth`: at the n-th step of that name. `seen` counts the steps so far.
    """

    def __init__(self) -> None:
        self.left: int | None = None
        self.name: str | None = None
        self.nth = 0
        self.seen: Counter[str] = Counter()

    def step(self, name: str) -> None:
        """One more step; raises Killed where it is the last."""
        self.seen[name] += 1
        if self.left is not None:
            self.left -= 1
        if name == self.name:
            self.nth -= 1
        if self.left == 0 or (self.name is not None and self.nth == 0):
            self.spare()
            raise Killed(name)

    def spare(self) -> None:
        """Let the process live."""
        self.left, self.name, self.nth = None, None, 0


def _deed() -> str:
    """Which of our functions is at work in the record or the index: the name that its steps go by."""
    frame = sys._getframe(2)
    while frame.f_back is not None:
        file, name = frame.f_code.co_filename, frame.f_code.co_name
        if ("/graph/" in file and "/graph/db.py" not in file and name != "work") or "/ingestion/" in file:
            return name
        frame = frame.f_back
    return "nobody"


class _MortalDatabase(Database):
    """Dies before a transaction begins, before it commits, or just after."""

    fate: Fate

    @contextmanager
    def connection(self) -> Iterator[Connection[DictRow]]:
        deed = _deed()
        self.fate.step(f"before {deed}")
        with super().connection() as connection:
            yield connection
            self.fate.step(f"before {deed} is committed")
        self.fate.step(f"after {deed}")


class _MortalClient(AdoClient):
    """Dies before a request or with its answer in hand."""

    fate: Fate

    def exchange(self, method: str, url: str, **more: Any) -> httpx.Response | None:
        place = _IDS.sub("…", url.partition("?")[0].partition("/_apis/")[2])
        self.fate.step(f"before {method} {place}")
        answer = super().exchange(method, url, **more)
        self.fate.step(f"after {method} {place}")
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
            deed = _deed()
            self._fate.step(f"before the index's {name} of {deed}")
            answer = found(*given)
            self._fate.step(f"after the index's {name} of {deed}")
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

    def die(self, *, after: int | None = None, at: str | None = None, nth: int = 1) -> str | None:
        """Work until so many steps are done, or until the n-th step of that name, then begin a new process; where it
        died, None where it came to its end before."""
        self.fate.left, self.fate.name, self.fate.nth = after, at, nth
        try:
            self.work()
        except Killed as e:
            self.restart()
            return str(e)
        finally:
            self.fate.spare()
        return None

    def work(self) -> None:
        """What the process does with its life."""
        self.sync()
