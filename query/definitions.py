"""Offers the meanings of a term: the asker's own team's first, others after, each with where it is said.

Meanings come only from items that the asker may read; one known only from elsewhere does not exist here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from core.bundle import GlossaryMeaning
from core.principals import Principal
from graph.edges import Edge
from graph.glossary import GlossaryRow
from query.rank import Asker

_MOST_SOURCES = 5
# Nearness from which a meaning is called the asker's own: a deed of theirs, or of somebody in a small common roster.
_YOURS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearness:
    """What makes a meaning the asker's own: their deeds and their team's on its sources, and their containers."""

    asker: Asker
    edges: Mapping[str, Sequence[Edge]]
    focus_uris: frozenset[str] = frozenset()
    focus_containers: frozenset[str] = frozenset()

    def of(self, row: GlossaryRow) -> float:
        """How near one source is to the asker; 0 where nothing binds them."""
        people: set[Principal] = {e.person for e in self.edges.get(row.uri, ()) if e.person is not None}
        near = 0.0
        if row.uri in self.focus_uris:
            near += 4.0
        if row.container and row.container in self.focus_containers:
            near += 3.0
        if self.asker.principal in people:
            near += 2.0
        near += 1.5 * max((self.asker.closeness.get(p, 0.0) for p in people), default=0.0)
        if row.container and row.container in self.asker.containers:
            near += 1.0
        return near


def by_nearness(rows: Iterable[GlossaryRow], nearness: Nearness) -> list[GlossaryRow]:
    """Rows with those of the asker's own meaning first, the nearest source of it first."""
    rows = list(rows)
    best: dict[tuple[str, str], float] = {}
    for row in rows:
        group = (row.key, row.meaning_key)
        best[group] = max(best.get(group, 0.0), round(nearness.of(row), 6))
    return sorted(
        rows,
        key=lambda r: (-best[r.key, r.meaning_key], r.key, r.meaning_key, -round(nearness.of(r), 6), r.uri),
    )


def meanings(
    rows: Iterable[GlossaryRow],
    nearness: Nearness,
    *,
    relevance: Mapping[str, float],
    first_ref: int = 1,
    most: int = 4,
) -> tuple[GlossaryMeaning, ...]:
    """Group `rows` (of one term) by meaning, the asker's own first. `relevance` of sources breaks what is left even."""
    grouped: dict[str, list[GlossaryRow]] = {}
    for row in rows:
        grouped.setdefault(row.meaning_key, []).append(row)
    scored = []
    for key, said in grouped.items():
        said.sort(key=lambda r: (-nearness.of(r), -relevance.get(r.uri, 0.0), r.uri))
        near = max(nearness.of(r) for r in said)
        fit = max(relevance.get(r.uri, 0.0) for r in said)
        sources = len({r.uri for r in said})
        latest = max((r.at for r in said if r.at is not None), default=None)
        scored.append((-round(near, 6), -sources, -round(fit, 6), -_stamp(latest), key, said))
    scored.sort(key=lambda s: s[:5])
    return tuple(
        _meaning(f"G{i}", said, yours=-near >= _YOURS)
        for i, (near, _, _, _, _, said) in enumerate(scored[:most], start=first_ref)
    )


def _meaning(ref: str, said: Sequence[GlossaryRow], *, yours: bool) -> GlossaryMeaning:
    times = sorted(r.at for r in said if r.at is not None)
    return GlossaryMeaning(
        ref=ref,
        term=said[0].term,
        meaning=said[0].meaning,
        context=", ".join(dict.fromkeys(r.container for r in said if r.container)),
        sources=tuple(dict.fromkeys(r.uri for r in said))[:_MOST_SOURCES],
        quote=said[0].quote,
        first_used=times[0] if times else None,
        last_used=times[-1] if times else None,
        yours=yours,
    )


def _stamp(at: datetime | None) -> float:
    return at.timestamp() if at is not None else 0.0
