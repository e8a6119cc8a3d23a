"""The gate that a run passes before it may be called complete: the index is what the record says, point by point.

Both sides are folded into one number that does not depend on order, so that memory stays flat; only where the numbers
differ are the items that differ looked for. Those are then withheld from readers until they are written anew.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from core.access import WITHHELD, ScopeId
from core.index.port import IndexWriter
from core.items import Source
from graph.inventory import Inventory, RecordProblems

_MODULUS = 1 << 128
_TOLD = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the gate found. `points` are those of the index; `differing` the addresses whose points are not what the
    record says (or that have points and no record)."""

    points: int
    expected_points: int
    record: RecordProblems
    differing: tuple[str, ...] = ()
    orphans: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether index and record agree and nothing in the record is unsound."""
        return not (self.differing or self.orphans or self.blocked_by or self.wrong)

    @property
    def blocked_by(self) -> str | None:
        """What has to come from elsewhere before the run can be complete."""
        if self.record.without_scope:
            return f"{self.record.without_scope} items hang on a scope of which no permissions were read"
        return None

    @property
    def wrong(self) -> str | None:
        """What is wrong and will be made good by the next run."""
        found = []
        if self.orphans:
            found.append(f"{len(self.orphans)} items in the index are not in the record ({_some(self.orphans)})")
        if self.differing:
            found.append(f"{len(self.differing)} items differ between index and record ({_some(self.differing)})")
        if self.record.behind:
            found.append(f"{self.record.behind} items are not in the index yet")
        if self.record.orphan_chunks:
            found.append(f"{self.record.orphan_chunks} items have chunks that they do not name")
        if self.record.pending_scopes:
            found.append(f"{self.record.pending_scopes} changed permissions have not reached the index")
        return "; ".join(found) or None

    def as_checks(self) -> Mapping[str, object]:
        """The verdict as a run's record keeps it."""
        return {
            "points": self.points,
            "expected_points": self.expected_points,
            "differing": len(self.differing),
            "orphans": len(self.orphans),
            "behind": self.record.behind,
            "without_scope": self.record.without_scope,
            "orphan_chunks": self.record.orphan_chunks,
            "pending_scopes": self.record.pending_scopes,
            "passed": self.passed,
        }


@dataclass(slots=True)
class _Fold:
    """A sum of hashes: the same for the same points in any order, and it sees a point that is there twice."""

    each: bool
    total: int = 0
    points: int = 0
    by_item: Counter[str] = field(default_factory=Counter)

    def add(self, uri: str, ordinal: int, digest: str, scope: ScopeId, acl_version: int) -> None:
        text = f"{uri}\0{ordinal}\0{digest}\0{scope}\0{acl_version}"
        number = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest())
        self.total = (self.total + number) % _MODULUS
        self.points += 1
        if self.each:
            self.by_item[uri] = (self.by_item[uri] + number) % _MODULUS


class Gate:
    """Compares index and record, one source at a time."""

    def __init__(self, inventory: Inventory, index: IndexWriter) -> None:
        self._inventory = inventory
        self._index = index

    def check(self, source: Source) -> Verdict:
        """Compare. What differs is withheld at once, so that the next run's repair writes it anew; points without a
        record are removed. Points of withheld items match no search and are compared when they are back."""
        record = self._inventory.problems(source)
        held, withheld = self._held(source, each=False)
        wanted = self._wanted(source, each=False)
        orphans = self._inventory.unknown(withheld) if withheld else set()
        differing: set[str] = set()
        if (held.total, held.points) != (wanted.total, wanted.points):
            held, _ = self._held(source, each=True)
            wanted = self._wanted(source, each=True)
            orphans |= self._inventory.unknown(held.by_item.keys() - wanted.by_item.keys())
            every = held.by_item.keys() | wanted.by_item.keys()
            differing = {u for u in every if held.by_item[u] != wanted.by_item[u]} - orphans
        self._index.delete_items(sorted(orphans))
        self._inventory.forget_indexed(differing)
        return Verdict(
            points=held.points,
            expected_points=wanted.points,
            record=record,
            differing=tuple(sorted(differing)),
            orphans=tuple(sorted(orphans)),
        )

    def _held(self, source: Source, *, each: bool) -> tuple[_Fold, set[str]]:
        fold, withheld = _Fold(each), set[str]()
        for p in self._index.inventory(source):
            if p.scope == WITHHELD:
                withheld.add(p.uri)
            else:
                fold.add(p.uri, p.ordinal, p.digest, p.scope, p.acl_version)
        return fold, withheld

    def _wanted(self, source: Source, *, each: bool) -> _Fold:
        fold = _Fold(each)
        for item in self._inventory.expected(source):
            for ordinal, digest in enumerate(item.digests):
                fold.add(item.uri, ordinal, digest, item.scope, item.acl_version)
        return fold


def _some(uris: tuple[str, ...]) -> str:
    more = f" and {len(uris) - _TOLD} more" if len(uris) > _TOLD else ""
    return ", ".join(uris[:_TOLD]) + more
