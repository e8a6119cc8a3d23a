"""The index on a Qdrant server (or cluster), through qdrant-client.

The same code also drives the client's local mode (`:memory:` or a path): a slow second implementation of the engine
that the contract tests hold against the others. It is not meant for use: its scores can differ in the last bit with
what else the collection holds.

Search is exact as long as what the asker may read is at most `exact_limit` chunks, and only past that takes the graph
with ACORN: a plain graph under an access filter loses answers without a word.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar
from uuid import UUID

import numpy as np

from core.access import ScopeId, Trim, Unconfirmed
from core.errors import ConfigError, ContextEngineError, InvariantError, StoreUnavailableError
from core.index import filters
from core.index.payload import INVENTORY_FIELDS, access_payload, check_point, indexed_chunk, payload_of
from core.index.port import Candidate, DenseVector, HybridQuery, IndexedChunk, IndexPoint, SparseVector
from core.index.reading import Ask, Hit, hybrid_search, nearest_unconfirmed
from core.items import Source
from core.principals import Principal
from core.this_machine import NO_PROXY

T = TypeVar("T")
DENSE: Final = "dense"
KEYWORDS: Final = "keywords"
_BATCH: Final = 128
_PAGE: Final = 512
_SIZE_IS_FRESH: Final = 30.0


class ServerConnection:
    """A client with one key for one collection. Made from a URL, or from a client that exists (local mode).

    Nothing is sent before the first call, so that a server that is down stops a request and not the start-up.
    `embedder` is its name and `size` its number of dimensions; ConfigError where the collection was written with
    others. Where there is no collection, the first call makes one if it may `create`.
    """

    def __init__(
        self,
        *,
        collection: str,
        embedder: str,
        size: int,
        create: bool = False,
        url: str | None = None,
        api_key: str | None = None,
        client: Any = None,
        timeout: int = 10,
    ) -> None:
        from qdrant_client import QdrantClient, models

        self.models = models
        self.dialect = filters.ServerDialect()
        self.collection = collection
        self.size = size
        self._identity = {"embedder": embedder, "size": size, "format": 1}
        self._client = client or QdrantClient(
            url=url, api_key=api_key, timeout=timeout, check_compatibility=False, mounts=NO_PROXY
        )
        self._create_if_missing = create
        self._lock = threading.Lock()
        self._checked = False

    def run(self, call: Callable[[Any], T]) -> T:
        """Call the server, with its errors turned into ours."""
        try:
            with self._lock:
                if not self._checked:
                    self._check()
                    self._checked = True
            return call(self._client)
        except ContextEngineError:
            raise
        except Exception as e:
            raise StoreUnavailableError("qdrant", f"the index does not answer as it should: {_told(e)}") from e

    def close(self) -> None:
        """Let go of the connections."""
        self._client.close()

    def _check(self) -> None:
        if not self._client.collection_exists(self.collection):
            if not self._create_if_missing:
                raise StoreUnavailableError(
                    "qdrant", f"there is no collection {self.collection!r} yet", mend="Run a first sync"
                )
            self._create()
        found = self._client.get_collection(self.collection).config.metadata
        if found != self._identity:
            raise ConfigError(
                f"the collection was written with {found}, but the settings say {self._identity}",
                where=f"qdrant collection {self.collection}",
                mend="Set the embedder back, or name another collection and sync again",
            )

    def _create(self) -> None:
        m = self.models
        self._client.create_collection(
            self.collection,
            vectors_config={DENSE: m.VectorParams(size=self.size, distance=m.Distance.COSINE)},
            sparse_vectors_config={KEYWORDS: m.SparseVectorParams(modifier=m.Modifier.IDF)},
            metadata=self._identity,
        )
        for field in filters.KEYWORD_FIELDS:
            self._client.create_payload_index(self.collection, field, m.PayloadSchemaType.KEYWORD, wait=True)
        for field in filters.INTEGER_FIELDS:
            self._client.create_payload_index(self.collection, field, m.PayloadSchemaType.INTEGER, wait=True)


class ServerIndex:
    """Both sides over one connection; with `read_only` the key can't write, and no collection is made."""

    def __init__(self, connection: ServerConnection) -> None:
        self.reader = ServerReader(connection)
        self.writer = ServerWriter(connection)

    @classmethod
    def connect(
        cls, url: str, *, api_key: str | None, collection: str, size: int, embedder: str, read_only: bool = False
    ) -> ServerIndex:
        """Name a server; nothing is sent before the first call."""
        return cls(
            ServerConnection(
                url=url, api_key=api_key, collection=collection, size=size, embedder=embedder, create=not read_only
            )
        )

    def close(self) -> None:
        """Let go of the connections."""
        self.writer.close()


