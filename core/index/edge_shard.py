"""The engine's handle: opened once, used by one thread at a time, never after a fork, and written anew on request."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import qdrant_edge as q

from core.errors import ContextEngineError, InvariantError, StoreUnavailableError
from core.index import filters
from core.index.edge_folder import EdgeFolder

T = TypeVar("T")
DENSE: Final = "dense"
KEYWORDS: Final = "keywords"
_PAGE: Final = 1000


class Shard:
    """The engine's handle, used by one thread at a time in the process that opened it."""

    def __init__(self, folder: Path, *, embedder: str, size: int) -> None:
        self._lock = threading.RLock()
        self.size = size
        self.dialect = filters.EdgeDialect()
        self._pid = os.getpid()
        self._folder = EdgeFolder(folder, embedder=embedder, size=size)
        try:
            self._engine: q.EdgeShard | None = _open(self._folder, size)
        except BaseException:
            self._folder.release()
            raise

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other threads out. Raises InvariantError in a forked child, where the engine would hang."""
        if os.getpid() != self._pid:
            raise InvariantError("the index was opened before a fork; open it in the process that uses it")
        with self._lock:
            yield

    def run(self, call: Callable[[q.EdgeShard], T]) -> T:
        """Call the engine, with its errors turned into ours."""
        with self.held():
            if self._engine is None:
                raise StoreUnavailableError("qdrant", "the index is closed")
            try:
                return call(self._engine)
            except ContextEngineError:
                raise
            except Exception as e:
                raise StoreUnavailableError("qdrant", f"the index failed: {e}") from e

    def rewrite(self) -> int:
        """See EdgeWriter. The engine keeps what was deleted until it reuses the space, and in its log."""
        with self.held():
            shutil.rmtree(self._folder.draft, ignore_errors=True)
            self._folder.draft.mkdir()
            copied = self.run(lambda old: _copy(old, self._folder.draft, self.size))
            old, self._engine = self._engine, None
            assert old is not None
            old.close()
            self._folder.take_draft()
            self._engine = _open(self._folder, self.size)
            return copied

    def close(self) -> None:
        """Flush, close, release the folder."""
        with self.held():
            engine, self._engine = self._engine, None
            if engine is None:
                return
            try:
                engine.flush()
                engine.close()
            finally:
                self._folder.release()


def _config(size: int) -> q.EdgeConfig:
    return q.EdgeConfig(
        vectors={DENSE: q.EdgeVectorParams(size=size, distance=q.Distance.Cosine)},
        sparse_vectors={KEYWORDS: q.EdgeSparseVectorParams(modifier=q.Modifier.Idf)},
        hnsw_config=q.HnswIndexConfig(m=0, ef_construct=100, full_scan_threshold=10_000),
    )


def _open(folder: EdgeFolder, size: int) -> q.EdgeShard:
    try:
        if folder.is_made:
            return q.EdgeShard.load(str(folder.shard), _config(size))
        engine = _make(folder.shard, size)
    except Exception as e:
        raise StoreUnavailableError(
            "qdrant",
            f"the index in {folder.path} can't be opened: {e}",
            mend="It can be rebuilt from the sources: remove that folder and sync again",
        ) from e
    folder.mark_made()
    return engine


def _make(shard: Path, size: int) -> q.EdgeShard:
    """An empty shard with its payload indexes."""
    engine = q.EdgeShard.create(str(shard), _config(size))
    for field in filters.KEYWORD_FIELDS:
        engine.update(q.UpdateOperation.create_field_index(field, q.PayloadSchemaType.Keyword))
    for field in filters.INTEGER_FIELDS:
        engine.update(q.UpdateOperation.create_field_index(field, q.PayloadSchemaType.Integer))
    engine.flush()
    return engine


def _copy(old: q.EdgeShard, shard: Path, size: int) -> int:
    """Write every point of a shard into a new one, and close that; how many there were."""
    new, copied, offset = _make(shard, size), 0, None
    while True:
        request = q.ScrollRequest(offset=offset, limit=_PAGE, with_payload=True, with_vector=True)
        records, offset = old.scroll(request)
        points = [q.Point(r.id, _vectors(r.vector), r.payload) for r in records]
        if points:
            new.update(q.UpdateOperation.upsert_points(points))
        copied += len(points)
        if offset is None:
            break
    new.flush()
    new.close()
    return copied


def _vectors(found: Any) -> Any:
    """A record's vectors as a point takes them."""
    return {name: np.asarray(v, dtype=np.float32) if name == DENSE else v for name, v in found.items()}
