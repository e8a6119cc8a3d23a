"""A sync: permissions first, then each reader's changes, then the checks without which a run is not complete.

One run a reader. A batch is committed as: record, index, flush, checkpoint; killed anywhere, the next run goes on
from the last checkpoint and meets its own half-done work again without doubling it. What a failed run brought is
kept; a list that broke off deletes nothing.

Runs of different readers may go on at once, in one process or several; those of one reader one after the other, which
is for the caller to see to (`ingestion.schedule`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
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
from ingestion.access_sync import ACCESS as ACCESS
from ingestion.access_sync import AccessSync
from ingestion.changes import Applier
from ingestion.connector import Connector, Reader
from ingestion.gate import Gate
from ingestion.pipeline import Pipeline, Tally
from ingestion.reconcile import Reconciler
from ingestion.report import Progress as Progress
from ingestion.report import RunReport as RunReport
from ingestion.report import RunWriter, count_asked, told

# Under which name it is kept how the record's texts were cut.
_CHUNKS = "chunks"


class Synchronizer(AccessSync):
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
        clock = wall_clock or SystemClock()
        writer = RunWriter(runs, on_progress)
        super().__init__(scopes=scopes, directory=directory, runs=runs, index=index, writer=writer, clock=clock)
        self._pipeline = pipeline
        self._items = items
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

    def repair(self, source: Source | None = None) -> None:
        """Finish what a kill left half-done, cut anew what an older version of ours cut, and index again what a lost
        index no longer holds; of one source, or of all and the payloads of rules."""
        if source is None:
            self.write_access()
        for each in Source if source is None else (source,):
            self._cut_anew(each)
        self._pipeline.repair(at=self._now(), tally=Tally(), source=source)
        self._pipeline.flush()

    def _cut_anew(self, source: Source) -> None:
        """Once after an upgrade that cuts texts otherwise; killed half-way, it begins again and skips what is done."""
        done = self._runs.checkpoint(_CHUNKS, source.value)
        if done is None or done.get("chunking") != CHUNKING:
            self._pipeline.cut_anew(source)
            self._runs.commit_checkpoint(_CHUNKS, source.value, {"chunking": CHUNKING})

    def forget_checkpoints(self, connector: Connector) -> None:
        """Let the next run of each reader of a connector read everything from the beginning. Nothing is deleted or
        embedded for that: what is unchanged stays as it is."""
        for reader in connector.readers():
            self._runs.forget_checkpoint(connector.name, reader.name)

    def sync_reader(
        self,
        connector: Connector,
        reader: Reader,
        *,
        between: Callable[[], None] = lambda: None,
        looked_at: datetime | None = None,
        compares: bool = True,
    ) -> RunReport:
        """Run one reader from its checkpoint to the end of what the source has, and let it pass the gate.

        `compares` False: whole lists are held against the record by somebody else when their time has come.

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
                resumed = self._read(connector, reader, checkpoint, tally, seen, between, at)
            except SourceGoneError:
                tally.add("resynced")
                full = True
                seen.clear()
                resumed = self._read(connector, reader, None, tally, seen, between, at)
            if full or resumed:
                self._reconciler.reconcile(connector.name, reader, at, tally, seen if full else None, when_due=compares)
            else:
                self._reconciler.compare(connector.name, reader, at, tally)
        except SourceError as e:
            count_asked(connector, before, tally)
            return self._writer.end(run, connector.name, reader.name, "failed", tally, str(e))
        return self._checked(run, connector, reader, reader.name, before, tally)

    def read_items(self, connector: Connector, reader: Reader, uris: Sequence[str]) -> RunReport:
        """Read these items again, as the source has them now: what a hint names. The reader's checkpoint stays."""
        name = f"{reader.name}/hints"
        run = self._runs.start(connector.name, name)
        tally, before, at = Tally(), connector.asked(), self._now()
        try:
            self._applier.apply(reader, reader.fetch(uris), at, tally, set())
        except SourceError as e:
            count_asked(connector, before, tally)
            return self._writer.end(run, connector.name, name, "failed", tally, str(e))
        self._pipeline.flush()
        count_asked(connector, before, tally)
        reason = told(tally)
        return self._writer.end(run, connector.name, name, "partial" if reason else "complete", tally, reason)

    def reconcile(self, connector: Connector, reader: Reader) -> RunReport:
        """Hold the source's whole list against the record, and the record against the index, and mend what differs:
        first what may be shown wrongly is withheld, then it is fetched."""
        name = f"{reader.name}/reconcile"
        run = self._runs.start(connector.name, name)
        tally, before = Tally(), connector.asked()
        try:
            self._reconciler.compare(connector.name, reader, self._now(), tally)
        except SourceError as e:
            count_asked(connector, before, tally)
            return self._writer.end(run, connector.name, name, "failed", tally, str(e))
        report = self._checked(run, connector, reader, name, before, tally)
        if report.checks.get("passed") is False:
            self.repair(reader.source)
        return report

    def withhold(self, uris: Collection[str], reason: str) -> int:
        """Show these items to nobody until their source was asked about them; return how many were shown until now.
        Obeyed by the next question; the index follows."""
        hidden = self._items.hide_all(uris, reason, self._now())
        self._pipeline.withhold(hidden)
        return len(hidden)

    def _checked(
        self, run: int, connector: Connector, reader: Reader, name: str, before: Mapping[str, int], tally: Tally
    ) -> RunReport:
        """Let a run that came to its end pass the gate, and end it as what it is."""
        count_asked(connector, before, tally)
        verdict = self._gate.check(reader.source)
        kept_out = told(tally)
        if verdict.blocked_by is not None:
            state, reason = "blocked", verdict.blocked_by
        elif verdict.wrong is not None:
            state, reason = "failed", verdict.wrong
        else:
            state, reason = ("partial" if kept_out else "complete"), None
        reasons = "; ".join(x for x in (reason, kept_out) if x) or None
        return self._writer.end(run, connector.name, name, state, tally, reasons, verdict.as_checks())

    def _read(
        self,
        connector: Connector,
        reader: Reader,
        checkpoint: Mapping[str, Any] | None,
        tally: Tally,
        seen: set[str],
        between: Callable[[], None],
        run_at: datetime,
    ) -> bool:
        """Take in what a reader yields; whether it went on from its checkpoint everywhere."""
        resumed = True
        for batch in reader.read(checkpoint):
            self._applier.apply(reader, batch.changes, self._now(), tally, seen, run_at=run_at)
            self._pipeline.flush()
            self._runs.commit_checkpoint(connector.name, reader.name, batch.checkpoint)
            self._on_progress(Progress(connector.name, reader.name, *batch.progress))
            resumed &= batch.resumed
            between()
        return resumed

    def _blocked(self, connector: Connector, reader: Reader, access: RunReport) -> RunReport:
        """The run of a reader that may not begin, because nobody could say who may read what it brings."""
        run = self._runs.start(connector.name, reader.name, reader.source)
        reason = f"the permissions could not be read: {access.reason}"
        return self._writer.end(run, connector.name, reader.name, "blocked", Tally(), reason)

    def _now(self) -> datetime:
        return self._clock.now()