class ServerReader:
    """Trimmed reading; see IndexReader. Give it a connection whose key can only read."""

    def __init__(self, connection: ServerConnection, *, exact_limit: int = 200_000) -> None:
        self._connection = connection
        self._exact_limit = exact_limit
        self._size_known: tuple[float, int] | None = None

    def search(self, trim: Trim, query: HybridQuery) -> list[Candidate]:
        """See IndexReader."""
        return hybrid_search(self, trim, query, self._connection.size)

    def ask(self, trim: Trim, asks: Sequence[Ask]) -> list[list[Hit]]:
        """Answer asks of the shared search under the trim, in one batch."""
        exact = self._is_small(trim)
        dialect = self._connection.dialect
        corpus = filters.readable(dialect, trim)
        requests = [self._request(a, filters.readable(dialect, trim, a.narrowing), corpus, exact) for a in asks]
        for request in requests:
            filters.assert_trimmed(request, trim)
        return self._answers(requests)

    def nearest_unconfirmed(self, unconfirmed: Unconfirmed, query: HybridQuery, limit: int) -> list[str]:
        """See IndexReader."""
        return nearest_unconfirmed(self, unconfirmed, query, limit, self._connection.size)

    def ask_unconfirmed(self, unconfirmed: Unconfirmed, asks: Sequence[Ask]) -> list[list[Hit]]:
        """Answer asks among the items that are to be confirmed, in one batch."""
        dialect = self._connection.dialect
        corpus = filters.to_confirm(dialect, unconfirmed)
        requests = [self._request(a, filters.to_confirm(dialect, unconfirmed, a.narrowing), corpus, True) for a in asks]
        for request in requests:
            filters.assert_unconfirmed(request, unconfirmed)
        return self._answers(requests)

    def count(self, trim: Trim) -> int:
        """See IndexReader."""
        if trim.sees_nothing:
            return 0
        found = filters.readable(self._connection.dialect, trim)
        request = self._connection.models.CountRequest(filter=found, exact=True)
        filters.assert_trimmed(request, trim)
        return self._connection.run(
            lambda c: int(c.count(self._connection.collection, count_filter=request.filter, exact=True).count)
        )

    def ping(self) -> None:
        """See IndexReader."""
        self._connection.run(lambda c: c.get_collection(self._connection.collection))

    def _is_small(self, trim: Trim) -> bool:
        """Whether exact search stays within reach; the asker is counted only where the whole collection is large."""
        now = time.monotonic()
        if self._size_known is None or now - self._size_known[0] > _SIZE_IS_FRESH:
            about = self._connection.run(lambda c: c.get_collection(self._connection.collection))
            self._size_known = (now, int(about.points_count or 0))
        # Half, since the number is an approximation and may have grown meanwhile.
        return self._size_known[1] <= self._exact_limit // 2 or self.count(trim) <= self._exact_limit

    def _answers(self, requests: list[Any]) -> list[list[Hit]]:
        answers = self._connection.run(lambda c: c.query_batch_points(self._connection.collection, requests))
        return [[Hit(UUID(str(p.id)), p.score, p.payload) for p in a.points] for a in answers]

    def _request(self, ask: Ask, found: Any, corpus: Any, exact: bool) -> Any:
        m = self._connection.models
        params = m.SearchParams(exact=True)
        if isinstance(ask.vector, SparseVector):
            vector = m.SparseVector(indices=list(ask.vector.indices), values=list(ask.vector.values))
            using = KEYWORDS
            params.idf = m.IdfCorpusParams(corpus=corpus)
        else:
            vector, using = ask.vector.tolist(), DENSE
            # Over named ids there is nothing to save by a graph, and true scores are wanted.
            if not exact and ask.narrowing.ids is None:
                params = m.SearchParams(hnsw_ef=256, acorn=m.AcornSearchParams(enable=True, max_selectivity=1.0))
        return m.QueryRequest(
            query=vector,
            using=using,
            filter=found,
            params=params,
            limit=ask.limit,
            with_payload=ask.with_payload,
        )


