"""Everything that the stores hold of an organization, in a form that two engines can be compared by.

Left out is only what must differ between two histories that end alike: times of ingestion, the counters that order
versions of a rule, tombstones, and rules of scopes that are nobody's because they went.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import qdrant_edge as q

from core.access import NOBODY
from core.index.edge import DENSE, KEYWORDS, EdgeIndex
from graph.db import Database

# Section → key → what stands there.
Dump = dict[str, dict[str, Any]]

_OURS: Final = ("ingested_at", "noticed_at", "stored_digest")
_TABLES: Final[Mapping[str, str]] = {
    "items": "SELECT uri AS key, * FROM items WHERE lifecycle <> 'deleted'",
    "chunks": "SELECT uri || '#' || ordinal AS key, * FROM chunks",
    "aliases": "SELECT uri || '#' || ordinal AS key, * FROM item_aliases",
    "links": "SELECT uri || '#' || ordinal AS key, * FROM links",
    "edges": "SELECT uri || '#' || ordinal AS key, * FROM edges",
    "glossary": "SELECT uri || '#' || ordinal AS key, * FROM glossary",
    "supersessions": "SELECT uri || '#' || ordinal AS key, * FROM supersessions",
    "people": "SELECT source || ' ' || principal AS key, * FROM people",
    "containers": (
        "SELECT source || ' ' || principal AS key, source, principal, name, kind, "
        "unresolved_since IS NOT NULL AS unresolved FROM containers"
    ),
    "memberships": "SELECT source || ' ' || container || ' ' || member AS key FROM memberships",
    "failures": "SELECT uri AS key, source, reason FROM failures",
    "scopes": (
        "SELECT id AS key, origin, source, kind, name, label, attributes, acl, acl_digest, allowed, denied, "
        "indexed_version = acl_version AS indexed, indexed_allowed FROM scopes"
    ),
}


def dump(database: Database, index: EdgeIndex) -> Dump:
    """Read all of it."""
    found: Dump = {}
    with database.connection() as connection:
        for name, statement in _TABLES.items():
            rows = connection.execute(statement).fetchall()
            found[name] = {r["key"]: {k: v for k, v in r.items() if k not in (*_OURS, "key")} for r in rows}
    found["scopes"] = {
        key: {**row, "indexed_allowed": sorted(row["indexed_allowed"])}
        for key, row in found["scopes"].items()
        if row["acl_digest"] != NOBODY.digest
    }
    found["points"] = _points(index)
    return found


def _points(index: EdgeIndex) -> dict[str, Any]:
    found: dict[str, Any] = {}
    offset: Any = None
    while True:
        request = q.ScrollRequest(offset=offset, limit=1000, with_payload=True, with_vector=True)
        records, offset = index.writer._shard.run(lambda shard, r=request: shard.scroll(r))
        for record in records:
            payload = dict(record.payload or {})
            payload.pop("acl_version", None)
            vector: Any = record.vector
            sparse = vector.get(KEYWORDS)
            words = (list(sparse.indices), list(sparse.values)) if sparse else ([], [])
            found[str(record.id)] = {**payload, "dense": list(vector[DENSE]), "keywords": words}
        if offset is None:
            return found


def differences(left: Dump, right: Dump, *, most: int = 8) -> list[str]:
    """What is in one and not the same in the other, in words; [] where they are equal."""
    told: list[str] = []
    for section in sorted(left.keys() | right.keys()):
        one, other = left.get(section, {}), right.get(section, {})
        for key in sorted(one.keys() | other.keys()):
            if key not in other:
                told.append(f"{section}: only the first has {key}")
            elif key not in one:
                told.append(f"{section}: only the second has {key}")
            elif one[key] != other[key]:
                told += [
                    f"{section}: {key}: {name} is {one[key].get(name)!r} and {other[key].get(name)!r}"
                    for name in sorted(one[key].keys() | other[key].keys())
                    if one[key].get(name) != other[key].get(name)
                ]
            if len(told) > most:
                return [*told[:most], "and more"]
    return told
