"""Supersession: what replaces what. A row is seen where the old, the new and what says so may all be read.

What an item declares by title or URL is matched when it is asked for, among the items that the asker may read: matched
at ingestion, a hidden item of the same title could make the mark come or go.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from psycopg import Connection
from psycopg.rows import DictRow

from core.access import Trim
from graph.db import Database, clean
from graph.edges import lock_evidence
from graph.visible import seen_by, trimmed

Kind = Literal["declared", "mined"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Supersession:
    """`new_uri` replaces `old_uri`, with a confidence of 0 to 1 (1: declared). `evidence_uri` is set on reading."""

    old_uri: str
    new_uri: str
    kind: Kind
    confidence: float
    quote: str
    evidence_uri: str | None = None


_STORED: Final = trimmed(
    """
    SELECT s.uri, s.old_uri, s.new_uri, s.kind, s.confidence, s.quote
    FROM supersessions s JOIN items i ON i.uri = s.uri
    WHERE {visible} AND (s.old_uri = ANY(%(uris)s) OR s.new_uri = ANY(%(uris)s))
    AND EXISTS (SELECT 1 FROM items t WHERE t.uri = s.old_uri AND {other_visible})
    AND EXISTS (SELECT 1 FROM items t WHERE t.uri = s.new_uri AND {other_visible})
    """
)
_NAMES: Final = trimmed(
    "SELECT i.title_folded, i.url_key FROM items i WHERE {visible} AND i.uri = ANY(%(uris)s)",
)
_REPLACED: Final = trimmed(
    """
    SELECT i.uri, i.title, i.source, i.container, i.replaced_by_keys FROM items i
    WHERE {visible} AND i.replaced_by_keys <> '{none}' AND (i.uri = ANY(%(uris)s) OR i.replaced_by_keys && %(names)s)
    """,
    none="{}",
)
_NAMESAKES: Final = trimmed(
    """
    SELECT i.uri, i.source, i.container, i.title_folded, i.url_key FROM items i
    WHERE {visible} AND (i.title_folded = ANY(%(names)s) OR i.url_key = ANY(%(names)s))
    """
)


class SupersessionStore:
    """What replaces what."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def replace(self, evidence_uri: str, rows: Sequence[Supersession]) -> None:
        """Make these the only rows that this item is the evidence of; for a deleted item nothing is kept."""
        self.replace_all({evidence_uri: rows})

    def replace_all(self, rows: Mapping[str, Sequence[Supersession]]) -> None:
        """`replace` for several items, by address, in one transaction."""

        def work(connection: Connection[DictRow]) -> None:
            lock_evidence(connection, rows.keys())
            connection.execute("DELETE FROM supersessions WHERE uri = ANY(%s)", [sorted(rows)])
            with connection.cursor() as cursor:
                cursor.executemany(
                    "INSERT INTO supersessions (uri, ordinal, old_uri, new_uri, kind, confidence, quote) "
                    "SELECT uri, %s, %s, %s, %s, %s, %s FROM items WHERE uri = %s AND lifecycle <> 'deleted'",
                    [
                        (n, r.old_uri, r.new_uri, r.kind, r.confidence, clean(r.quote), uri)
                        for uri in sorted(rows)
                        for n, r in enumerate(rows[uri])
                    ],
                )

        self._db.retrying(work)

    def of(self, trim: Trim, uris: Collection[str]) -> list[Supersession]:
        """Rows in which one of these items is the old or the new, in order of old, new and evidence."""
        wanted = [clean(u) for u in uris]
        with self._db.connection() as connection:
            stored = connection.execute(_STORED, seen_by(trim, uris=wanted)).fetchall()
            named = _named(connection, trim, wanted)
        found = {(r["old_uri"], r["new_uri"], r["uri"]): _stored(r) for r in stored}
        for row in named:
            if row.old_uri in wanted or row.new_uri in wanted:
                found.setdefault((row.old_uri, row.new_uri, row.old_uri), row)
        return [found[key] for key in sorted(found)]


def _named(connection: Connection[DictRow], trim: Trim, wanted: list[str]) -> list[Supersession]:
    """What items declare by title or URL, where one of `wanted` is the old or may be the new."""
    mine = connection.execute(_NAMES, seen_by(trim, uris=wanted)).fetchall()
    names = sorted({name for r in mine for name in (r["title_folded"], r["url_key"]) if name})
    replaced = connection.execute(_REPLACED, seen_by(trim, uris=wanted, names=names)).fetchall()
    if not replaced:
        return []
    sought = sorted({name for r in replaced for name in r["replaced_by_keys"]})
    namesakes = connection.execute(_NAMESAKES, seen_by(trim, names=sought)).fetchall()
    return [s for old in replaced for name in old["replaced_by_keys"] if (s := _settle(old, name, namesakes))]


def _settle(old: DictRow, name: str, namesakes: Sequence[DictRow]) -> Supersession | None:
    """The one item that answers to the name, those of the same container first; several: none, since the engine
    picks nothing silently."""
    found = [r for r in namesakes if name in (r["title_folded"], r["url_key"]) and r["uri"] != old["uri"]]
    near = [r for r in found if (r["source"], r["container"]) == (old["source"], old["container"])] or found
    if len(near) != 1:
        return None
    return Supersession(
        old_uri=old["uri"],
        new_uri=near[0]["uri"],
        kind="declared",
        confidence=1.0,
        quote=f"{old['title']} is declared replaced",
        evidence_uri=old["uri"],
    )


def _stored(row: DictRow) -> Supersession:
    return Supersession(
        old_uri=row["old_uri"],
        new_uri=row["new_uri"],
        kind=row["kind"],
        confidence=row["confidence"],
        quote=row["quote"],
        evidence_uri=row["uri"],
    )
