"""Takes the changes that a reader yields into the stores, item by item: one that fails is parked, the others go on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from core.items import Item
from graph.records import ItemStore
from graph.runs import RunStore
from ingestion.connector import (
    Change,
    Failure,
    ItemDeleted,
    ItemMissing,
    ItemUpserted,
    Reader,
    Skipped,
    Unreadable,
)
from ingestion.pipeline import Pipeline, Tally

_RETRIED_AT_ONCE = 50
_TAKEN_AT_ONCE = 50
_Other = ItemDeleted | ItemMissing | Failure | Skipped | Unreadable
_DETAIL = re.compile(r"\s*[(:].*", re.DOTALL)
_LONGEST_WORD = 60


class Applier:
    """Applies changes."""

    def __init__(self, *, pipeline: Pipeline, items: ItemStore, runs: RunStore) -> None:
        self._pipeline = pipeline
        self._items = items
        self._runs = runs

    def apply(
        self,
        reader: Reader,
        changes: Iterable[Change],
        at: datetime,
        tally: Tally,
        seen: set[str],
        *,
        run_at: datetime | None = None,
    ) -> None:
        """Take `changes` in; `at` is our time at which the source showed them, `seen` collects what is there.

        `run_at` is when the run began (None: at `at`): what is missing twice in one run is missed once.

        Raises StoreUnavailableError; whatever is an item's own fault is recorded and counted.
        """
        read: list[str] = []
        for group in _groups(changes):
            if isinstance(group, list):
                seen.update(item.uri for item in group)
                failed = {item.uri: e for item, e in self._pipeline.upsert_all(group, at=at, tally=tally)}
                for uri, e in failed.items():
                    self.park(reader, uri, str(e), e.message, at, tally)
                read += [item.uri for item in group if item.uri not in failed]
                continue
            match group:
                case ItemDeleted(uri, deleted_at, stated):
                    reason = "deleted at the source"
                    self._pipeline.delete(
                        [uri], at=at, reason=reason, tally=tally, stated=stated, deleted_at=deleted_at
                    )
                    read.append(uri)
                case ItemMissing(uri):
                    self.miss([uri], run_at or at, tally)
                case Failure(uri, reason, hide):
                    seen.add(uri)
                    if hide:
                        self._pipeline.hide(uri, reason=reason, at=at)
                    self.park(reader, uri, reason, reason, at, tally)
                case Skipped(uri, reason):
                    tally.left_out.add(uri)
                    tally.add("skipped")
                    tally.add(f"skipped:{reason}")
                case Unreadable(where):
                    tally.add("unreadable")
                    tally.add(f"unreadable:{where}")
        if read:
            self._runs.clear_failures(read)

    def park(self, reader: Reader, uri: str, reason: str, kind: str, at: datetime, tally: Tally) -> None:
        """Record a failure of one item; it is tried again when its wait is over."""
        self._runs.fail(reader.source.value, uri, reason, at)
        tally.add("failed")
        tally.add(f"failed:{_word(kind)}")

    def miss(self, uris: Sequence[str], run_at: datetime, tally: Tally) -> None:
        """Withhold what a whole list lacks; delete what an earlier run's list lacked as well."""
        missed = self._items.miss(uris, reason="missing at the source", run_at=run_at)
        tally.add("missed", len(missed.withheld))
        self._pipeline.withhold(missed.withheld)
        if missed.confirmed:
            self._pipeline.delete(
                missed.confirmed, at=run_at, reason="no longer at the source", tally=tally, stated=False
            )
            self._runs.clear_failures(missed.confirmed)

    def retry(self, reader: Reader, at: datetime, tally: Tally, seen: set[str]) -> None:
        """Read again what failed in an earlier run and has waited long enough: its checkpoint has moved past it."""
        due = [f.uri for f in self._runs.failures(reader.source.value, due=at)]
        for start in range(0, len(due), _RETRIED_AT_ONCE):
            some = due[start : start + _RETRIED_AT_ONCE]
            self.apply(reader, reader.fetch(some), at, tally, seen)
            tally.add("retried", len(some))


def _groups(changes: Iterable[Change]) -> Iterator[list[Item] | _Other]:
    """The changes in their order, with upserts that follow each other taken together (no two of one address)."""
    waiting: dict[str, Item] = {}
    for change in changes:
        if waiting and (
            not isinstance(change, ItemUpserted) or change.item.uri in waiting or len(waiting) >= _TAKEN_AT_ONCE
        ):
            yield list(waiting.values())
            waiting = {}
        if isinstance(change, ItemUpserted):
            waiting[change.item.uri] = change.item
        else:
            yield change
    if waiting:
        yield list(waiting.values())


def _word(reason: str) -> str:
    """A failure's kind: its reason without the details, which differ from item to item."""
    head = reason.rpartition(": ")[2] if reason.startswith(("http", "/", "_apis")) else reason
    return _DETAIL.sub("", head).strip()[:_LONGEST_WORD] or "failed"
