"""The index in process: Qdrant Edge, one folder, one owner, exact search.

No graph is built (`m=0`): under an access filter exact search is faster and repeatable, and a graph
freezes the process while it is built. The engine never lets go of Python's lock, so threads gain nothing and
calls here are put in a row, which also keeps a half-replaced item from being seen.

The engine must not be loaded before a fork: its threads do not survive one, and a child would hang for good.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import numpy as np
import qdrant_edge as q

from core.access import ScopeId, Trim, Unconfirmed
from core.errors import InvariantError
from core.index import filters
from core.index.edge_shard import DENSE, KEYWORDS, Shard
from core.index.payload import INVENTORY_FIELDS, access_payload, check_point, indexed_chunk, payload_of
from core.index.port import Candidate, DenseVector, HybridQuery, IndexedChunk, IndexPoint, SparseVector
from core.index.reading import Ask, Hit, hybrid_search, nearest_unconfirmed
from core.items import Source
from core.principals import Principal

_BATCH: Final = 256
_PAGE: Final = 1000


class EdgeIndex:
    """Opens (or makes) the index in `folder`; `reader` for the query plane, `writer` for ingestion.

    `embedder` is its name and `size` its number of dimensions. Raises ConfigError where the folder was written with
    others, and StoreUnavailableError where another process owns it.
    """

    def __init__(self, folder: Path, *, embedder: str, size: int) -> None:
        self._shard = Shard(folder, embedder=embedder, size=size)
        self.reader = EdgeReader(self._shard)
        self.writer = EdgeWriter(self._shard)

    def close(self) -> None:
        """Flush and release the folder; closing twice is no error."""
        self._shard.close()


class EdgeReader:
    """Trimmed reading; see IndexReader."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    def search(self, trim: Trim, query: HybridQuery) -> list[Candidate]:
        """See IndexReader."""
        # One lock round both requests, so that no write falls between them.
        with self._shard.held():
            return hybrid_search(self, trim, query, self._shard.size)

    def ask(self, trim: Trim, asks: Sequence[Ask]) -> list[list[Hit]]:
        """Answer asks of the shared search under the trim, in one batch."""
        dialect = self._shard.dialect
        corpus = filters.readable(dialect, trim)
        requests = [self._request(ask, filters.readable(dialect, trim, ask.narrowing), corpus) for ask in asks]
        for request in requests:
            filters.assert_trimmed(request, trim)
        return self._answers(requests)

    def nearest_unconfirmed(self, unconfirmed: Unconfirmed, query: HybridQuery, limit: int) -> list[str]:
        """See IndexReader."""
        return nearest_unconfirmed(self, unconfirmed, query, limit, self._shard.size)

    def ask_unconfirmed(self, unconfirmed: Unconfirmed, asks: Sequence[Ask]) -> list[list[Hit]]:
        """Answer asks among the items that are to be confirmed, in one batch."""
        dialect = self._shard.dialect
        corpus = filters.to_confirm(dialect, unconfirmed)
        requests = [self._request(a, filters.to_confirm(dialect, unconfirmed, a.narrowing), corpus) for a in asks]
        for request in requests:
            filters.assert_unconfirmed(request, unconfirmed)
        return self._answers(requests)

    def count(self, trim: Trim) -> int:
        """See IndexReader."""
        if trim.sees_nothing:
            return 0
        request = q.CountRequest(exact=True, filter=filters.readable(self._shard.dialect, trim))
        filters.assert_trimmed(request, trim)
        return self._shard.run(lambda s: s.count(request))

    def ping(self) -> None:
        """See IndexReader."""
        self._shard.run(lambda s: s.info())

    def _answers(self, requests: list[q.QueryRequest]) -> list[list[Hit]]:
        answers = self._shard.run(lambda s: s.query_batch(q.QueryBatchRequest(requests)))
        return [[Hit(_uuid(p.id), p.score, p.payload) for p in points] for points in answers]

    @staticmethod
    def _request(ask: Ask, found: Any, corpus: Any) -> q.QueryRequest:
        if isinstance(ask.vector, SparseVector):
            vector: Any = q.SparseVector(list(ask.vector.indices), list(ask.vector.values))
            idf = q.IdfParams(corpus=corpus)
            query = q.Query.Nearest(vector, using=KEYWORDS)
        else:
            idf = None
            query = q.Query.Nearest(ask.vector, using=DENSE)  # type: ignore[arg-type]
        return q.QueryRequest(
            limit=ask.limit,
            query=query,
            filter=found,
            params=q.SearchParams(exact=True, idf=idf),
            with_payload=ask.with_payload,
        )


