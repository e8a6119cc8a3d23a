"""People edges: who did what to which item. The item is the edge's evidence, and carries its permission."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from psycopg import Connection
from psycopg.rows import DictRow

from core.access import Trim
from core.items import Contribution, Role
from core.principals import Principal
from graph.db import Database, clean
from graph.visible import seen_by, trimmed


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """`person` (None: only the name is known) did `role` to the item `uri` at `at`."""

    person: Principal | None
    name: str
    role: Role
    uri: str
    at: datetime | None
    note: str


_OF_ITEMS: Final = trimmed(
    "SELECT e.* FROM edges e JOIN items i ON i.uri = e.uri WHERE {visible} AND i.uri = ANY(%(uris)s) "
    "AND e.uri = ANY(%(uris)s) ORDER BY e.uri, e.ordinal"
)
_OF_PERSON: Final = trimmed(
    "SELECT e.* FROM edges e JOIN items i ON i.uri = e.uri WHERE {visible} AND e.person = %(person)s "
    "ORDER BY e.at DESC NULLS LAST, e.uri, e.ordinal LIMIT %(limit)s"
)


class EdgeStore:
    """Edges of people to items."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def replace(self, uri: str, contributions: Sequence[Contribution]) -> None:
        """Make these the only edges of an item that is there. `ItemStore.upsert` does so by itself."""
        self._db.retrying(lambda connection: write_edges(connection, uri, contributions))

    def of_items(self, trim: Trim, uris: Collection[str]) -> list[Edge]:
        """Edges of those items that the asker may read, by item."""
        with self._db.connection() as connection:
            return [_edge(r) for r in connection.execute(_OF_ITEMS, seen_by(trim, uris=[clean(u) for u in uris]))]

    def of_person(self, trim: Trim, principal: Principal, limit: int) -> list[Edge]:
        """What a person did, as far as the asker may read it, newest first; at most `limit`."""
        with self._db.connection() as connection:
            return [_edge(r) for r in connection.execute(_OF_PERSON, seen_by(trim, person=principal, limit=limit))]


def write_edges(connection: Connection[DictRow], uri: str, contributions: Sequence[Contribution]) -> None:
    """Replace an item's edges in a transaction that is already open; a deleted item gets none."""
    lock_evidence(connection, [uri])
    connection.execute("DELETE FROM edges WHERE uri = %s", [uri])
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO edges (uri, ordinal, person, name, role, at, note) "
            "SELECT uri, %s, %s, %s, %s, %s, %s FROM items WHERE uri = %s AND lifecycle <> 'deleted'",
            [
                (n, c.person.principal, clean(c.person.name), c.role.value, c.at, clean(c.note), uri)
                for n, c in enumerate(contributions)
            ],
        )


def lock_evidence(connection: Connection[DictRow], uris: Collection[str]) -> None:
    """Let one writer at a time touch what hangs on these items, and none while they are being deleted."""
    connection.execute("SELECT 1 FROM items WHERE uri = ANY(%s) ORDER BY uri FOR UPDATE", [sorted(uris)])


def _edge(row: DictRow) -> Edge:
    return Edge(
        person=Principal(row["person"]) if row["person"] else None,
        name=row["name"],
        role=Role(row["role"]),
        uri=row["uri"],
        at=row["at"],
        note=row["note"],
    )
