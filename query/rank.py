"""Orders hits: score = relevance × time × authority × proximity, every factor kept, ties ended at the address.

All time is here, none in the vectors. Each factor but relevance stays in a narrow band (core.tuning says which).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from core.authority import position
from core.bundle import Factors, Intent, Temporal
from core.items import ItemKind, Source
from core.principals import Principal
from core.tuning import Tuning
from graph.edges import Edge
from graph.records import ItemRow
from query.interpret import Reading
from query.retrieve import Hit

# States in which work is over, in the words of the usual process templates; others count as open.
_CLOSED_WORDS = """
closed done resolved removed completed abandoned cut inactive rejected duplicate gesloten afgerond opgelost
"""
_CLOSED = frozenset(_CLOSED_WORDS.split())
_LETTERS = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """What is known of the asker for proximity: themselves, how close people are to them (0…1, by the rosters that
    they share: small ones bind, large ones hardly), and the names of containers that they belong to."""

    principal: Principal
    closeness: Mapping[Principal, float]
    containers: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """A hit in its place, with its factors."""

    hit: Hit
    factors: Factors

    @property
    def uri(self) -> str:
        """The item's address."""
        return self.hit.uri

    @property
    def row(self) -> ItemRow:
        """The item's metadata."""
        return self.hit.row


def is_closed(row: ItemRow) -> bool:
    """Whether a work item or pull request is over."""
    return bool(row.state) and str(row.state).casefold() in _CLOSED


def moment(row: ItemRow) -> datetime | None:
    """The time by which an item's age is judged: last validation of a page, else last change, else creation."""
    if row.kind is ItemKind.WIKI_PAGE and row.validated_at is not None:
        return row.validated_at
    return row.modified_at or row.created_at


def rank(
    hits: Iterable[Hit],
    *,
    reading: Reading,
    now: datetime,
    asker: Asker,
    edges: Mapping[str, Sequence[Edge]],
    links_in: Mapping[str, int],
    outdated: Collection[str],
    focus_containers: Collection[str],
    channels: Collection[str],
    tuning: Tuning,
) -> list[Ranked]:
    """Return hits best first. `edges` and `links_in` are what the asker may read of people and links; `outdated` are
    addresses of what is deprecated or superseded."""
    ranked = []
    for hit in hits:
        relevance = _relevance(hit, reading, tuning)
        time = _time(hit.row, reading, now, outdated=hit.uri in outdated, tuning=tuning)
        authority = _authority(hit.row, links_in.get(hit.uri, 0), tuning)
        proximity = _proximity(hit.row, asker, edges.get(hit.uri, ()), focus_containers, channels, tuning)
        factors = Factors(
            relevance=round(relevance, 6),
            dense=round(hit.dense, 6),
            keyword=round(hit.keyword, 6),
            time=round(time, 6),
            authority=round(authority, 6),
            proximity=round(proximity, 6),
            score=round(relevance * time * authority * proximity, 6),
        )
        ranked.append(Ranked(hit=hit, factors=factors))
    return sorted(ranked, key=lambda r: (-r.factors.score, -r.factors.relevance, r.uri))


def above_floor(ranked: Sequence[Ranked], *, channels: Collection[str], tuning: Tuning) -> list[Ranked]:
    """Keep what is relevant: near enough to the best, and related at all by meaning or by keyword. What was named,
    stands behind the focus, or was said in a channel in focus is there for its place as well."""
    if not ranked:
        return []
    best = min(1.0, max(r.hit.relevance for r in ranked))
    kept = []
    for one in ranked:
        hit = one.hit
        related = hit.dense >= tuning.cosine_floor or hit.keyword >= tuning.keyword_floor
        here = bool(hit.row.container) and hit.row.container in channels
        floor = tuning.here_floor if here else tuning.relative_floor
        if hit.exact or hit.chain or (hit.relevance >= floor * best and (related or here)):
            kept.append(one)
    return kept


def without_duplicates(
    ranked: Sequence[Ranked], texts: Mapping[str, str], *, keep: Collection[str], tuning: Tuning
) -> list[Ranked]:
    """Collapse near duplicates onto the better placed; `texts` are the snippets, all of them readable. What stands in
    `keep` (superseded and superseding, in focus) is shown whatever it resembles."""
    kept: list[Ranked] = []
    prints: list[frozenset[tuple[str, ...]]] = []
    for one in ranked:
        triples = _triples(texts.get(one.uri, ""))
        if (
            one.uri not in keep
            and triples
            and any(_share(triples, other) >= tuning.duplicate_share for other in prints)
        ):
            continue
        kept.append(one)
        prints.append(triples)
    return kept


