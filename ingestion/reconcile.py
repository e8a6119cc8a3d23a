"""Reconciliation: the whole list of what a source has is held against the record, now and then.

It finds what no feed told: items destroyed for good, whole repos or wikis that are gone or closed to us, and items that
never came. What may be shown wrongly is withheld first; then what is there is fetched.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from graph.records import ItemStore
from graph.runs import RunStore
from ingestion.changes import Applier
from ingestion.connector import Reader, Unlisted
from ingestion.pipeline import Pipeline, Tally

_READ_AGAIN = 50


class Reconciler:
    """Compares lists. `every`: how long the last comparison counts; zero: each run compares."""

    def __init__(
        self, *, applier: Applier, pipeline: Pipeline, items: ItemStore, runs: RunStore, every: timedelta
    ) -> None:
        self._applier = applier
        self._pipeline = pipeline
        self._items = items
        self._runs = runs
        self._every = every

    def reconcile(
        self,
        connector: str,
        reader: Reader,
        run_at: datetime,
        tally: Tally,
        full_read: set[str] | None,
        *,
        when_due: bool = True,
    ) -> None:
        """Hide what vanished, delete what was missed before, read again what is back: after a whole read, while
        something is missed and, with `when_due`, when the last comparison is old enough.

        `full_read`: what a read from the beginning that came to its end has seen; None after an incremental one.
        Raises SourceError where the list breaks off; then nothing was taken as gone.
        """
        missed = self._items.missed(reader.source)
        if full_read is None and not missed and not (when_due and self._is_due(connector, reader, run_at)):
            return
        self.compare(connector, reader, run_at, tally, full_read)

    def compare(
        self, connector: str, reader: Reader, run_at: datetime, tally: Tally, full_read: set[str] | None = None
    ) -> None:
        """`reconcile`, whether it is due or not."""
        missed = self._items.missed(reader.source)
        listed = reader.present()
        found = set(listed) if listed is not None else full_read
        if found is None:
            return
        unlisted = [x for x in found if isinstance(x, Unlisted)]
        if unlisted:
            tally.add("unlisted", sum(not x.withhold for x in unlisted))
        lacking = self._items.uris(reader.source) - found
        refused = tuple(x.prefix for x in unlisted if x.withhold)
        if refused:
            closed = [uri for uri in lacking if uri.startswith(refused)]
            hidden = self._items.hide_all(closed, "its source refuses it to the connector", run_at)
            self._pipeline.withhold(hidden)
            tally.add("refused", len(closed))
        prefixes = tuple(x.prefix for x in unlisted)
        gone = sorted(uri for uri in lacking if not uri.startswith(prefixes))
        if gone:
            self._applier.miss(gone, run_at, tally)
        self._fetch(reader, sorted(uri for uri in missed if uri in found), run_at, tally)
        there = {x for x in found if isinstance(x, str)}
        absent = there - self._items.uris(reader.source)
        if full_read is None:
            # What a whole read or this run left out, or an earlier comparison could not get, is left out on purpose.
            before = self._runs.checkpoint(connector, _mark(reader)) or {}
            unknown = sorted(absent.difference(before.get("left_out", ()), tally.left_out))
            tally.add("absent", len(unknown))
            self._fetch(reader, unknown, run_at, tally)
            absent = there - self._items.uris(reader.source)
        self._pipeline.flush()
        mark = {"at": run_at.isoformat(), "left_out": sorted(absent)}
        self._runs.commit_checkpoint(connector, _mark(reader), mark)

    def _fetch(self, reader: Reader, uris: Sequence[str], run_at: datetime, tally: Tally) -> None:
        for start in range(0, len(uris), _READ_AGAIN):
            some = uris[start : start + _READ_AGAIN]
            self._applier.apply(reader, reader.fetch(some), run_at, tally, set())

    def _is_due(self, connector: str, reader: Reader, now: datetime) -> bool:
        last = self._runs.checkpoint(connector, _mark(reader))
        return last is None or now - datetime.fromisoformat(last["at"]) >= self._every


def _mark(reader: Reader) -> str:
    """Under which name the time of the last comparison is kept."""
    return f"{reader.name}/reconciled"
