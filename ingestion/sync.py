"""A sync: permissions first, then each reader's changes, then the checks without which a run is not complete.

One run a reader. A batch is committed as: record, index, flush, checkpoint; killed anywhere, the next run goes on
from the last checkpoint and meets its own half-done work again without doubling it. What a failed run brought is
kept; a list that broke off deletes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from core.clock import Clock, SystemClock
from core.errors import SourceError, SourceGoneError
from core.index.port import IndexWriter
from core.items import Source
from core.text.chunk import CHUNKING
from graph.directory import DirectoryStore
from graph.inventory import Inventory
from graph.records import ItemStore
from graph.runs import RunStore
from graph.scopes import ScopeStore
from ingestion.changes import Applier
from ingestion.connector import Connector, Reader
from ingestion.gate import Gate
from ingestion.pipeline import Pipeline, Tally
from ingestion.reconcile import Reconciler

ACCESS = "access"
# Under which name it is kept how the record's texts were cut.
_CHUNKS = "chunks"


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
    """How one reader's run ended: `complete`, `partial` (something failed and is told), `failed` (it broke off, or
    the checks did not pass) or `blocked` (it waits for something else). `checks` is what the gate found."""

    connector: str
    reader: str
    state: str
    counts: Mapping[str, int]
    reason: str | None = None
    checks: Mapping[str, Any] = field(default_factory=dict)


class Synchronizer:
    """Runs connectors against the stores. `reconcile_every`: how often a reader's whole list is held against the
    record; a full read and items that were missed before bring it forward."""

    def __init__(
        self,
        *,
        pipeline: Pipeline,
        items: ItemStore,
        scopes: ScopeStore,
        directory: DirectoryStore,
        runs: RunStore,
        inventory: Inventory,
        index: IndexWriter,
        reconcile_every: timedelta = timedelta(0),
        wall_clock: Clock | None = None,
        on_progress: Callable[[Progress], None] = lambda _: None,
    ) -> None:
        self._pipeline = pipeline
        self._scopes = scopes
        self._directory = directory
        self._runs = runs
        self._index = index
        self._clock = wall_clock or SystemClock()
        self._on_progress = on_progress
        self._applier = Applier(pipeline=pipeline, items=items, runs=runs)
        self._reconciler = Reconciler(
            applier=self._applier, pipeline=pipeline, items=items, runs=runs, every=reconcile_every
        )
        self._gate = Gate(inventory, index)

    def sync(self, connectors: Sequence[Connector], *, between: Callable[[], None] = lambda: None) -> list[RunReport]:
        """Repair what a kill left, then permissions of every source, then every reader. Never raises for a source:
        a source that fails is a failed report; a store that is down raises StoreUnavailableError.

        `between` is called before each reader, after each batch and at the end: a long crawl must not let permissions
        grow too old. A reader whose run does not pass the gate is repaired and run once more.
        """
        self.repair()
        reports = [self.sync_access(c) for c in connectors]
        unread = {r.connector: r for r in reports if r.state == "failed"}
        for connector in connectors:
            for reader in connector.readers():
                if connector.name in unread:
                    reports.append(self._blocked(connector, reader, unread[connector.name]))
                    continue
                between()
                looked_at = self._now()
                report = self.sync_reader(connector, reader, between=between, looked_at=looked_at)
                if report.state == "failed" and report.checks.get("passed") is False:
                    self.repair()
                    report = self.sync_reader(connector, reader, between=between, looked_at=looked_at)
                reports.append(report)
        between()
        return reports

    def repair(self) -> None:
        """Finish what a kill left half-done, cut anew what an older version of ours cut, and index again what a lost
        index no longer holds."""
        self.write_access()
        self._cut_anew()
        self._pipeline.repair(at=self._now(), tally=Tally())
        self._pipeline.flush()

    def _cut_anew(self) -> None:
        """Once after an upgrade that cuts texts otherwise; killed half-way, it begins again and skips what is done."""
        for source in Source:
            done = self._runs.checkpoint(_CHUNKS, source.value)
            if done is None or done.get("chunking") != CHUNKING:
                self._pipeline.cut_anew(source)
                self._runs.commit_checkpoint(_CHUNKS, source.value, {"chunking": CHUNKING})

    def forget_checkpoints(self, connector: Connector) -> None:
        """Let the next run of each reader of a connector read everything from the beginning. Nothing is deleted or
        embedded for that: what is unchanged stays as it is."""
        for reader in connector.readers():
            self._runs.forget_checkpoint(connector.name, reader.name)

    def sync_access(self, connector: Connector) -> RunReport:
        """Read who may read what, obey it at once, then bring the index's payloads up to it."""
        run = self._runs.start(connector.name, ACCESS)
        tally, before = Tally(), connector.asked()
        at = self._now()  # what is read is as old as the moment at which reading began
        try:
            snapshot = connector.access()
        except SourceError as e:
            _count_asked(connector, before, tally)
            return self._end(run, connector.name, ACCESS, "failed", tally, str(e))
        self._directory.apply(snapshot.source, snapshot.people, snapshot.containers, complete=snapshot.complete, at=at)
        changes = self._scopes.apply(snapshot.source, snapshot.scopes, complete=snapshot.complete, at=at)
        _count_asked(connector, before, tally)
        tally.add("scopes", len(snapshot.scopes))
        tally.add("changed", sum(c.changed for c in changes))
        tally.add("closed_scopes", sum(not s.acl.gates for s in snapshot.scopes))
        for kind, n in snapshot.unknown_principals.items():
            tally.add(f"unknown_principal_kind:{kind}", n)
        self.write_access()
        unread = [c.principal for c in snapshot.containers if c.half_known]
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

    def sync_reader(
        self,
        connector: Connector,
        reader: Reader,
        *,
        between: Callable[[], None] = lambda: None,
        looked_at: datetime | None = None,
    ) -> RunReport:
        """Run one reader from its checkpoint to the end of what the source has, and let it pass the gate.

        Runs with the same `looked_at` are one look at the source: what both of them miss was missed once.
        """
        run = self._runs.start(connector.name, reader.name, reader.source)
        at = looked_at or self._now()
        tally, before = Tally(), connector.asked()
        checkpoint = self._runs.checkpoint(connector.name, reader.name)
        full = checkpoint is None
        seen: set[str] = set()
        try:
            self._applier.retry(reader, at, tally, seen)
            try:
                self._read(connector, reader, checkpoint, tally, seen, between, at)
            except SourceGoneError:
                tally.add("resynced")
                full = True
                seen.clear()
                self._read(connector, reader, None, tally, seen, between, at)
            self._reconciler.reconcile(connector.name, reader, at, tally, seen if full else None)
        except SourceError as e:
            _count_asked(connector, before, tally)
            return self._end(run, connector.name, reader.name, "failed", tally, str(e))
        _count_asked(connector, before, tally)
        verdict = self._gate.check(reader.source)
        told = _told(tally)
        if verdict.blocked_by is not None:
            state, reason = "blocked", verdict.blocked_by
        elif verdict.wrong is not None:
            state, reason = "failed", verdict.wrong
        else:
            state, reason = ("partial" if told else "complete"), None
        reasons = "; ".join(x for x in (reason, told) if x) or None
        return self._end(run, connector.name, reader.name, state, tally, reasons, verdict.as_checks())

    def _read(
        self,
        connector: Connector,
        reader: Reader,
        checkpoint: Mapping[str, Any] | None,
        tally: Tally,
        seen: set[str],
        between: Callable[[], None],
        run_at: datetime,
    ) -> None:
        for batch in reader.read(checkpoint):
            self._applier.apply(reader, batch.changes, self._now(), tally, seen, run_at=run_at)
            self._pipeline.flush()
            self._runs.commit_checkpoint(connector.name, reader.name, batch.checkpoint)
            self._on_progress(Progress(connector.name, reader.name, *batch.progress))
            between()

    def _blocked(self, connector: Connector, reader: Reader, access: RunReport) -> RunReport:
        """The run of a reader that may not begin, because nobody could say who may read what it brings."""
        run = self._runs.start(connector.name, reader.name, reader.source)
        reason = f"the permissions could not be read: {access.reason}"
        return self._end(run, connector.name, reader.name, "blocked", Tally(), reason)

    def _end(
        self,
        run: int,
        connector: str,
        reader: str,
        state: str,
        tally: Tally,
        reason: str | None,
        checks: Mapping[str, Any] | None = None,
    ) -> RunReport:
        counts = {word: n for word, n in sorted(tally.counts.items()) if n}
        self._runs.finish(run, state, reason, counts, checks)
        self._on_progress(Progress(connector, reader, 1, 1, finished=True))
        return RunReport(connector, reader, state, counts, reason, checks or {})

    def _now(self) -> datetime:
        return self._clock.now()


def _count_asked(connector: Connector, before: Mapping[str, int], tally: Tally) -> None:
    """Count what was asked of the source since `before` (permissions that were looked at meanwhile, too)."""
    for word, n in connector.asked().items():
        tally.add(word, n - before.get(word, 0))


def _told(tally: Tally) -> str | None:
    """What kept a run from reading everything, in words."""
    counts, told = tally.counts, []
    if counts["failed"]:
        told.append(f"{counts['failed']} items failed and will be retried")
    if counts["unreadable"]:
        names = sorted(k.removeprefix("unreadable:") for k in counts if k.startswith("unreadable:"))
        told.append(f"not readable for the connector, so withheld: {', '.join(names[:10])}")
    if counts["unlisted"]:
        told.append(f"{counts['unlisted']} parts could not be listed, so nothing there was taken as gone")
    return "; ".join(told) or None
