"""A sync: permissions first, then each reader's changes, then the checks without which a run is not complete.

One run a reader. A batch is committed as: record, index, flush, checkpoint; killed anywhere, the next run goes on
from the last checkpoint and meets its own half-done work again without doubling it. What a failed run brought is
kept; a list that broke off deletes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from core.clock import Clock, SystemClock
from core.errors import ContextEngineError, SourceError, SourceGoneError, StoreUnavailableError
from core.index.port import IndexWriter
from graph.directory import DirectoryStore
from graph.records import ItemStore
from graph.runs import RunStore
from graph.scopes import ScopeStore
from ingestion.connector import (
    Change,
    Connector,
    Failure,
    ItemDeleted,
    ItemUpserted,
    Reader,
    Skipped,
    Unlisted,
    Unreadable,
)
from ingestion.pipeline import Pipeline, Tally

ACCESS = "access"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a reader is: `total` None where the source does not tell."""

    connector: str
    reader: str
    done: int
    total: int | None
    finished: bool = False


@dataclass(frozen=True, slots=True)
class RunReport:
    """How one reader's run ended: `complete`, `partial` (something failed and is told) or `failed` (broke off)."""

    connector: str
    reader: str
    state: str
    counts: Mapping[str, int]
    reason: str | None = None


class Synchronizer:
    """Runs connectors against the stores."""

    def __init__(
        self,
        *,
        pipeline: Pipeline,
        items: ItemStore,
        scopes: ScopeStore,
        directory: DirectoryStore,
        runs: RunStore,
        index: IndexWriter,
        wall_clock: Clock | None = None,
        on_progress: Callable[[Progress], None] = lambda _: None,
    ) -> None:
        self._pipeline = pipeline
        self._items = items
        self._scopes = scopes
        self._directory = directory
        self._runs = runs
        self._index = index
        self._clock = wall_clock or SystemClock()
        self._on_progress = on_progress

    def sync(self, connectors: Sequence[Connector], *, between: Callable[[], None] = lambda: None) -> list[RunReport]:
        """Repair what a kill left, then permissions of every source, then every reader. Never raises for a source:
        a source that fails is a failed report; a store that is down raises StoreUnavailableError.

        `between` is called before each reader and at the end: a long crawl must not let permissions grow too old.
        """
        self.repair()
        reports = [self.sync_access(c) for c in connectors]
        readable = {r.connector for r in reports if r.state != "failed"}
        for connector in connectors:
            if connector.name in readable:
                for reader in connector.readers():
                    between()
                    reports.append(self.sync_reader(connector, reader))
        between()
        return reports

    def repair(self) -> None:
        """Finish what a kill left half-done, and index again what a lost index no longer holds."""
        self._pipeline.repair(at=self._now(), tally=Tally())
        self._pipeline.flush()

    def sync_access(self, connector: Connector) -> RunReport:
        """Read who may read what, obey it at once, then bring the index's payloads up to it."""
        run = self._runs.start(connector.name, ACCESS)
        tally = Tally()
        at = self._now()  # what is read is as old as the moment at which reading began
        try:
            snapshot = connector.access()
        except SourceError as e:
            return self._end(run, connector.name, ACCESS, "failed", tally, str(e))
        self._directory.apply(snapshot.source, snapshot.people, snapshot.containers, complete=snapshot.complete, at=at)
        changes = self._scopes.apply(snapshot.source, snapshot.scopes, complete=snapshot.complete, at=at)
        tally.add("scopes", len(snapshot.scopes))
        tally.add("changed", sum(c.changed for c in changes))
        for kind, n in snapshot.unknown_principals.items():
            tally.add(f"unknown_principal_kind:{kind}", n)
        self.write_access()
        unread = [c.principal for c in snapshot.containers if c.members is None]
        tally.add("unread_containers", len(unread))
        if snapshot.complete:
            self._scopes.touch(snapshot.source, at)
            return self._end(run, connector.name, ACCESS, "complete", tally, None)
        return self._end(run, connector.name, ACCESS, "partial", tally, "; ".join(snapshot.notes) or "partial")

    def write_access(self) -> None:
        """Rewrite the payload of scopes whose rule changed. Queries obey the new rule already; this only lets a
        grant be found and shortens the list of blocked scopes."""
        for scope_id, allowed, version in self._scopes.pending():
            self._index.set_access(scope_id, sorted(allowed), version)
            self._scopes.mark_indexed(scope_id, version)

    def sync_reader(self, connector: Connector, reader: Reader) -> RunReport:
        """Run one reader from its checkpoint to the end of what the source has."""
        run = self._runs.start(connector.name, reader.name, reader.source)
        tally = Tally()
        checkpoint = self._runs.checkpoint(connector.name, reader.name)
        full = checkpoint is None
        seen: set[str] = set()
        try:
            self._retry(reader, tally, seen)
            try:
                self._read(connector, reader, checkpoint, tally, seen)
            except SourceGoneError:
                tally.add("resynced")
                full = True
                seen.clear()
                self._read(connector, reader, None, tally, seen)
            self._reconcile(reader, tally, seen if full else None)
        except SourceError as e:
            return self._end(run, connector.name, reader.name, "failed", tally, str(e))
        problems = self._check(tally)
        state = "partial" if problems else "complete"
        return self._end(run, connector.name, reader.name, state, tally, problems)

    def _read(
        self,
        connector: Connector,
        reader: Reader,
        checkpoint: Mapping[str, Any] | None,
        tally: Tally,
        seen: set[str],
    ) -> None:
        for batch in reader.read(checkpoint):
            self._apply(reader, batch.changes, tally, seen)
            self._pipeline.flush()
            self._runs.commit_checkpoint(connector.name, reader.name, batch.checkpoint)
            self._on_progress(Progress(connector.name, reader.name, *batch.progress))

    def _apply(self, reader: Reader, changes: Iterable[Change], tally: Tally, seen: set[str]) -> None:
        at = self._now()
        for change in changes:
            match change:
                case ItemUpserted(item):
                    seen.add(item.uri)
                    try:
                        self._pipeline.upsert(item, at=at, tally=tally)
                        self._runs.clear_failure(item.uri)
                    except ContextEngineError as e:
                        if not _is_items_own_fault(e):
                            raise
                        self._runs.fail(item.source.value, item.uri, str(e), at)
                        tally.add("failed")
                case ItemDeleted(uri, deleted_at):
                    self._pipeline.delete(
                        [uri], at=at, reason="deleted at the source", tally=tally, deleted_at=deleted_at
                    )
                    self._runs.clear_failure(uri)
                case Failure(uri, reason, hide):
                    seen.add(uri)
                    if hide:
                        self._pipeline.hide(uri, reason=reason, at=at)
                    self._runs.fail(reader.source.value, uri, reason, at)
                    tally.add("failed")
                case Skipped(_, reason):
                    tally.add("skipped")
                    tally.add(f"skipped:{reason}")
                case Unreadable(where):
                    tally.add("unreadable")
                    tally.add(f"unreadable:{where}")

    def _retry(self, reader: Reader, tally: Tally, seen: set[str]) -> None:
        """Read again what failed in an earlier run: its checkpoint has moved past it."""
        failed = [f.uri for f in self._runs.failures(reader.source.value)]
        if failed:
            self._apply(reader, reader.fetch(failed), tally, seen)
            tally.add("retried", len(failed))

    def _reconcile(self, reader: Reader, tally: Tally, full_read: set[str] | None) -> None:
        """Find what the source no longer has: by its own list, or by a full read that came to its end."""
        listed = reader.present()
        found = set(listed) if listed is not None else full_read
        if found is None:
            return
        unlisted = tuple(x.prefix for x in found if isinstance(x, Unlisted))
        if unlisted:
            tally.add("unlisted", len(unlisted))
        gone = {uri for uri in self._items.uris(reader.source) - found if not uri.startswith(unlisted)}
        if gone:
            self._pipeline.delete(
                sorted(gone), at=self._now(), reason="no longer at the source", tally=tally, stated=False
            )
            self._pipeline.flush()

    def _check(self, tally: Tally) -> str | None:
        """What keeps a run from being complete: items that failed, or a record that the index does not match."""
        problems = []
        if tally.counts["failed"]:
            problems.append(f"{tally.counts['failed']} items failed and will be retried")
        if tally.counts["unreadable"]:
            names = sorted(k.removeprefix("unreadable:") for k in tally.counts if k.startswith("unreadable:"))
            problems.append(f"not readable for the connector, so withheld: {', '.join(names[:10])}")
        if tally.counts["unlisted"]:
            problems.append(f"{tally.counts['unlisted']} parts could not be listed, so nothing there was taken as gone")
        behind = sum(1 for _ in self._items.not_indexed())
        if behind:
            problems.append(f"{behind} items are not in the index yet")
        return "; ".join(problems) or None

    def _end(self, run: int, connector: str, reader: str, state: str, tally: Tally, reason: str | None) -> RunReport:
        counts = dict(sorted(tally.counts.items()))
        self._runs.finish(run, state, reason, counts)
        self._on_progress(Progress(connector, reader, 1, 1, finished=True))
        return RunReport(connector, reader, state, counts, reason)

    def _now(self) -> datetime:
        return self._clock.now()


def _is_items_own_fault(error: ContextEngineError) -> bool:
    """An item that can't be processed is recorded and passed over; a store that is down stops the run."""
    return not isinstance(error, StoreUnavailableError)
