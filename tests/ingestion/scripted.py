"""A source in a few lines, behind the real port: tests say what it has, what it refuses and what it says is gone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from core.clock import FixedClock
from core.errors import SourceError
from core.index.edge import EdgeIndex
from core.items import Source
from graph.db import Database
from graph.directory import DirectoryStore
from graph.glossary import GlossaryStore
from graph.inventory import Inventory
from graph.records import ItemStore
from graph.runs import RunStore
from graph.scopes import ScopeStore
from graph.supersession import SupersessionStore
from ingestion.admission import LabelGate
from ingestion.azure_devops.connector import ADMISSION
from ingestion.connector import (
    AccessSnapshot,
    Admission,
    Batch,
    Change,
    Failure,
    ItemMissing,
    ItemUpserted,
    Reader,
    Unlisted,
)
from ingestion.pipeline import Pipeline
from ingestion.sync import RunReport, Synchronizer
from tests.graph.support import IRIS, allow, item, scope
from tests.support.quick_embedder import QuickEmbedder

START = datetime(2031, 3, 10, 9, 0, tzinfo=UTC)


class ScriptedReader:
    """Gives `items` (address → text) whole each time; `broken` are addresses that can't be read, `refused` are
    prefixes that are not shown to us, `extra` are changes that it yields besides."""

    name = "wikis"
    source = Source.WIKIS

    def __init__(self) -> None:
        self.items: dict[str, str] = {}
        self.broken: set[str] = set()
        self.refused: set[str] = set()
        self.unlisted = False
        self.list_breaks = False
        self.read_breaks = False
        self.extra: list[Change] = []
        self.fetched: list[str] = []
        self.listed = 0
        self.in_scope = "open"
        self.per_batch = 100

    def read(self, checkpoint: Mapping[str, Any] | None) -> Iterator[Batch]:
        if self.read_breaks:
            raise SourceError("the source broke off")
        given = dict(checkpoint or {}).get("given", {})
        changed = [u for u in sorted(self.items) if given.get(u) != self.items[u] and not self._is_refused(u)]
        changes = [self._change(u) for u in changed] + self.extra
        for start in range(0, max(1, len(changes)), self.per_batch):
            some = changes[start : start + self.per_batch]
            given |= {u: self.items[u] for u in changed[start : start + self.per_batch]}
            yield Batch(changes=tuple(some), checkpoint={"given": dict(given)}, progress=(len(given), None))

    def fetch(self, uris: Sequence[str]) -> Iterator[Change]:
        for uri in uris:
            self.fetched.append(uri)
            yield self._change(uri) if uri in self.items else ItemMissing(uri)

    def present(self) -> Iterator[str | Unlisted]:
        self.listed += 1
        if self.list_breaks:
            raise SourceError("the list broke off")
        for prefix in sorted(self.refused):
            yield Unlisted(prefix, "refused", withhold=True)
        if self.unlisted:
            yield Unlisted("ctx://", "not listed")
            return
        yield from (u for u in self.items if not self._is_refused(u))

    def _is_refused(self, uri: str) -> bool:
        return uri.startswith(tuple(self.refused))

    def _change(self, uri: str) -> Change:
        if uri in self.broken:
            return Failure(uri, f"the answer has an unexpected shape ({uri})")
        return ItemUpserted(item(uri, self.in_scope, text=self.items[uri]))


class ScriptedConnector:
    """One reader, and one scope that Iris may read; `access_fails` and `half_read` are what goes wrong."""

    name = "scripted"

    def __init__(self) -> None:
        self.reader = ScriptedReader()
        self.access_fails = False
        self.accessed = 0

    @property
    def admission(self) -> Admission:
        return ADMISSION

    def access(self) -> AccessSnapshot:
        self.accessed += 1
        if self.access_fails:
            raise SourceError("the projects can't be listed")
        return AccessSnapshot(source=self.name, scopes=(scope("open", allow(IRIS)),))

    def memberships(self) -> AccessSnapshot:
        return AccessSnapshot(source=self.name, memberships_only=True)

    def access_of(self, places: Sequence[str]) -> AccessSnapshot | None:
        return None

    def readers(self) -> tuple[Reader, ...]:
        return (self.reader,)

    def asked(self) -> Mapping[str, int]:
        return {}

    def scope_of(self, uri: str) -> None:
        return None

    def close(self) -> None:
        return None


class ScriptedSide:
    """The ingestion plane over real stores, and the scripted source; each sync is a minute after the last."""

    def __init__(self, database: Database, folder: Path, *, reconcile_every: timedelta = timedelta(0)) -> None:
        self.clock = FixedClock(START)
        self.embedder = QuickEmbedder()
        self.index = EdgeIndex(folder, embedder=self.embedder.name, size=self.embedder.size)
        self.items = ItemStore(database)
        self.scopes = ScopeStore(database, revocation_limit=timedelta(minutes=5), wall_clock=self.clock)
        self.runs = RunStore(database, retry_after=timedelta(minutes=10))
        self.database = database
        self.connector = ScriptedConnector()
        self.source = self.connector.reader
        pipeline = Pipeline(
            items=self.items,
            scopes=self.scopes,
            glossary=GlossaryStore(database),
            supersessions=SupersessionStore(database),
            index=self.index.writer,
            embedder=self.embedder,
            labels=LabelGate((), None),
        )
        self.synchronizer = Synchronizer(
            pipeline=pipeline,
            items=self.items,
            scopes=self.scopes,
            directory=DirectoryStore(database),
            runs=self.runs,
            inventory=Inventory(database),
            index=self.index.writer,
            reconcile_every=reconcile_every,
            wall_clock=self.clock,
        )

    def sync(self, *, after: timedelta = timedelta(minutes=1), between: Callable[[], None] = lambda: None) -> RunReport:
        """One sync; the reader's report."""
        self.clock.move_to(self.clock.now() + after)
        return self.synchronizer.sync([self.connector], between=between)[-1]

    def indexed(self) -> dict[str, str]:
        """Address → scope of every point of the source in the index."""
        return {p.uri: p.scope for p in self.index.writer.inventory(Source.WIKIS)}

    def life(self, uri: str) -> str | None:
        """live, hidden or deleted; None where it is not known."""
        with self.database.connection() as connection:
            row = connection.execute("SELECT lifecycle FROM items WHERE uri = %s", [uri]).fetchone()
        return row["lifecycle"] if row else None


@contextmanager
def scripted_side(database: Database, folder: Path, **given: Any) -> Iterator[ScriptedSide]:
    """A side that is closed in the end."""
    side = ScriptedSide(database, folder, **given)
    try:
        yield side
    finally:
        side.index.close()