def with_diversity(ranked: Sequence[Ranked], reading: Reading, tuning: Tuning) -> list[Ranked]:
    """Lift the best of each source that the intent calls for among the first few, in their own order."""
    wanted = _wanted_sources(reading.intent)
    order = list(ranked)
    window = tuning.diverse_within
    for source in wanted:
        if any(r.row.source is source for r in order[:window]):
            continue
        best = next((r for r in order if r.row.source is source), None)
        if best is None:
            continue
        order.remove(best)
        # In place of the last whose source stands among the first more than once, which moves down by one.
        at = window - 1
        for i in range(min(window, len(order)) - 1, 0, -1):
            same = [r for r in order[:window] if r.row.source is order[i].row.source]
            if len(same) > 1 or order[i].row.source not in wanted:
                at = i
                break
        order.insert(min(at, len(order)), best)
    return order


def _wanted_sources(intent: Intent) -> tuple[Source, ...]:
    if intent is Intent.PROCEDURAL:
        return (Source.WIKIS, Source.CODE, Source.WORK_ITEMS)
    if intent in (Intent.STATUS, Intent.SECURITY):
        return (Source.WORK_ITEMS, Source.TEAMS)
    if intent is Intent.PERSON:
        return (Source.WORK_ITEMS, Source.CODE)
    return tuple(Source)


def _relevance(hit: Hit, reading: Reading, tuning: Tuning) -> float:
    fit = tuning.fit.get(reading.intent, {}).get(hit.row.kind, 1.0)
    return hit.relevance if hit.exact or hit.chain else hit.relevance * fit


def _time(row: ItemRow, reading: Reading, now: datetime, *, outdated: bool, tuning: Tuning) -> float:
    if reading.temporal is Temporal.HISTORICAL or reading.window is not None:
        return _window_factor(row, reading, tuning)
    factor = _decay(row, now, tuning)
    return factor * tuning.superseded_factor if outdated else factor


def _decay(row: ItemRow, now: datetime, tuning: Tuning) -> float:
    at = moment(row)
    if row.kind is ItemKind.FILE:
        return 1.0
    if row.kind is ItemKind.THREAD:
        floor, half_life, top = tuning.chat_floor, tuning.chat_half_life, tuning.fresh_bonus
    elif row.kind is ItemKind.WIKI_PAGE:
        floor, half_life, top = tuning.wiki_floor, tuning.wiki_half_life, 1.0
    elif row.kind is ItemKind.COMMIT or is_closed(row):
        floor, half_life, top = tuning.closed_floor, tuning.closed_half_life, 1.0
    else:
        return 1.0
    if at is None:
        return (floor + top) / 2
    # A time in the future is no fresher than the present.
    age = max(0.0, (now - at).total_seconds()) / half_life.total_seconds()
    return floor + (top - floor) * float(0.5 ** min(age, 60.0))


def _window_factor(row: ItemRow, reading: Reading, tuning: Tuning) -> float:
    window = reading.window
    if window is None:
        return 1.0
    times = [t for t in (row.created_at, row.modified_at, row.validated_at) if t is not None]
    if not times:
        return 1.0
    begun, ended = min(times), max(times)
    inside = (window.end is None or begun < window.end) and (window.start is None or ended >= window.start)
    return tuning.in_window if inside else tuning.out_of_window


def _authority(row: ItemRow, links_in: int, tuning: Tuning) -> float:
    order = tuning.authority_order
    place = position(row.authority, order)
    step = (tuning.authority_best - tuning.authority_worst) / max(1, len(order) - 1)
    endorsed = min(tuning.link_bonus_cap, tuning.link_bonus * links_in)
    return max(tuning.authority_worst, tuning.authority_best - step * place) * (1 + endorsed)


def _proximity(
    row: ItemRow,
    asker: Asker,
    edges: Sequence[Edge],
    focus_containers: Collection[str],
    channels: Collection[str],
    tuning: Tuning,
) -> float:
    factor = 1.0
    people = {e.person for e in edges if e.person is not None}
    if asker.principal in people:
        factor *= tuning.own_item
    else:
        nearest = max((asker.closeness.get(p, 0.0) for p in people), default=0.0)
        factor *= 1 + (tuning.teammates_item - 1) * min(1.0, nearest)
    if row.container and row.container in asker.containers:
        factor *= tuning.own_container
    if row.container and row.container in focus_containers:
        factor *= tuning.focus_container
    factor = min(factor, tuning.proximity_cap)
    # "here": a channel in focus is where the answer is looked for first.
    return factor * tuning.focus_channel if row.container and row.container in channels else factor


def _triples(text: str) -> frozenset[tuple[str, ...]]:
    words = [w.casefold() for w in _LETTERS.findall(text)]
    if len(words) < 3:
        return frozenset([tuple(words)]) if words else frozenset()
    return frozenset(tuple(words[i : i + 3]) for i in range(len(words) - 2))


def _share(a: frozenset[tuple[str, ...]], b: frozenset[tuple[str, ...]]) -> float:
    if not a or not b:
        return 0.0
    return len(a & b) / len(a | b)
