"""Everything that the stores hold of an organization, in a form that two engines can be compared by.

Left out is only what must differ between two histories that end alike: times of ingestion, the counters that order
versions of a rule, tombstones and items that are withheld, and rules of scopes that are nobody's because they went.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import qdrant_edge as q

from core.access import NOBODY, WITHHELD
from core.index.edge import EdgeIndex
from core.index.edge_shard import DENSE, KEYWORDS
from graph.db import Database

# Section → key → what stands there.
Dump = dict[str, dict[str, Any]]

_OURS: Final = ("ingested_at", "noticed_at", "stored_digest", "lifecycle", "reason")
# Of what is shown to nobody for now, only that it is out of reach counts: its points must be off every scope.
_SHOWN: Final = "WHERE uri IN (SELECT uri FROM items WHERE lifecycle = 'live')"
_TABLES: Final[Mapping[str, str]] = {
    "items": "SELECT uri AS entry, * FROM items WHERE lifecycle = 'live'",
    **{
        name: f"SELECT uri || '#' || ordinal AS entry, * FROM {table} {_SHOWN}"
        for name, table in {
            "chunks": "chunks",
            "aliases": "item_aliases",
            "links": "links",
            "edges": "edges",
            "glossary": "glossary",
            "supersessions": "supersessions",
        }.items()
    },
    "people": "SELECT source || ' ' || principal AS entry, * FROM people",
    "containers": (
        "SELECT source || ' ' || principal AS entry, source, principal, name, kind, "
        "unresolved_since IS NOT NULL AS unresolved FROM containers"
    ),
    "memberships": "SELECT source || ' ' || container || ' ' || member AS entry FROM memberships",
    "failures": "SELECT uri AS entry, source, reason FROM failures",
    "scopes": (
        "SELECT id AS entry, origin, source, kind, name, label, attributes, acl, acl_digest, allowed, denied, "
        "indexed_version = acl_version AS indexed, indexed_allowed FROM scopes"
    ),
}


def dump(database: Database, index: EdgeIndex) -> Dump:
    """Read all of it."""
    return {**record_dump(database), "points": _points(index)}


def record_dump(database: Database) -> Dump:
    """Read what Postgres holds of it."""
    found: Dump = {}
    with database.connection() as connection:
        for name, statement in _TABLES.items():
            rows = connection.execute(statement).fetchall()
            found[name] = {r["entry"]: {k: v for k, v in r.items() if k not in (*_OURS, "entry")} for r in rows}
    found["scopes"] = {
        key: {**row, "indexed_allowed": sorted(row["indexed_allowed"])}
        for key, row in found["scopes"].items()
        if row["acl_digest"] != NOBODY.digest
    }
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
            if payload["scope"] == WITHHELD:
                continue
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


def shown_in_pieces(database: Database, index: EdgeIndex) -> list[str]:
    """Items that readers may be shown although the index does not hold exactly the chunks of their record."""
    with database.connection() as connection:
        rows = connection.execute("SELECT uri, chunk_digests FROM items WHERE shown").fetchall()
    held: dict[str, dict[int, str]] = {}
    for point in _points(index).values():
        held.setdefault(point["uri"], {})[point["ordinal"]] = point["digest"]
    return [r["uri"] for r in rows if held.get(r["uri"], {}) != dict(enumerate(r["chunk_digests"]))]
