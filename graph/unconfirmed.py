"""Look-ups for late binding: which items their source is still to be asked about, by address and by what a reader of
that source needs to ask. Nothing of their content is read here."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from psycopg.rows import DictRow

from core.access import ScopeId, Unconfirmed
from core.items import ItemKind, Source
from graph.db import Database, clean
from graph.visible import asked_by, folded, unconfirmed


@dataclass(frozen=True, slots=True, kw_only=True)
class ToConfirm:
    """An item that its source is to be asked about. `attributes` hold the ids of the places that it lies in."""

    uri: str
    source: Source
    kind: ItemKind
    scope: ScopeId
    attributes: Mapping[str, str]


_SOME: Final = unconfirmed(
    "SELECT i.uri, i.source, i.kind, i.scope, i.attributes FROM items i WHERE {unconfirmed} "
    "ORDER BY i.uri LIMIT %(limit)s"
)
_BY_URI: Final = unconfirmed(
    "SELECT i.uri, i.source, i.kind, i.scope, i.attributes FROM items i WHERE {unconfirmed} AND i.uri = ANY(%(uris)s) "
    "ORDER BY i.uri"
)
_NAMED: Final = unconfirmed(
    """
    SELECT i.uri FROM items i WHERE {unconfirmed} AND (
        i.uri = ANY(%(uris)s) OR i.url_key = ANY(%(names)s) OR i.title_folded = ANY(%(names)s)
        OR lower(i.number) = ANY(%(names)s)
        OR i.uri IN (SELECT uri FROM item_aliases WHERE alias_folded = ANY(%(names)s))
    )
    ORDER BY i.uri LIMIT %(limit)s
    """
)
_LINKED: Final = unconfirmed(
    """
    SELECT DISTINCT i.uri FROM items i JOIN links l ON l.to_item = i.uri OR l.uri = i.uri
    WHERE {unconfirmed} AND (l.uri = ANY(%(uris)s) OR l.to_item = ANY(%(uris)s))
    ORDER BY i.uri LIMIT %(limit)s
    """
)


class UnconfirmedItems:
    """Names items to ask their sources about."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def some(self, asked: Unconfirmed, limit: int) -> list[ToConfirm]:
        """At most `limit` of all there are, by address. Raises StoreUnavailableError."""
        return [_row(r) for r in self._rows(_SOME, asked, limit=limit)]

    def of(self, asked: Unconfirmed, uris: Collection[str]) -> list[ToConfirm]:
        """Those of these items that are to be confirmed, by address. Raises StoreUnavailableError."""
        return [_row(r) for r in self._rows(_BY_URI, asked, uris=[clean(u) for u in uris])]

    def named(self, asked: Unconfirmed, names: Collection[str], limit: int) -> list[str]:
        """Addresses of those that answer to one of these names: an address, URL, title, number or other name."""
        given = [clean(n) for n in names if n]
        return [r["uri"] for r in self._rows(_NAMED, asked, uris=given, names=folded(given), limit=limit)]

    def linked(self, asked: Unconfirmed, uris: Collection[str], limit: int) -> list[str]:
        """Addresses of those that these items link to, or that link to them."""
        return [r["uri"] for r in self._rows(_LINKED, asked, uris=[clean(u) for u in uris], limit=limit)]

    def _rows(self, statement: Any, asked: Unconfirmed, **values: Any) -> list[DictRow]:
        with self._db.connection() as connection:
            return connection.execute(statement, asked_by(asked, **values)).fetchall()


def _row(row: DictRow) -> ToConfirm:
    return ToConfirm(
        uri=row["uri"],
        source=Source(row["source"]),
        kind=ItemKind(row["kind"]),
        scope=ScopeId(row["scope"]),
        attributes=row["attributes"],
    )
