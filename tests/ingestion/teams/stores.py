"""A sync of Teams into real stores, and what a person finds in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from core.access import Trim
from core.clock import FixedClock
from core.embedding.port import Embedder
from core.index.edge import EdgeIndex
from core.index.port import HybridQuery, SearchLeg
from core.items import Source
from core.principals import Principal
from core.text.tokens import sparse_query
from graph.db import Database
from graph.directory import DirectoryStore
from graph.glossary import GlossaryStore
from graph.inventory import Inventory
from graph.records import ItemStore
from graph.runs import RunStore
from graph.scopes import ScopeStore
from graph.supersession import SupersessionStore
from ingestion.admission import LabelGate
from ingestion.connector import Connector
from ingestion.pipeline import Pipeline
from ingestion.sync import RunReport, Synchronizer
from tests.graph.support import asking

START = datetime(2031, 3, 10, 9, 0, tzinfo=UTC)
LIMIT = timedelta(minutes=5)


class Killed(BaseException):
    """The process ends here."""


class MortalRuns(RunStore):
    """Runs of a process that can be killed just before it commits a checkpoint."""

    def __init__(self, db: Database) -> None:
        super().__init__(db, retry_after=timedelta(0))
        self.commits_left: int | None = None

    def commit_checkpoint(self, source: str, reader: str, data: Mapping[str, Any]) -> None:
        if self.commits_left is not None:
            if self.commits_left == 0:
                raise Killed
            self.commits_left -= 1
        super().commit_checkpoint(source, reader, data)


class Engine:
    """The stores of both planes, and a synchronizer under a clock that is moved by hand."""

    def __init__(
        self,
        database: Database,
        folder: Path,
        embedder: Embedder,
        *,
        labels: tuple[str, ...] = (),
        never_index: str | None = None,
        reconcile_every: timedelta = timedelta(0),
    ) -> None:
        self.clock = FixedClock(START)
        self.embedder = embedder
        self.index = EdgeIndex(folder, embedder=embedder.name, size=embedder.size)
        self.items = ItemStore(database)
        self.scopes = ScopeStore(database, revocation_limit=LIMIT, wall_clock=self.clock)
        self.directory = DirectoryStore(database)
        self.runs = MortalRuns(database)
        self.on_batch: Callable[[], None] = lambda: None
        pipeline = Pipeline(
            items=self.items,
            scopes=self.scopes,
            glossary=GlossaryStore(database),
            supersessions=SupersessionStore(database),
            index=self.index.writer,
            embedder=embedder,
            labels=LabelGate(labels, never_index),
        )
        self.synchronizer = Synchronizer(
            pipeline=pipeline,
            items=self.items,
            scopes=self.scopes,
            directory=self.directory,
            runs=self.runs,
            inventory=Inventory(database),
            index=self.index.writer,
            reconcile_every=reconcile_every,
            wall_clock=self.clock,
            on_progress=lambda progress: None if progress.finished else self.on_batch(),
        )

    def sync(self, connector: Connector) -> dict[str, RunReport]:
        """One whole sync a second later; the reports by reader."""
        self.clock.move_to(self.clock.now() + timedelta(seconds=1))
        return {r.reader: r for r in self.synchronizer.sync([connector])}

    def trim(self, person: Principal) -> Trim:
        """What a person may read."""
        return self.scopes.trim_for(asking(person, *sorted(self.directory.closure(person) - {person})))

    def texts(self, person: Principal) -> dict[str, str]:
        """The text of every thread that a person may read, by address, as the record has it."""
        trim = self.trim(person)
        found = {uri: self.items.full(trim, uri) for uri in sorted(self.items.uris(Source.TEAMS))}
        return {uri: row[1] for uri, row in found.items() if row is not None}

    def search(self, person: Principal, question: str) -> list[str]:
        """Threads in the index in which a word of the question stands, for a person."""
        query = HybridQuery(
            dense=self.embedder.embed_query(question),
            sparse=sparse_query(question),
            legs=(SearchLeg(sources=(Source.TEAMS,), limit=50),),
        )
        found = self.index.reader.search(self.trim(person), query)
        return sorted({c.uri for c in found if c.sparse_score > 0})

    def points(self, person: Principal) -> int:
        """How many chunks the index holds for a person."""
        return self.index.reader.count(self.trim(person))