class ServerWriter:
    """Privileged writing; see IndexWriter.

    Every write waits until it can be seen. The server writes its log before it answers, so `flush` has nothing to do.
    """

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    def replace_item(self, uri: str, points: Sequence[IndexPoint]) -> None:
        """See IndexWriter. Raises InvariantError on a point that must not be stored; then nothing is changed."""
        for point in points:
            check_point(point, uri, self._connection.size)
        m = self._connection.models
        stale = filters.left_behind(self._connection.dialect, uri, (p.id for p in points))
        operations: list[Any] = [m.DeleteOperation(delete=m.FilterSelector(filter=stale))]
        for i in range(0, len(points), _BATCH):
            batch = [self._point(p) for p in points[i : i + _BATCH]]
            operations.append(m.UpsertOperation(upsert=m.PointsList(points=batch)))
        self._update(operations)

    def delete_items(self, uris: Sequence[str]) -> None:
        """See IndexWriter."""
        m = self._connection.models
        for i in range(0, len(uris), _BATCH):
            found = filters.of_items(self._connection.dialect, uris[i : i + _BATCH])
            self._update([m.DeleteOperation(delete=m.FilterSelector(filter=found))])

    def set_access(self, scope: ScopeId, allowed: Sequence[Principal], acl_version: int) -> None:
        """See IndexWriter."""
        found = filters.of_scope(self._connection.dialect, scope)
        self._set_payload(found, dict(access_payload(tuple(allowed), acl_version)))

    def move_item(self, uri: str, scope: ScopeId, allowed: Sequence[Principal], acl_version: int) -> None:
        """See IndexWriter."""
        if not scope:
            raise InvariantError("an item hangs on a scope", where=uri)
        found = filters.of_items(self._connection.dialect, (uri,))
        self._set_payload(found, dict(access_payload(tuple(allowed), acl_version, scope)))

    def vectors_of(self, uri: str) -> dict[str, tuple[DenseVector, SparseVector]]:
        """See IndexWriter."""
        found = filters.of_items(self._connection.dialect, (uri,))
        result: dict[str, tuple[DenseVector, SparseVector]] = {}
        for record in self._scroll(found, payload=["digest"], vectors=True):
            sparse = record.vector.get(KEYWORDS)
            keywords = SparseVector(tuple(sparse.indices), tuple(sparse.values)) if sparse else SparseVector((), ())
            result[record.payload["digest"]] = (np.asarray(record.vector[DENSE], dtype=np.float32), keywords)
        return result

    def uris(self) -> Iterator[str]:
        """See IndexWriter."""
        seen: set[str] = set()
        for record in self._scroll(None, payload=["uri"], vectors=False):
            if record.payload["uri"] not in seen:
                seen.add(record.payload["uri"])
                yield record.payload["uri"]

    def inventory(self, source: Source) -> Iterator[IndexedChunk]:
        """See IndexWriter."""
        found = filters.of_source(self._connection.dialect, source)
        for record in self._scroll(found, payload=list(INVENTORY_FIELDS), vectors=False):
            yield indexed_chunk(record.payload or {})

    def count_points(self) -> int:
        """See IndexWriter."""
        return self._connection.run(lambda c: int(c.count(self._connection.collection, exact=True).count))

    def flush(self) -> None:
        """See IndexWriter; what the server has acknowledged is in its log."""

    def close(self) -> None:
        """See IndexWriter."""
        self._connection.close()

    def _update(self, operations: list[Any]) -> None:
        self._connection.run(lambda c: c.batch_update_points(self._connection.collection, operations, wait=True))

    def _set_payload(self, found: Any, payload: dict[str, Any]) -> None:
        m = self._connection.models
        self._update([m.SetPayloadOperation(set_payload=m.SetPayload(payload=payload, filter=found))])

    def _point(self, point: IndexPoint) -> Any:
        m = self._connection.models
        sparse = m.SparseVector(indices=list(point.sparse.indices), values=list(point.sparse.values))
        vector = {DENSE: point.dense.astype(np.float32).tolist(), KEYWORDS: sparse}
        return m.PointStruct(id=str(point.id), vector=vector, payload=payload_of(point))

    def _scroll(self, found: Any, *, payload: list[str], vectors: bool) -> Iterator[Any]:
        offset: Any = None
        while True:
            at = offset
            records, offset = self._connection.run(
                lambda c, at=at: c.scroll(  # type: ignore[misc]
                    self._connection.collection,
                    scroll_filter=found,
                    limit=_PAGE,
                    offset=at,
                    with_payload=payload,
                    with_vectors=vectors,
                )
            )
            yield from records
            if offset is None:
                return


def _told(error: Exception) -> str:
    """The error's class and the first line of what it says; a response's headers and body stay out."""
    status = getattr(error, "status_code", None)
    if status in (401, 403):
        return f"it refuses the key ({status})"
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__} {status or ''} {lines[0][:200]}".strip()
