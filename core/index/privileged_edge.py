"""Privileged reading of the index in process; made by whoever owns the index, and handed to the audit plane alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import qdrant_edge as q

from core.index.edge import EdgeIndex
from core.index.edge_shard import DENSE, KEYWORDS
from core.index.port import DenseVector, SparseVector
from core.index.privileged import FIELDS, Found, PrivilegedHit, PrivilegedQuery, nearest


class EdgePrivilegedReader:
    """See PrivilegedReader."""

    def __init__(self, index: EdgeIndex) -> None:
        self._shard = index._shard

    def nearest(self, query: PrivilegedQuery, *, reason: str) -> list[PrivilegedHit]:
        """See PrivilegedReader."""
        with self._shard.held():
            return nearest(self, self._shard.dialect, query, self._shard.size, reason)

    def ask_everything(
        self, vectors: Sequence[DenseVector | SparseVector], found: Any, limit: int
    ) -> list[list[Found]]:
        """See PrivilegedEngine."""
        requests = [
            q.QueryRequest(
                limit=limit,
                query=_query(vector),
                filter=found,
                params=q.SearchParams(exact=True),
                with_payload=list(FIELDS),
            )
            for vector in vectors
        ]
        answers = self._shard.run(lambda shard: shard.query_batch(q.QueryBatchRequest(requests)))
        return [[Found(_uuid(p.id), p.score, dict(p.payload or {})) for p in points] for points in answers]

    def ping(self) -> None:
        """See PrivilegedReader."""
        self._shard.run(lambda shard: shard.info())


def _query(vector: DenseVector | SparseVector) -> Any:
    if isinstance(vector, SparseVector):
        sparse: Any = q.SparseVector(list(vector.indices), list(vector.values))
        return q.Query.Nearest(sparse, using=KEYWORDS)
    return q.Query.Nearest(vector, using=DENSE)  # type: ignore[arg-type]


def _uuid(value: Any) -> UUID:
    return value if isinstance(value, UUID) else UUID(str(value))
