"""The search that all indexes share: the best of each leg, then the true scores of all of them.

First each leg is asked for its best by meaning and by keyword. What stands at the cut is decided by us, not by the
engine: a leg is asked for a few more than it needs, and for more again where scores at the cut are too close to tell
apart. Then one more request takes both scores of every candidate.

A score has the same bits whatever else the index holds. For the keyword sum that takes some care: the engine adds the
words up in the order in which it first met them, and so in an order that texts which the asker may not read have a
say in. Hence each word is asked for by itself in that last request (the engine shares the work on document
frequencies within a batch, so this costs no more), and the sum is ours, in the order of the words' numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol
from uuid import UUID

import numpy as np

from core.access import ScopeId, Trim, Unconfirmed
from core.errors import InvariantError
from core.index.filters import Narrowing
from core.index.payload import checked_payload
from core.index.port import Candidate, DenseVector, HybridQuery, SparseVector
from core.items import Source

SPARE: Final = 8
# How many chunks are asked for to find one item among them.
CHUNKS_AN_ITEM: Final = 8
# Scores closer than this may differ by the order in which the engine added them up.
TOLERANCE: Final = 1e-5


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request to an engine: the nearest `limit` points to a vector of either kind."""

    vector: DenseVector | SparseVector
    narrowing: Narrowing
    limit: int
    with_payload: bool = False


@dataclass(frozen=True, slots=True)
class Hit:
    """A point as an engine found it."""

    id: UUID
    score: float
    payload: Mapping[str, Any] | None = None


class Engine(Protocol):
    """What an index must be able to do for the shared search."""

    def ask(self, trim: Trim, asks: Sequence[Ask]) -> list[list[Hit]]:
        """Answer all asks under the trim in one round trip, best first."""
        ...


class Addresses(Protocol):
    """What an index must be able to do to name items for late binding."""

    def ask_unconfirmed(self, unconfirmed: Unconfirmed, asks: Sequence[Ask]) -> list[list[Hit]]:
        """Answer all asks among the items that are to be confirmed, in one round trip, best first."""
        ...


def nearest_unconfirmed(
    engine: Addresses, unconfirmed: Unconfirmed, query: HybridQuery, limit: int, size: int
) -> list[str]:
    """See `IndexReader.nearest_unconfirmed`; `size` is the index's number of dimensions."""
    _check_vector(query, size)
    if unconfirmed.trim.sees_nothing or limit < 1:
        return []
    narrowing = Narrowing(created_until=query.created_until)
    vectors: list[DenseVector | SparseVector] = [query.dense]
    if query.sparse.indices:
        vectors.append(query.sparse)
    asks = [Ask(vector=v, narrowing=narrowing, limit=limit * CHUNKS_AN_ITEM, with_payload=True) for v in vectors]
    ranks: dict[str, tuple[int, int]] = {}
    for leg, hits in enumerate(engine.ask_unconfirmed(unconfirmed, asks)):
        ordered = sorted(hits, key=lambda h: (-round(h.score, 5), h.id))
        for place, uri in enumerate(dict.fromkeys(str((h.payload or {})["uri"]) for h in ordered)):
            ranks[uri] = min(ranks.get(uri, (place, leg)), (place, leg))
    return sorted(ranks, key=lambda uri: (ranks[uri], uri))[:limit]


def _check_vector(query: HybridQuery, size: int) -> None:
    if query.dense.shape != (size,) or not np.isfinite(query.dense).all():
        raise InvariantError(f"a question's vector is {size} finite numbers")


def hybrid_search(engine: Engine, trim: Trim, query: HybridQuery, size: int) -> list[Candidate]:
    """See `IndexReader.search`; `size` is the index's number of dimensions."""
    _check_vector(query, size)
    if trim.sees_nothing or not query.legs:
        return []
    found = _best_of_legs(engine, trim, query)
    ids = frozenset(hit.id for hits in found.values() for hit in hits)
    if not ids:
        return []
    candidates = _with_true_scores(engine, trim, query, ids)
    chosen: set[UUID] = set()
    for (leg, by_meaning), hits in found.items():
        mine = [c for hit in hits if (c := candidates.get(hit.id)) is not None]
        if not by_meaning:
            mine = [c for c in mine if c.sparse_score > 0]
        mine.sort(key=lambda c: (-(c.dense_score if by_meaning else c.sparse_score), c.id))
        chosen.update(c.id for c in mine[: query.legs[leg].limit])
    return sorted((candidates[x] for x in chosen), key=lambda c: str(c.id))


