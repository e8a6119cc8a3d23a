"""Trimmed reading of items: every statement holds the condition of `graph.visible`, and none can be asked without."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, LiteralString

from psycopg.rows import DictRow
from psycopg.sql import SQL

from core.access import ScopeId, Trim
from core.authority import Authority
from core.items import Item, ItemKind, PersonRef, Source
from graph import codec
from graph.db import Database, clean
from graph.visible import VISIBLE, fold, folded, seen_by, trimmed, url_key


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemRow:
    """An item without its text. `chunk_digests` are those of its chunks in order: what the index must show."""

    uri: str
    source: Source
    kind: ItemKind
    scope: ScopeId
    title: str
    url: str
    version: str
    digest: str
    created_at: datetime | None
    modified_at: datetime | None
    validated_at: datetime | None
    ingested_at: datetime
    author: PersonRef | None
    owner: PersonRef | None
    authority: Authority
    state: str | None
    container: str
    number: str | None
    label: str | None
    deprecated: bool
    replaced_by: tuple[str, ...]
    aliases: tuple[str, ...]
    attributes: Mapping[str, str]
    chunk_digests: tuple[str, ...]


_COLUMNS: Final[LiteralString] = """
    i.uri, i.source, i.kind, i.scope, i.title, i.url, i.version, i.digest, i.created_at, i.modified_at,
    i.validated_at, i.ingested_at, i.author_name, i.author, i.owner_name, i.owner, i.authority, i.state, i.container,
    i.number, i.label, i.deprecated, i.replaced_by, i.body->'aliases' AS aliases, i.attributes, i.chunk_digests
"""

_BY_URI: Final = trimmed("SELECT {columns} FROM items i WHERE {visible} AND i.uri = ANY(%(uris)s)", columns=_COLUMNS)
_FULL: Final = trimmed(
    "SELECT {columns}, i.body FROM items i WHERE {visible} AND i.uri = ANY(%(uris)s)", columns=_COLUMNS
)
_LINKS_FROM: Final = trimmed(
    """
    SELECT l.uri, l.to_item, l.rel, min(l.ordinal) AS place FROM links l JOIN items i ON i.uri = l.uri
    WHERE {visible} AND i.uri = ANY(%(uris)s) AND l.uri = ANY(%(uris)s)
    AND (l.outside OR EXISTS (SELECT 1 FROM items t WHERE t.uri = l.to_item AND {other_visible}))
    GROUP BY l.uri, l.to_item, l.rel ORDER BY l.uri, place
    """
)
_LINKS_TO: Final = trimmed(
    """
    SELECT DISTINCT l.uri, l.to_item, l.rel FROM links l JOIN items i ON i.uri = l.uri JOIN items t ON t.uri = l.to_item
    WHERE {visible} AND {other_visible} AND l.to_item = ANY(%(uris)s)
    ORDER BY l.uri, l.to_item, l.rel
    """
)

_NAMED: Final = trimmed(
    """
    SELECT DISTINCT ON (a.alias_folded, i.uri) a.alias_folded AS alias, {columns}
    FROM item_aliases a JOIN items i ON i.uri = a.uri
    WHERE {visible} AND a.alias_folded = ANY(%(aliases)s) ORDER BY a.alias_folded, i.uri
    """,
    columns=_COLUMNS,
)

_CONDITIONS: Final[Mapping[str, LiteralString]] = {
    "source": "i.source = %(source)s",
    "number": "lower(i.number) = lower(%(number)s)",
    "alias": "i.uri IN (SELECT uri FROM item_aliases WHERE alias_folded = ANY(%(alias)s))",
    "title": "i.title_folded = %(title)s",
    "container": "i.container_folded = %(container)s",
    "url": "(i.url_key = %(url)s OR i.uri IN (SELECT uri FROM item_aliases WHERE alias_folded = %(url)s))",
}


class ItemReader:
    """What the query plane may ask of items. All of it sees what the trim opens and nothing else."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def visible(self, trim: Trim, uris: Collection[str]) -> dict[str, ItemRow]:
        """Those of the items that the asker may read, by address. Raises StoreUnavailableError."""
        with self._db.connection() as connection:
            rows = connection.execute(_BY_URI, seen_by(trim, uris=_texts(uris))).fetchall()
        return {r["uri"]: _row(r) for r in rows}

    def full(self, trim: Trim, uri: str) -> tuple[ItemRow, str] | None:
        """The item and all of its text as Markdown; None where it is not there or not for this asker."""
        with self._db.connection() as connection:
            row = connection.execute(_FULL, seen_by(trim, uris=_texts([uri]))).fetchone()
        if row is None:
            return None
        return _row(row), text_of(codec.decode(row["body"], ScopeId(row["scope"])))

    def links_from(self, trim: Trim, uris: Collection[str]) -> list[tuple[str, str, str]]:
        """(from, to, relation) of links that these items state, in their order: to items that the asker may read
        (a link to a comment counts as one to its item), and to addresses outside."""
        with self._db.connection() as connection:
            rows = connection.execute(_LINKS_FROM, seen_by(trim, uris=_texts(uris))).fetchall()
        return [(r["uri"], r["to_item"], r["rel"]) for r in rows]

    def links_to(self, trim: Trim, uris: Collection[str]) -> list[tuple[str, str, str]]:
        """(from, to, relation) of links that lead to these items, from items that the asker may read."""
        with self._db.connection() as connection:
            rows = connection.execute(_LINKS_TO, seen_by(trim, uris=_texts(uris))).fetchall()
        return [(r["uri"], r["to_item"], r["rel"]) for r in rows]

    def find(
        self,
        trim: Trim,
        *,
        source: Source | None = None,
        number: str | None = None,
        alias: str | None = None,
        title: str | None = None,
        container: str | None = None,
        url: str | None = None,
        limit: int = 20,
    ) -> list[ItemRow]:
        """Items that answer to all of the given names, by address. Names are compared whole, without regard to case
        or Unicode form; a URL also without its fragment and the order of its parameters. No name given: none."""
        given: dict[str, Any] = {
            "number": number,
            "alias": alias and folded([alias]),
            "title": title and fold(title),
            "container": container and fold(container),
            "url": url and url_key(url),
        }
        given = {k: [clean(x) for x in v] if isinstance(v, list) else clean(v) for k, v in given.items() if v}
        if not given:
            return []
        if source is not None:
            given["source"] = source.value
        wanted = SQL(" AND ").join([VISIBLE, *(SQL(_CONDITIONS[name]) for name in given)])
        statement = SQL("SELECT {} FROM items i WHERE {} ORDER BY i.uri LIMIT %(limit)s").format(SQL(_COLUMNS), wanted)
        with self._db.connection() as connection:
            rows = connection.execute(statement, seen_by(trim, limit=limit, **given)).fetchall()
        return [_row(r) for r in rows]

    def named(self, trim: Trim, aliases: Collection[str]) -> dict[str, list[ItemRow]]:
        """Items by each of these aliases, looked up as `find` does; aliases that nothing answers to are left out."""
        keys = {alias: folded([clean(alias)])[0] for alias in aliases}
        with self._db.connection() as connection:
            rows = connection.execute(_NAMED, seen_by(trim, aliases=sorted(set(keys.values())))).fetchall()
        by_key: dict[str, list[ItemRow]] = {}
        for row in rows:
            by_key.setdefault(row["alias"], []).append(_row(row))
        return {alias: by_key[key] for alias, key in keys.items() if key in by_key}


