"""Remembers vectors on disk, by model and text, so that the same text is embedded once. For rebuilds and tests."""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from core.embedding.port import Embedder
from core.errors import ConfigError
from core.index.port import DenseVector

# Far below sqlite's limit on variables in a statement.
_BATCH = 500


class CachingEmbedder:
    """See Embedder; answers from the file `path` where it can, else asks `inner` and writes down what it says.

    Documents and questions are kept apart, since a model may treat them differently. Several processes may share the
    file. It holds a digest of each text and never the text.
    """

    def __init__(self, inner: Embedder, path: Path) -> None:
        self._inner = inner
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, timeout=30, check_same_thread=False, isolation_level=None)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB) WITHOUT ROWID")
        except (OSError, sqlite3.Error) as e:
            raise ConfigError(f"the file for vectors can't be used: {e}", where=str(path)) from e

    @property
    def name(self) -> str:
        """See Embedder."""
        return self._inner.name

    @property
    def size(self) -> int:
        """See Embedder."""
        return self._inner.size

    @property
    def window(self) -> int:
        """See Embedder."""
        return self._inner.window

    def count_tokens(self, text: str) -> int:
        """See Embedder."""
        return self._inner.count_tokens(text)

    def embed_documents(self, texts: Sequence[str]) -> list[DenseVector]:
        """See Embedder."""
        keys = [self._key("document", t) for t in texts]
        known = self._read(keys)
        missing = {k: t for k, t in zip(keys, texts, strict=True) if k not in known}
        if missing:
            made = dict(zip(missing, self._inner.embed_documents(list(missing.values())), strict=True))
            self._write(made)
            known |= made
        return [known[k].copy() for k in keys]

    def embed_query(self, text: str) -> DenseVector:
        """See Embedder."""
        key = self._key("query", text)
        known = self._read([key])
        if key not in known:
            known = {key: self._inner.embed_query(text)}
            self._write(known)
        return known[key].copy()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    def _key(self, use: str, text: str) -> bytes:
        body = f"{self._inner.name}\0{use}\0{text}".encode("utf-8", "surrogatepass")
        return hashlib.sha256(body).digest()

    def _read(self, keys: Sequence[bytes]) -> dict[bytes, DenseVector]:
        found: dict[bytes, DenseVector] = {}
        with self._lock, _told():
            for i in range(0, len(keys), _BATCH):
                some = keys[i : i + _BATCH]
                marks = ",".join("?" * len(some))
                rows = self._db.execute(f"SELECT key, vector FROM vectors WHERE key IN ({marks})", some)  # noqa: S608
                found.update((k, np.frombuffer(v, dtype="<f4").astype(np.float32)) for k, v in rows)
        return found

    def _write(self, made: dict[bytes, DenseVector]) -> None:
        rows = [(k, np.asarray(v, dtype="<f4").tobytes()) for k, v in made.items()]
        with self._lock, _told():
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?)", rows)
            self._db.execute("COMMIT")


@contextlib.contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as e:
        raise ConfigError(f"the file for vectors can't be used: {e}") from e
