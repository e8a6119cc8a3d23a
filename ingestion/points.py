"""An item's chunks as points of the index."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import NAMESPACE_URL, UUID, uuid5

from core.index.port import DenseVector, IndexPoint, SparseVector
from core.items import Chunk, Item
from core.principals import Principal


def points_of(
    item: Item,
    chunks: Sequence[Chunk],
    vectors: Sequence[tuple[DenseVector, SparseVector]],
    access: tuple[tuple[Principal, ...], int],
) -> list[IndexPoint]:
    """An item's points: its chunks in order, each with its vectors, all with the rule of its scope."""
    allowed, version = access
    return [
        IndexPoint(
            id=_point_id(item.uri, chunk.ordinal),
            uri=item.uri,
            ordinal=chunk.ordinal,
            source=item.source,
            kind=item.kind.value,
            scope=item.scope,
            allowed=allowed,
            acl_version=version,
            label=item.label,
            digest=chunk.digest,
            title=item.title,
            heading=chunk.heading,
            text=chunk.text,
            part_uris=chunk.part_uris,
            created_at=_seconds(item.created_at),
            modified_at=_seconds(item.modified_at),
            dense=meaning,
            sparse=words,
        )
        for chunk, (meaning, words) in zip(chunks, vectors, strict=True)
    ]


def _point_id(uri: str, ordinal: int) -> UUID:
    """The id of a chunk's point: made of names alone, so a repeated write meets itself."""
    return uuid5(NAMESPACE_URL, f"{uri}#{ordinal}")


def _seconds(at: datetime | None) -> int | None:
    return int(at.timestamp()) if at else None
