"""The port of the vector index: reading takes a Trim and can't be called without; writing is another port.

Every adapter passes `tests/contract/test_index_contract.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from core.access import ScopeId, Trim, Unconfirmed
from core.items import Source
from core.principals import Principal

DenseVector = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class SparseVector:
    """Keyword weights: token ids (ascending, unique) and their weights, of equal length."""

    indices: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPoint:
    """One chunk in the index. `created_at`/`modified_at` are Unix seconds (None: unknown)."""

    id: UUID
    uri: str
    ordinal: int
    source: Source
    kind: str
    scope: ScopeId
    allowed: tuple[Principal, ...]
    acl_version: int
    label: str | None
    digest: str
    title: str
    heading: tuple[str, ...]
    text: str
    part_uris: tuple[str, ...]
    created_at: int | None
    modified_at: int | None
    dense: DenseVector
    sparse: SparseVector


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedChunk:
    """What a point says of itself beside vectors and text: for comparing the index with the record."""

    uri: str
    ordinal: int
    digest: str
    scope: ScopeId
    acl_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchLeg:
    """One prefetch: the best `limit` chunks of these sources, by meaning and by keyword each."""

    sources: tuple[Source, ...]
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HybridQuery:
    """A question as vectors, and where to look. `only_uris` narrows to items (for linked neighbours);
    `created_until` (Unix seconds) leaves out what did not exist yet."""

    dense: DenseVector
    sparse: SparseVector
    legs: tuple[SearchLeg, ...]
    only_uris: tuple[str, ...] = ()
    created_until: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A chunk that the asker may read, with its true score on both legs (cosine; keyword sum, 0 where none meets)."""

    id: UUID
    uri: str
    ordinal: int
    source: Source
    kind: str
    scope: ScopeId
    digest: str
    title: str
    heading: tuple[str, ...]
    text: str
    part_uris: tuple[str, ...]
    dense_score: float
    sparse_score: float


class IndexReader(Protocol):
    """Trimmed reading. The access filter stands in every prefetch and at the root; it is never empty."""

    def search(self, trim: Trim, query: HybridQuery) -> list[Candidate]:
        """Exact hybrid search under the trim: the union of all legs, ordered by id; [] where the trim sees nothing.

        Keyword weights use document frequencies over what the trim lets through and nothing else.
        Raises StoreUnavailableError.
        """
        ...

    def count(self, trim: Trim) -> int:
        """How many chunks the trim lets through. Raises StoreUnavailableError."""
        ...

    def nearest_unconfirmed(self, unconfirmed: Unconfirmed, query: HybridQuery, limit: int) -> list[str]:
        """Addresses of at most `limit` items that their source is to be asked about, those first that stand nearest to
        the question by meaning and keyword in turn; `query.legs` play no part. Raises StoreUnavailableError."""
        ...

    def ping(self) -> None:
        """Return when the index answers; raises StoreUnavailableError."""
        ...


class IndexWriter(Protocol):
    """Privileged writing, for the ingestion plane. Every call is visible to the next search when it returns."""

    def replace_item(self, uri: str, points: Sequence[IndexPoint]) -> None:
        """Make `points` the only ones of item `uri`. Refuses vectors that are not finite or of the wrong size."""
        ...

    def delete_items(self, uris: Sequence[str]) -> None:
        """Remove every point of these items."""
        ...

    def set_access(self, scope: ScopeId, allowed: Sequence[Principal], acl_version: int) -> None:
        """Rewrite who is named by an allow on all points of a scope, without touching vectors."""
        ...

    def move_item(self, uri: str, scope: ScopeId, allowed: Sequence[Principal], acl_version: int) -> None:
        """Hang an item's points on another scope, without touching vectors."""
        ...

    def vectors_of(self, uri: str) -> dict[str, tuple[DenseVector, SparseVector]]:
        """Vectors of an item's points by chunk digest, so that unchanged text is not embedded again."""
        ...

    def uris(self) -> Iterator[str]:
        """Every item that has points, each once, for reconciliation."""
        ...

    def inventory(self, source: Source) -> Iterator[IndexedChunk]:
        """Every point of a source, in no order that counts; a page of them at a time is in memory."""
        ...

    def count_points(self) -> int:
        """How many points there are."""
        ...

    def flush(self) -> None:
        """Make what was written survive a power cut. Called before a checkpoint is committed."""
        ...

    def close(self) -> None:
        """Flush and release the index."""
        ...
