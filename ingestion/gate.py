"""The gate that a run passes before it may be called complete: the index is what the record says, point by point.

Both sides are folded into one number that does not depend on order, so that memory stays flat; only where the numbers
differ are the items that differ looked for. Those are then withheld from readers until they are written anew.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from core.access import WITHHELD, ScopeId
from core.index.port import IndexWriter
from core.items import Source
from graph.inventory import Inventory, RecordProblems

_MODULUS = 1 << 128
_TOLD = 5
# So often is looked again where a rule changed meanwhile; what then differs is withheld.
_LOOKS = 3
# In place of the version of a rule that is on its way to the index.
_MOVING = -1


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
        record are removed. Points of withheld items match no search and are compared when they are back.

        Where a rule is on its way to the index, points that still have its last version are no reason to withhold
        them, since queries look after that scope until they are rewritten; the run has not passed all the same.
        """
        record = self._inventory.problems(source)
        moving: frozenset[ScopeId] = frozenset()
        orphans, differing = set[str](), set[str]()
        for _ in range(_LOOKS):
            before = self._inventory.rules()
            moving |= {scope for scope, (_, indexed) in before.items() if not indexed}
            held, withheld = self._held(source, moving, each=False)
            wanted = self._wanted(source, moving, each=False)
            orphans = self._inventory.unknown(withheld) if withheld else set()
            differing = set()
            if (held.total, held.points) != (wanted.total, wanted.points):
                held, _ = self._held(source, moving, each=True)
                wanted = self._wanted(source, moving, each=True)
                orphans |= self._inventory.unknown(held.by_item.keys() - wanted.by_item.keys())
                every = held.by_item.keys() | wanted.by_item.keys()
                differing = {u for u in every if held.by_item[u] != wanted.by_item[u]} - orphans
            if not differing:
                break
            # A rule may have changed, and been rewritten, between two looks at its points.
            now = self._inventory.rules()
            changed = {scope for scope, (version, _) in now.items() if before.get(scope, (version, True))[0] != version}
            changed |= {scope for scope, (_, indexed) in now.items() if not indexed}
            if changed <= moving:
                break
            moving |= changed
        record = replace(record, pending_scopes=max(record.pending_scopes, len(moving)))
        self._index.delete_items(sorted(orphans))
        self._inventory.forget_indexed(differing)
        return Verdict(
            points=held.points,
            expected_points=wanted.points,
            record=record,
            differing=tuple(sorted(differing)),
            orphans=tuple(sorted(orphans)),
        )

    def _held(self, source: Source, moving: frozenset[ScopeId], *, each: bool) -> tuple[_Fold, set[str]]:
        fold, withheld = _Fold(each), set[str]()
        for p in self._index.inventory(source):
            if p.scope == WITHHELD:
                withheld.add(p.uri)
            else:
                fold.add(p.uri, p.ordinal, p.digest, p.scope, _MOVING if p.scope in moving else p.acl_version)
        return fold, withheld

    def _wanted(self, source: Source, moving: frozenset[ScopeId], *, each: bool) -> _Fold:
        fold = _Fold(each)
        for item in self._inventory.expected(source):
            for ordinal, digest in enumerate(item.digests):
                version = _MOVING if item.scope in moving else item.acl_version
                fold.add(item.uri, ordinal, digest, item.scope, version)
        return fold


def _some(uris: tuple[str, ...]) -> str:
    more = f" and {len(uris) - _TOLD} more" if len(uris) > _TOLD else ""
    return ", ".join(uris[:_TOLD]) + more