def text_of(item: Item) -> str:
    """An item's parts as one Markdown text; comments and replies say whose they are and when."""
    blocks = []
    for part in item.parts:
        lines = []
        if part.heading:
            lines.append(f"## {' › '.join(part.heading)}")
        if part.uri != item.uri and (part.author or part.at):
            said = ", ".join(x for x in (part.author and part.author.name, part.at and f"{part.at:%Y-%m-%d}") if x)
            lines.append(f"**{said}**")
        lines.append(part.text)
        blocks.append("\n\n".join(lines))
    return "\n\n".join(blocks)


def _texts(uris: Collection[str]) -> list[str]:
    return [clean(u) for u in uris]


def _row(row: DictRow) -> ItemRow:
    return ItemRow(
        uri=row["uri"],
        source=Source(row["source"]),
        kind=ItemKind(row["kind"]),
        scope=ScopeId(row["scope"]),
        title=row["title"],
        url=row["url"],
        version=row["version"],
        digest=row["digest"],
        created_at=row["created_at"],
        modified_at=row["modified_at"],
        validated_at=row["validated_at"],
        ingested_at=row["ingested_at"],
        author=codec.person(row["author_name"], row["author"]),
        owner=codec.person(row["owner_name"], row["owner"]),
        authority=Authority(row["authority"]),
        state=row["state"],
        container=row["container"],
        number=row["number"],
        label=row["label"],
        deprecated=row["deprecated"],
        replaced_by=tuple(row["replaced_by"]),
        aliases=tuple(row["aliases"]),
        attributes=row["attributes"],
        chunk_digests=tuple(row["chunk_digests"]),
    )