class EdgeWriter:
    """Privileged writing; see IndexWriter."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    def replace_item(self, uri: str, points: Sequence[IndexPoint]) -> None:
        """See IndexWriter. Raises InvariantError on a point that must not be stored; then nothing is changed."""
        for point in points:
            check_point(point, uri, self._shard.size)
        stale = filters.left_behind(self._shard.dialect, uri, (p.id for p in points))
        upserts = [
            q.UpdateOperation.upsert_points([_point(p) for p in points[i : i + _BATCH]])
            for i in range(0, len(points), _BATCH)
        ]
        self._update(q.UpdateOperation.delete_points_by_filter(stale), *upserts)

    def delete_items(self, uris: Sequence[str]) -> None:
        """See IndexWriter."""
        for i in range(0, len(uris), _BATCH):
            found = filters.of_items(self._shard.dialect, uris[i : i + _BATCH])
            self._update(q.UpdateOperation.delete_points_by_filter(found))

    def set_access(self, scope: ScopeId, allowed: Sequence[Principal], acl_version: int) -> None:
        """See IndexWriter. Some points at a time: questions wait for each step, and would for the whole of a large
        scope. A point that leaves the scope meanwhile is no longer written, and one that comes brings its rule."""
        payload = dict(access_payload(tuple(allowed), acl_version))
        everywhere = filters.of_scope(self._shard.dialect, scope)
        for records in self._pages(everywhere, payload=[], vectors=False):
            some = filters.of_scope(self._shard.dialect, scope, [_uuid(r.id) for r in records])
            self._update(q.UpdateOperation.set_payload_by_filter(some, payload))

    def move_item(self, uri: str, scope: ScopeId, allowed: Sequence[Principal], acl_version: int) -> None:
        """See IndexWriter."""
        if not scope:
            raise InvariantError("an item hangs on a scope", where=uri)
        payload = dict(access_payload(tuple(allowed), acl_version, scope))
        found = filters.of_items(self._shard.dialect, (uri,))
        self._update(q.UpdateOperation.set_payload_by_filter(found, payload))

    def vectors_of(self, uri: str) -> dict[str, tuple[DenseVector, SparseVector]]:
        """See IndexWriter."""
        found = filters.of_items(self._shard.dialect, (uri,))
        result: dict[str, tuple[DenseVector, SparseVector]] = {}
        for record in self._scroll(found, payload=["digest"], vectors=True):
            vector: Any = record.vector
            dense, sparse = vector[DENSE], vector.get(KEYWORDS)
            keywords = SparseVector(tuple(sparse.indices), tuple(sparse.values)) if sparse else SparseVector((), ())
            result[str((record.payload or {})["digest"])] = (np.asarray(dense, dtype=np.float32), keywords)
        return result

    def uris(self) -> Iterator[str]:
        """See IndexWriter."""
        seen: set[str] = set()
        for record in self._scroll(None, payload=["uri"], vectors=False):
            uri = str((record.payload or {})["uri"])
            if uri not in seen:
                seen.add(uri)
                yield uri

    def inventory(self, source: Source) -> Iterator[IndexedChunk]:
        """See IndexWriter."""
        found = filters.of_source(self._shard.dialect, source)
        for record in self._scroll(found, payload=list(INVENTORY_FIELDS), vectors=False):
            yield indexed_chunk(record.payload or {})

    def count_points(self) -> int:
        """See IndexWriter."""
        return self._shard.run(lambda s: s.count(q.CountRequest(exact=True)))

    def flush(self) -> None:
        """See IndexWriter."""
        self._shard.run(lambda s: s.flush())

    def optimize(self) -> None:
        """Clear away what deleted points left behind; stops the whole process meanwhile (1 s at 100,000 points)."""
        self._shard.run(lambda s: s.optimize())

    def rewrite(self) -> int:
        """Write the index anew, so that nothing is left in its files of what was deleted; return how many points there
        are. Nobody else gets at it meanwhile. Raises StoreUnavailableError; then the old files are still in use."""
        return self._shard.rewrite()

    def close(self) -> None:
        """See IndexWriter."""
        self._shard.close()

    def _update(self, *operations: q.UpdateOperation) -> None:
        def apply(shard: q.EdgeShard) -> None:
            for operation in operations:
                shard.update(operation)

        self._shard.run(apply)

    def _scroll(self, found: Any, *, payload: list[str], vectors: bool) -> Iterator[q.Record]:
        for records in self._pages(found, payload=payload, vectors=vectors):
            yield from records

    def _pages(self, found: Any, *, payload: list[str], vectors: bool) -> Iterator[list[q.Record]]:
        offset: Any = None
        while True:
            request = q.ScrollRequest(
                offset=offset, limit=_PAGE, filter=found, with_payload=payload or False, with_vector=vectors
            )
            records, offset = self._shard.run(lambda s, r=request: s.scroll(r))  # type: ignore[misc]
            if records:
                yield list(records)
            if offset is None:
                return


def _point(point: IndexPoint) -> q.Point:
    vectors: Any = {
        DENSE: np.ascontiguousarray(point.dense, dtype=np.float32),
        KEYWORDS: q.SparseVector(list(point.sparse.indices), list(point.sparse.values)),
    }
    return q.Point(point.id, vectors, payload_of(point))


def _uuid(value: Any) -> UUID:
    return value if isinstance(value, UUID) else UUID(str(value))
