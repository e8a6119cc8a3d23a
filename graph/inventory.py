"""What the index must hold according to the record, for the gate that every run passes (`ingestion.gate`)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from core.access import WITHHELD, ScopeId
from core.items import Source
from graph.db import Database

_BATCH: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """One item's points: the digest of each chunk in order, the scope they hang on and the version of its rule."""

    uri: str
    digests: tuple[str, ...]
    scope: ScopeId
    acl_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordProblems:
    """Counts of what the record itself has wrong; all zero where it is sound.

    `behind`: items that the index does not hold as they are; `without_scope`: items on a scope that has no rule at
    all; `orphan_chunks`: chunks of deleted items, or more or fewer of them than their item names; `pending_scopes`:
    rules that have not reached the index.
    """

    behind: int = 0
    without_scope: int = 0
    orphan_chunks: int = 0
    pending_scopes: int = 0


class Inventory:
    """Reads the record for the gate. Memory does not grow with the number of items."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def expected(self, source: Source) -> Iterator[Expected]:
        """What the index must hold of the live items of a source, in no order that counts."""
        with self._db.connection() as connection, connection.cursor(name="inventory") as cursor:
            cursor.itersize = _BATCH
            for row in cursor.execute(_EXPECTED, {"source": source.value}):
                yield Expected(
                    uri=row["uri"],
                    digests=tuple(row["chunk_digests"]),
                    scope=ScopeId(row["scope"]),
                    acl_version=row["acl_version"],
                )

    def unknown(self, uris: Collection[str]) -> set[str]:
        """Those of these addresses that the record does not have, or only as deleted."""
        with self._db.connection() as connection:
            rows = connection.execute(
                "SELECT uri FROM items WHERE uri = ANY(%s) AND lifecycle <> 'deleted'", [sorted(set(uris))]
            ).fetchall()
        return set(uris) - {r["uri"] for r in rows}

    def rules(self) -> dict[ScopeId, tuple[int, bool]]:
        """Of each scope the version of its rule, and whether the index has it."""
        with self._db.connection() as connection:
            rows = connection.execute("SELECT id, acl_version, indexed_version FROM scopes").fetchall()
        return {ScopeId(r["id"]): (r["acl_version"], r["indexed_version"] == r["acl_version"]) for r in rows}

    def problems(self, source: Source) -> RecordProblems:
        """What is wrong with the record of a source."""
        with self._db.connection() as connection:
            row = connection.execute(_PROBLEMS, {"source": source.value, "withheld": WITHHELD}).fetchone()
        assert row is not None
        return RecordProblems(**row)

    def forget_indexed(self, uris: Collection[str]) -> None:
        """The index does not hold these items as the record has them: nobody sees them until they are written anew."""
        with self._db.connection() as connection:
            connection.execute(
                "UPDATE items SET indexed_digest = NULL, indexed_scope = NULL "
                "WHERE uri = ANY(%s) AND lifecycle <> 'deleted'",
                [sorted(set(uris))],
            )


# Recorded, but not to be indexed: the failure is told as such, and the index holds nothing of the item.
_PARKED: Final = """
    (i.indexed_digest IS DISTINCT FROM i.digest AND EXISTS (SELECT FROM failures f WHERE f.uri = i.uri))
"""
_EXPECTED: Final = f"""
    SELECT i.uri, i.chunk_digests, i.scope, coalesce(s.acl_version, 0) AS acl_version
    FROM items i LEFT JOIN scopes s ON s.id = i.scope
    WHERE i.source = %(source)s AND i.lifecycle = 'live' AND NOT {_PARKED}
"""  # noqa: S608 - constants
_PROBLEMS: Final = f"""
    SELECT
        (SELECT count(*) FROM items i WHERE source = %(source)s AND (
            lifecycle = 'live' AND (indexed_digest IS DISTINCT FROM digest OR indexed_scope IS DISTINCT FROM scope)
                AND NOT {_PARKED}
            OR lifecycle = 'hidden' AND indexed_scope IS DISTINCT FROM %(withheld)s
            OR NOT index_cleared)) AS behind,
        (SELECT count(*) FROM items i WHERE source = %(source)s AND lifecycle <> 'deleted'
            AND NOT EXISTS (SELECT FROM scopes s WHERE s.id = i.scope)) AS without_scope,
        (SELECT count(*) FROM items i JOIN LATERAL (SELECT count(*) AS n FROM chunks c WHERE c.uri = i.uri) c ON true
            WHERE i.source = %(source)s AND c.n <> cardinality(i.chunk_digests)) AS orphan_chunks,
        (SELECT count(*) FROM scopes WHERE indexed_version <> acl_version) AS pending_scopes
"""  # noqa: S608 - constants
