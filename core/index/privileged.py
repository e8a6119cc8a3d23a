"""Privileged reading of the index: the port of the audit plane, which alone looks past everybody's access.

It is another port than `IndexReader`, with adapters and a credential of its own, and neither the query plane nor the
ingestion plane may import it (an import contract holds that). It hands out addresses and scores, never text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol
from uuid import UUID

import numpy as np

from core.access import ScopeId
from core.errors import InvariantError
from core.index.filters import CREATED_AT, Dialect
from core.index.port import DenseVector, SparseVector
from core.items import Source

# What a point tells besides its scores.
FIELDS: Final = ("uri", "source", "scope")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivilegedQuery:
    """A question as vectors; the best `limit` chunks by meaning and by keyword each. `created_until` (Unix seconds)
    leaves out what did not exist yet."""

    dense: DenseVector
    sparse: SparseVector
    limit: int
    created_until: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivilegedHit:
    """A chunk that is near, whoever may read it, with its true score on both legs (cosine; keyword sum)."""

    id: UUID
    uri: str
    source: Source
    scope: ScopeId
    dense_score: float
    sparse_score: float


class PrivilegedReader(Protocol):
    """Reads past everybody's access. Every adapter passes `tests/audit/test_privileged_reading.py`."""

    def nearest(self, query: PrivilegedQuery, *, reason: str) -> list[PrivilegedHit]:
        """Return the best chunks of both legs, in order of id. `reason` says why nobody's access is asked about: it is
        there to be written by whoever calls, and read in review.

        Raises InvariantError for a vector that can't be searched with or without a reason, StoreUnavailableError.
        """
        ...

    def ping(self) -> None:
        """Return when the index answers; raises StoreUnavailableError."""
        ...


@dataclass(frozen=True, slots=True)
class Found:
    """A point as an engine found it."""

    id: UUID
    score: float
    payload: Mapping[str, Any]


class PrivilegedEngine(Protocol):
    """What an index must be able to do for the shared search."""

    def ask_everything(
        self, vectors: Sequence[DenseVector | SparseVector], found: Any, limit: int
    ) -> list[list[Found]]:
        """The nearest `limit` points to each vector under the filter (None: all points), best first."""
        ...


def nearest(
    engine: PrivilegedEngine, dialect: Dialect, query: PrivilegedQuery, size: int, reason: str
) -> list[PrivilegedHit]:
    """See `PrivilegedReader.nearest`; `size` is the index's number of dimensions."""
    if not reason.strip():
        raise InvariantError("privileged reading without a reason")
    if query.dense.shape != (size,) or not np.isfinite(query.dense).all():
        raise InvariantError(f"a question's vector is {size} finite numbers")
    until = [] if query.created_until is None else [dialect.at_most(CREATED_AT, query.created_until)]
    vectors: list[DenseVector | SparseVector] = [query.dense]
    if query.sparse.indices:
        vectors.append(query.sparse)
    best = engine.ask_everything(vectors, dialect.all_of(until, []) if until else None, query.limit)
    ids = sorted({hit.id for hits in best for hit in hits})
    if not ids:
        return []
    by_meaning, *by_keyword = engine.ask_everything(vectors, dialect.all_of([dialect.has_id(ids)], []), len(ids))
    keyword = {hit.id: hit.score for hits in by_keyword for hit in hits}
    hits = [
        PrivilegedHit(
            id=hit.id,
            uri=str(hit.payload["uri"]),
            source=Source(hit.payload["source"]),
            scope=ScopeId(str(hit.payload["scope"])),
            dense_score=hit.score,
            sparse_score=keyword.get(hit.id, 0.0),
        )
        for hit in by_meaning
    ]
    return sorted(hits, key=lambda hit: str(hit.id))
