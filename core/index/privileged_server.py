"""Privileged reading of the index on a Qdrant server, over a connection with the audit plane's own key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from core.index.port import DenseVector, SparseVector
from core.index.privileged import FIELDS, Found, PrivilegedHit, PrivilegedQuery, nearest
from core.index.server import DENSE, KEYWORDS, ServerConnection


class ServerPrivilegedReader:
    """See PrivilegedReader. Give it a connection whose key can only read."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    def nearest(self, query: PrivilegedQuery, *, reason: str) -> list[PrivilegedHit]:
        """See PrivilegedReader."""
        return nearest(self, self._connection.dialect, query, self._connection.size, reason)

    def ask_everything(
        self, vectors: Sequence[DenseVector | SparseVector], found: Any, limit: int
    ) -> list[list[Found]]:
        """See PrivilegedEngine. Exact: nobody waits for it."""
        m = self._connection.models
        requests = [
            m.QueryRequest(
                query=m.SparseVector(indices=list(v.indices), values=list(v.values))
                if isinstance(v, SparseVector)
                else v.tolist(),
                using=KEYWORDS if isinstance(v, SparseVector) else DENSE,
                filter=found,
                params=m.SearchParams(exact=True),
                limit=limit,
                with_payload=list(FIELDS),
            )
            for v in vectors
        ]
        answers = self._connection.run(lambda c: c.query_batch_points(self._connection.collection, requests))
        return [[Found(UUID(str(p.id)), p.score, dict(p.payload or {})) for p in a.points] for a in answers]

    def ping(self) -> None:
        """See PrivilegedReader."""
        self._connection.run(lambda c: c.get_collection(self._connection.collection))

    def close(self) -> None:
        """Let go of the connections."""
        self._connection.close()
