"""What a point carries beside its vectors, and what must be right before it is stored."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

import numpy as np

from core.access import ScopeId
from core.errors import InvariantError
from core.index.port import IndexedChunk, IndexPoint

# Every field of a point, and what it is for. A point with others, or without one of these, was not written by this
# engine: what it says is not shown.
FIELDS: Final[Mapping[str, str]] = {
    "allowed": "access: the principals that the rule of its scope names",
    "scope": "access: whose rule decides",
    "acl_version": "access: the version of that rule that the point carries",
    "label": "access: from some labels on the source has the last word",
    "uri": "identity",
    "ordinal": "identity",
    "source": "narrowing",
    "kind": "narrowing",
    "created_at": "narrowing",
    "modified_at": "shown",
    "digest": "compared with the record before anything is shown",
    "title": "shown",
    "heading": "shown",
    "text": "shown",
    "part_uris": "shown",
}


def checked_payload(payload: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the payload of a point that is about to be shown.

    Raises InvariantError where it has a field that is not classified or lacks one that is.
    """
    found = payload or {}
    if found.keys() != FIELDS.keys():
        odd = ", ".join(sorted(found.keys() ^ FIELDS.keys()))
        raise InvariantError(f"the index answered with a point of other fields than ours: {odd}")
    return found


def payload_of(point: IndexPoint) -> dict[str, Any]:
    """Return all fields of `point` as plain data: access fields always, so that no write can keep old ones."""
    return {
        "uri": point.uri,
        "ordinal": point.ordinal,
        "source": str(point.source),
        "kind": point.kind,
        "scope": point.scope,
        "allowed": list(point.allowed),
        "acl_version": point.acl_version,
        "label": point.label,
        "digest": point.digest,
        "title": point.title,
        "heading": list(point.heading),
        "text": point.text,
        "part_uris": list(point.part_uris),
        "created_at": point.created_at,
        "modified_at": point.modified_at,
    }


def access_payload(allowed: tuple[str, ...], acl_version: int, scope: str | None = None) -> Mapping[str, Any]:
    """Return the access fields alone, with the scope where it changes."""
    fields: dict[str, Any] = {"allowed": list(allowed), "acl_version": acl_version}
    if scope is not None:
        fields["scope"] = scope
    return fields


# The fields that `indexed_chunk` reads.
INVENTORY_FIELDS = ("uri", "ordinal", "digest", "scope", "acl_version")


def indexed_chunk(payload: Mapping[str, Any]) -> IndexedChunk:
    """Return what a stored point says of itself. A field that is not there reads as one that fits no record."""
    return IndexedChunk(
        uri=str(payload.get("uri") or ""),
        ordinal=int(payload.get("ordinal", -1)),
        digest=str(payload.get("digest") or ""),
        scope=ScopeId(str(payload.get("scope") or "")),
        acl_version=int(payload.get("acl_version", -1)),
    )


def check_point(point: IndexPoint, uri: str, size: int) -> None:
    """Raise InvariantError unless the point belongs to item `uri` and its vectors can be searched.

    The engine stores NaN and zero vectors without a word, and would then rank by them.
    """
    where = f"{point.uri}#{point.ordinal}"
    if point.uri != uri:
        raise InvariantError(f"a point of another item than {uri}", where=where)
    if not point.scope:
        raise InvariantError("a point without a scope", where=where)
    dense = point.dense
    if dense.shape != (size,):
        raise InvariantError(f"a vector of shape {dense.shape} in an index of size {size}", where=where)
    if not np.isfinite(dense).all() or not float(np.abs(dense).max()) > 0.0:
        raise InvariantError("a vector that is not finite or zero", where=where)
    indices, values = point.sparse.indices, point.sparse.values
    if len(indices) != len(values) or any(a >= b for a, b in pairwise(indices)):
        raise InvariantError("keyword weights whose ids are not ascending and unique", where=where)
    if indices and not (indices[0] >= 0 and indices[-1] < 2**32):
        raise InvariantError("keyword weights whose ids do not fit 32 bits", where=where)
    if not all(np.isfinite(v) and v > 0 for v in values):
        raise InvariantError("keyword weights that are not finite and positive", where=where)
