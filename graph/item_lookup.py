"""Finding an item by what people call it, whoever may read it: for administrators, never for an answer.

It knows no trim, so no module of the query plane may import it (a test sees to that).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Final, LiteralString

from psycopg.sql import SQL

from core.access import ScopeId
from graph.db import Database, clean
from graph.visible import fold, url_key

_FIND: Final = SQL(
    "SELECT uri, source, kind, title, url, scope, container, number, label, lifecycle, reason, noticed_at, shown "
    "FROM items WHERE {condition} ORDER BY uri LIMIT 20"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownItem:
    """An item as the record has it. `shown`: live, and the index holds what the record says."""

    uri: str
    source: str
    kind: str
    title: str
    url: str
    scope: ScopeId
    container: str
    number: str | None
    label: str | None
    lifecycle: str
    reason: str | None
    noticed_at: datetime | None
    shown: bool


class ItemLookup:
    """Untrimmed look-ups in the record. Each returns at most 20 items, by address."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def by_uri(self, uri: str) -> list[KnownItem]:
        """The item of that address, hidden or deleted too."""
        return self._find("uri = %(uri)s", uri=clean(uri))

    def by_urls(self, urls: Collection[str]) -> list[KnownItem]:
        """Items of these web addresses."""
        return self._find("url_key = ANY(%(keys)s)", keys=sorted({url_key(clean(u)) for u in urls}))

    def by_number(self, number: str, kind: str) -> list[KnownItem]:
        """Items of a kind that people call by that number."""
        return self._find("lower(number) = lower(%(number)s) AND kind = %(kind)s", number=clean(number), kind=kind)

    def by_title(self, title: str) -> list[KnownItem]:
        """Items of that title, whatever the case."""
        return self._find("title_folded = %(title)s AND lifecycle <> 'deleted'", title=fold(clean(title)))

    def by_alias(self, names: Collection[str]) -> list[KnownItem]:
        """Items that answer to one of these other names (a file's path, a dashboard's panel)."""
        return self._find(
            "uri IN (SELECT uri FROM item_aliases WHERE alias_folded = ANY(%(names)s))",
            names=sorted({fold(clean(n)) for n in names}),
        )

    def _find(self, condition: LiteralString, **values: object) -> list[KnownItem]:
        with self._db.connection() as connection:
            rows = connection.execute(_FIND.format(condition=SQL(condition)), values).fetchall()
        return [KnownItem(**{**row, "scope": ScopeId(row["scope"])}) for row in rows]