def _best_of_legs(engine: Engine, trim: Trim, query: HybridQuery) -> dict[tuple[int, bool], list[Hit]]:
    """The hits of each leg by meaning (True) and keyword, with all that might belong above the cut."""
    pending: dict[tuple[int, bool], Ask] = {}
    for i, leg in enumerate(query.legs):
        if leg.limit < 1:
            raise InvariantError("a leg asks for at least one chunk")
        narrowing = Narrowing(sources=leg.sources, uris=query.only_uris, created_until=query.created_until)
        pending[i, True] = Ask(vector=query.dense, narrowing=narrowing, limit=leg.limit + SPARE)
        if query.sparse.indices:
            pending[i, False] = Ask(vector=query.sparse, narrowing=narrowing, limit=leg.limit + SPARE)
    done: dict[tuple[int, bool], list[Hit]] = {}
    while pending:
        answers = engine.ask(trim, list(pending.values()))
        again: dict[tuple[int, bool], Ask] = {}
        for (key, ask), hits in zip(pending.items(), answers, strict=True):
            if _is_settled(hits, ask.limit, query.legs[key[0]].limit):
                done[key] = hits
            else:
                again[key] = replace(ask, limit=4 * ask.limit)
        pending = again
    return dict(sorted(done.items()))


def _is_settled(hits: list[Hit], asked: int, wanted: int) -> bool:
    if len(hits) < asked:
        return True
    cut = hits[wanted - 1].score
    return cut - hits[-1].score > TOLERANCE * max(1.0, abs(cut))


def _with_true_scores(engine: Engine, trim: Trim, query: HybridQuery, ids: frozenset[UUID]) -> dict[UUID, Candidate]:
    narrowing = Narrowing(ids=ids)
    asks = [Ask(vector=query.dense, narrowing=narrowing, limit=len(ids), with_payload=True)]
    words = sorted(zip(query.sparse.indices, query.sparse.values, strict=True))
    asks += [Ask(vector=SparseVector((i,), (v,)), narrowing=narrowing, limit=len(ids)) for i, v in words]
    by_meaning, *by_word = engine.ask(trim, asks)
    by_keyword: dict[UUID, float] = {}
    for hits in by_word:
        for hit in hits:
            by_keyword[hit.id] = by_keyword.get(hit.id, 0.0) + hit.score
    return {hit.id: _candidate(trim, hit, by_keyword.get(hit.id, 0.0)) for hit in by_meaning}


def _candidate(trim: Trim, hit: Hit, sparse_score: float) -> Candidate:
    payload = checked_payload(hit.payload)
    # The filter has seen to this already. Should an engine ever answer past it, nothing is shown at all.
    if not frozenset(payload.get("allowed") or ()) & frozenset(trim.matching):
        raise InvariantError("the index answered with a chunk that the asker may not read")
    if not payload.get("scope") or payload["scope"] in trim.blocked:
        raise InvariantError("the index answered with a chunk of a blocked scope")
    if trim.asks_source(payload.get("label")) and trim.late is not None and payload["uri"] not in trim.late.verified:
        raise InvariantError("the index answered with a chunk that its source did not confirm")
    return Candidate(
        id=hit.id,
        uri=payload["uri"],
        ordinal=payload["ordinal"],
        source=Source(payload["source"]),
        kind=payload["kind"],
        scope=ScopeId(payload["scope"]),
        digest=payload["digest"],
        title=payload["title"],
        heading=tuple(payload["heading"]),
        text=payload["text"],
        part_uris=tuple(payload["part_uris"]),
        dense_score=hit.score,
        sparse_score=sparse_score,
    )
