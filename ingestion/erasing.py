"""Carries an erasure out: written down, withheld, rewritten, and only then shown again; and the receipt of it.

Killed anywhere, nothing that was withheld is shown with what it said before: `finish` goes on with what is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from core.clock import Clock
from core.embedding.port import Embedder
from core.erased import ErasedPeople
from core.index.port import IndexWriter
from core.items import Item, Source
from core.principals import Principal
from core.text.chunk import chunk_item
from graph.audit_erasure import AuditWords
from graph.erasures import Erasure, ErasureStore
from graph.records import ItemStore
from graph.runs import RunStore
from ingestion.erasure import without
from ingestion.pipeline import ERASED, Pipeline, Tally

_AT_ONCE: Final = 50
_WHY: Final = "an erasure is under way"


@dataclass(slots=True)
class Receipt:
    """What went where: rows, points and texts, by store and kind; `kept` says what stays, and why."""

    counts: Counter[str] = field(default_factory=Counter)
    kept: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """As it is kept and printed."""
        return {"gone": {k: n for k, n in sorted(self.counts.items()) if n}, "kept": list(self.kept)}


class Eraser:
    """Erases items and people. Whoever calls it holds the leases of all readers, so that no other writer is between."""

    def __init__(
        self,
        *,
        erasures: ErasureStore,
        audit: AuditWords,
        items: ItemStore,
        runs: RunStore,
        pipeline: Pipeline,
        index: IndexWriter,
        embedder: Embedder,
        clock: Clock,
    ) -> None:
        self._erasures = erasures
        self._audit = audit
        self._items = items
        self._runs = runs
        self._pipeline = pipeline
        self._index = index
        self._embedder = embedder
        self._clock = clock

    def register_item(self, uri: str) -> None:
        """Write down that the item is to be erased: nothing stores it from now on."""
        self._erasures.register_item(uri, self._clock.now())

    def register_person(self, principal: Principal, *, addresses: Sequence[str] = (), also: Sequence[str] = ()) -> None:
        """Write down that a person is to be erased: nothing stores them from now on. They are looked for in texts by
        what the record calls them, by these `addresses`, and by what they are called `also`."""
        shown, known = self._erasures.called(principal)
        shown |= self._shown_in_parts(principal)
        self._erasures.register_person(
            principal, shown=shown, addresses={*known, *addresses}, also=also, at=self._clock.now()
        )

    def finish(self) -> list[Erasure]:
        """Carry out everything that was written down and is not done, and return it with its receipts. People first
        leave every text together: one pass over the record does for all of them."""
        waiting = self._erasures.all(unfinished=True)
        receipts = {e.subject: self._item(e.subject) for e in waiting if e.kind == "item"}
        if any(e.kind == "person" for e in waiting):
            receipt = self._people()
            receipts |= {e.subject: receipt for e in waiting if e.kind == "person"}
        for subject, receipt in receipts.items():
            self._erasures.finish(subject, receipt.to_json(), self._clock.now())
        return [e for e in self._erasures.all() if e.subject in receipts]

    def _item(self, uri: str) -> Receipt:
        receipt = Receipt(
            kept=["the address, so that it is not stored again", "audit entries that name the address, without words"]
        )
        body = self._items.body(uri)
        title = body[0].title if body is not None else None
        receipt.counts["postgres: audit entries without words"] = self._audit.forget_item(uri, title)
        for table, n in self._erasures.rows_of(uri).items():
            receipt.counts[f"postgres: rows of {table}"] += n
        points, tally = self._index.count_points(), Tally()
        self._pipeline.delete([uri], at=self._clock.now(), reason=ERASED, tally=tally, stated=False)
        self._runs.clear_failures([uri])
        receipt.counts["postgres: rows of inbox"] = self._erasures.forget_deliveries(uri)
        receipt.counts["postgres: items"] = tally.counts["deleted"]
        receipt.counts["index: points"] = points - self._index.count_points()
        self._pipeline.flush()
        return receipt

    def _people(self) -> Receipt:
        people = self._erasures.people()
        receipt = Receipt(
            kept=[
                "digests of who they are and what they are called, so that it is not stored again",
                "account and memberships without name, address and post, as long as a source lists them",
                "audit entries of their questions, without words, and of answers that named their items",
                "addresses of items and web pages",
            ]
        )
        receipt.counts["postgres: accounts without a name"] = self._erasures.forget_accounts()
        points, affected = self._index.count_points(), self._affected(people)
        withheld = self._items.hide_all(affected, _WHY, self._clock.now())
        self._pipeline.withhold(withheld)
        for start in range(0, len(affected), _AT_ONCE):
            self._rewrite(affected[start : start + _AT_ONCE], people, receipt)
        receipt.counts["index: points"] = points - self._index.count_points()
        receipt.counts["postgres: reports without a name"] = self._erasures.mask_told()
        receipt.counts["postgres: audit entries without words"] = self._audit.forget_people(people)
        self._pipeline.flush()
        return receipt

    def _affected(self, people: ErasedPeople) -> list[str]:
        """Items that name one of them, and those that an erasure which was cut short has withheld."""
        found = {item.uri for item in self._bodies() if without(item, people) is not item}
        return sorted(found | self._erasures.withheld_for(_WHY))

    def _bodies(self) -> Iterator[Item]:
        for source in Source:
            for uri in sorted(self._items.uris(source)):
                body = self._items.body(uri)
                if body is not None:
                    yield body[0]

    def _rewrite(self, uris: Sequence[str], people: ErasedPeople, receipt: Receipt) -> None:
        ours, shown = self._erasures.withheld_for(_WHY), list[Item]()
        for uri in uris:
            body = self._items.body(uri)
            if body is None:
                continue
            left = without(body[0], people)
            _count(body[0], left, receipt.counts)
            if left is None:
                self._pipeline.delete([uri], at=self._clock.now(), reason=ERASED, tally=Tally(), stated=False)
            elif uri in ours:
                shown.append(left)
            elif self._erasures.rewrite_hidden(
                left, chunk_item(left, self._embedder.count_tokens, self._embedder.window)
            ):
                self._index.delete_items([uri])
        at = self._clock.now()
        for item, error in self._pipeline.upsert_all(shown, at=at, tally=Tally()):
            # Nobody is shown it; it is tried again as any other item that failed.
            self._runs.fail(item.source.value, item.uri, error.message, at)
            receipt.counts["postgres: items withheld since they could not be written"] += 1

    def _shown_in_parts(self, principal: Principal) -> set[str]:
        """Names that a person has in parts of items: of messages, comments and documents."""
        return {
            person.name
            for item in self._bodies()
            for person in (*(p.author for p in item.parts), *(c.person for c in item.contributions))
            if person is not None and person.principal == principal
        }


def _count(item: Item, left: Item | None, counts: Counter[str]) -> None:
    """What an item lost."""
    if left is None:
        counts["postgres: items"] += 1
        counts["postgres: messages, replies and comments"] += len(item.parts)
        return
    counts["postgres: items rewritten"] += 1
    counts["postgres: messages, replies and comments"] += len(item.parts) - len(left.parts)
    counts["postgres: deeds"] += len(item.contributions) - len(left.contributions)
    counts["postgres: authors and owners"] += sum(
        before is not None and after is None for before, after in ((item.author, left.author), (item.owner, left.owner))
    )


def as_json(erasure: Erasure) -> Mapping[str, Any]:
    """An erasure as it is printed."""
    return {
        "subject": erasure.subject,
        "kind": erasure.kind,
        "at": erasure.at.isoformat(),
        "finished_at": erasure.finished_at.isoformat() if erasure.finished_at else None,
        **erasure.receipt,
    }
