"""Names who is best placed to be asked: by deeds on readable items of the topic, each deed a receipt.

Nobody is named without a receipt that the asker can read, nobody is sent to themselves, and who has left leads only
where nobody else has a receipt, or where it is asked who did something once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from core.bundle import Fallback, Intent, PersonPointer, Receipt, Temporal
from core.directory import Account
from core.items import ItemKind, Role
from core.principals import Principal
from core.tuning import Tuning
from graph.edges import Edge
from graph.records import ItemRow
from query.deeds import STANDING, deed_words, recency_words, starters
from query.interpret import Reading
from query.rank import Ranked, is_closed

# Looking after a page. The page itself says most of what its keeper would, unless it is asked who knows.
_KEEPING = frozenset({Role.OWNS, Role.VALIDATED, Role.EDITED, Role.WROTE})
_ABOUT_KEEPERS = frozenset({Intent.PERSON, Intent.DEFINITION, Intent.SECURITY})


@dataclass(slots=True)
class _Standing:
    """What one person did on the topic."""

    name: str
    principal: Principal | None
    score: float = 0.0
    deeds: list[tuple[float, Edge, Ranked]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Circle:
    """What is needed of the directory: accounts by principal (people of the edges and their managers)."""

    accounts: Mapping[Principal, Account]
    asker: Principal


def people(
    ranked: Sequence[Ranked],
    edges: Mapping[str, Sequence[Edge]],
    *,
    circle: Circle,
    refs: Mapping[str, str],
    reading: Reading,
    now: datetime,
    tuning: Tuning,
) -> tuple[PersonPointer, ...]:
    """Return pointers, best first. `ranked` are readable items on the topic, `refs` the evidence refs by address.

    Who has left is named with who took over, or else their manager.
    """
    about_past = reading.intent is Intent.PERSON and reading.temporal is Temporal.HISTORICAL
    standings = _standings(ranked[: tuning.person_items], edges, circle, reading, now, tuning)
    order = sorted(
        (s for s in standings if s.score >= tuning.person_least),
        key=lambda s: (not about_past and not _active(s, circle), -round(s.score, 6), s.name, s.principal or ""),
    )
    if not order:
        return ()
    least = order[0].score * tuning.person_share
    chosen = [s for s in order if s.score >= least][: tuning.most_people]
    return tuple(
        _pointer(f"P{i}", s, order, ranked, edges, circle=circle, refs=refs, now=now, tuning=tuning)
        for i, s in enumerate(chosen, start=1)
    )


def _standings(
    ranked: Sequence[Ranked],
    edges: Mapping[str, Sequence[Edge]],
    circle: Circle,
    reading: Reading,
    now: datetime,
    tuning: Tuning,
) -> list[_Standing]:
    by_person: dict[Principal, _Standing] = {}
    best = max((r.factors.score for r in ranked), default=0.0) or 1.0
    for one in ranked:
        # The tail of the list speaks softly: the square keeps many weak items from outweighing a good one.
        # What links alone brought up says little of who knows the topic.
        earned = 1.0 if one.hit.own is None or not one.hit.relevance else one.hit.own / one.hit.relevance
        relevance = (earned * one.factors.score / best) ** 2
        strongest: dict[Principal, tuple[float, float, Edge]] = {}
        seen: dict[Principal, set[Role]] = {}
        for edge in sorted(edges.get(one.uri, ()), key=_edge_order):
            if edge.person is None or edge.person == circle.asker or not _is_person(edge.person, circle):
                continue
            weight = _weight(edge, one.row, reading, tuning) * _recency(edge, one.row, reading, now, tuning)
            by_person.setdefault(edge.person, _Standing(name=edge.name, principal=edge.person))
            if Role(edge.role) in seen.setdefault(edge.person, set()):
                continue
            seen[edge.person].add(Role(edge.role))
            known = strongest.get(edge.person)
            # A second deed on the same item adds something, not as much again.
            if known is None:
                strongest[edge.person] = (weight, weight, edge)
            elif weight > known[1]:
                strongest[edge.person] = (weight + tuning.second_deed * known[0], weight, edge)
            else:
                strongest[edge.person] = (known[0] + tuning.second_deed * weight, known[1], known[2])
        for person, (weight, _, edge) in strongest.items():
            standing = by_person[person]
            standing.score += relevance * weight
            standing.deeds.append((relevance * weight, edge, one))
    for standing in by_person.values():
        account = circle.accounts.get(standing.principal) if standing.principal else None
        if account is not None:
            standing.name = account.name
        standing.deeds.sort(key=lambda d: (-round(d[0], 6), d[2].uri))
    return [by_person[p] for p in sorted(by_person)]


def _pointer(
    ref: str,
    standing: _Standing,
    order: Sequence[_Standing],
    ranked: Sequence[Ranked],
    edges: Mapping[str, Sequence[Edge]],
    *,
    circle: Circle,
    refs: Mapping[str, str],
    now: datetime,
    tuning: Tuning,
) -> PersonPointer:
    account = circle.accounts.get(standing.principal) if standing.principal else None
    # The first is told in full; of those after, enough to see why.
    first = ref == "P1"
    deeds = standing.deeds[: tuning.most_receipts if first else tuning.fewer_receipts]
    dated = [(e.at, e, r) for _, e, r in standing.deeds if e.at is not None and e.at <= now]
    last = max(dated, key=lambda d: (d[0], d[2].uri), default=None)
    active = _active(standing, circle)
    return PersonPointer(
        ref=ref,
        name=standing.name,
        principal=standing.principal,
        title=account.title if account else None,
        department=account.department if account else None,
        active=active,
        confidence=round(1 - math.exp(-standing.score / tuning.person_scale), 2),
        why=tuple(Receipt(text=deed_words(e, r.row), uri=r.uri, ref=refs.get(r.uri), at=e.at) for _, e, r in deeds),
        last_active=last[0] if last else None,
        recency=recency_words(last[1], last[2].row, now) if last else "no dated work on this",
        starters=starters(deeds[:2] if first else deeds[:1], now) if active else (),
        # Somebody further down is a fallback already.
        fallback=_fallback(standing, order, ranked, edges, circle, active=active) if first or not active else None,
    )


def _fallback(
    standing: _Standing,
    order: Sequence[_Standing],
    ranked: Sequence[Ranked],
    edges: Mapping[str, Sequence[Edge]],
    circle: Circle,
    *,
    active: bool,
) -> Fallback | None:
    others = [s for s in order if s.principal != standing.principal and _active(s, circle)]
    account = circle.accounts.get(standing.principal) if standing.principal else None
    manager = circle.accounts.get(account.manager) if account and account.manager else None
    if active:
        owner = _page_owner(ranked, edges, circle, but=standing.principal)
        if owner is not None:
            return owner
        if manager is not None and manager.enabled and manager.principal != circle.asker:
            return Fallback(name=manager.name, principal=manager.principal, why=f"manager of {standing.name}")
        if others:
            return Fallback(name=others[0].name, principal=others[0].principal, why="next best placed on this topic")
        return None
    heir = _heir(standing, others)
    if heir is not None:
        return heir
    if manager is not None and manager.enabled and manager.principal != circle.asker:
        return Fallback(name=manager.name, principal=manager.principal, why=f"was the manager of {standing.name}")
    return None


def _page_owner(
    ranked: Sequence[Ranked], edges: Mapping[str, Sequence[Edge]], circle: Circle, *, but: Principal | None
) -> Fallback | None:
    """The owner of the best page among the first few: who answers for what is written there."""
    best = max((r.factors.score for r in ranked), default=0.0)
    for one in ranked[:6]:
        if one.row.kind is not ItemKind.WIKI_PAGE or one.factors.score < 0.75 * best:
            continue
        owners = {e.person for e in edges.get(one.uri, ()) if e.role == Role.OWNS and e.person is not None}
        for owner in sorted(owners - {but, circle.asker}):
            account = circle.accounts.get(owner)
            if account is not None and account.enabled:
                return Fallback(name=account.name, principal=owner, why=f"owns the page “{one.row.title}”")
    return None


def _heir(gone: _Standing, others: Iterable[_Standing]) -> Fallback | None:
    """Who worked last, after the one who left, on the same items or in the same containers."""
    items = {r.uri for _, _, r in gone.deeds}
    containers = {r.row.container for _, _, r in gone.deeds}
    left = max((e.at for _, e, _ in gone.deeds if e.at is not None), default=None)
    best: tuple[tuple[int, float, str], Fallback] | None = None
    for other in others:
        for _, edge, one in other.deeds:
            later = left is None or (edge.at is not None and edge.at >= left)
            same = one.uri in items
            if not later and Role(edge.role) not in STANDING:
                continue
            if not (same or one.row.container in containers):
                continue
            rank = (0 if same else 1, -round(other.score, 6), other.principal or "")
            if best is None or rank < best[0]:
                why = f"{deed_words(edge, one.row)} after {gone.name}"
                best = (rank, Fallback(name=other.name, principal=other.principal, why=why))
    return best[1] if best else None


def _weight(edge: Edge, row: ItemRow, reading: Reading, tuning: Tuning) -> float:
    """What a deed is worth: to have written a work item is to have asked for it, a thread with a question likewise."""
    role = Role(edge.role)
    weight = tuning.role_weight.get(role, 0.2)
    asked = row.kind is ItemKind.WORK_ITEM or (row.kind is ItemKind.THREAD and "?" in row.title)
    if role is Role.WROTE and asked:
        return weight * tuning.asked_share
    if role is Role.ANSWERED and not asked:
        return tuning.role_weight.get(Role.COMMENTED, 0.2)  # nothing was asked: a remark
    if role in _KEEPING and row.kind is ItemKind.WIKI_PAGE and reading.intent not in _ABOUT_KEEPERS:
        return weight * tuning.keeper_share
    return weight


def _recency(edge: Edge, row: ItemRow, reading: Reading, now: datetime, tuning: Tuning) -> float:
    if reading.temporal is Temporal.HISTORICAL:
        return _in_its_time(edge, reading, tuning)
    if edge.at is None:
        return 1.0 if Role(edge.role) is Role.OWNS else 0.6
    if Role(edge.role) in STANDING and not is_closed(row):
        return 1.0
    age = max(0.0, (now - edge.at).total_seconds()) / tuning.person_half_life.total_seconds()
    return tuning.person_floor + (1 - tuning.person_floor) * float(0.5 ** min(age, 60.0))


def _in_its_time(edge: Edge, reading: Reading, tuning: Tuning) -> float:
    """For a question about the past: deeds of that time count in full, whatever their age."""
    if edge.at is None or Role(edge.role) in STANDING:
        return tuning.out_of_time
    window = reading.window
    if window is None:
        return 1.0
    inside = (window.start is None or edge.at >= window.start) and (window.end is None or edge.at < window.end)
    return 1.0 if inside else tuning.out_of_time


def _is_person(principal: Principal, circle: Circle) -> bool:
    account = circle.accounts.get(principal)
    return account is not None and str(account.kind) != "service"


def _active(standing: _Standing, circle: Circle) -> bool:
    account = circle.accounts.get(standing.principal) if standing.principal else None
    return account is not None and account.enabled


def _edge_order(edge: Edge) -> tuple[str, str, float, str]:
    # Of equal deeds the latest counts.
    return (edge.person or "", str(edge.role), -(edge.at.timestamp() if edge.at else 0.0), edge.note)
