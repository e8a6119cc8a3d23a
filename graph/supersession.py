"""Supersession: what replaces what. A row is seen where the old, the new and what says so may all be read.

What an item declares by title or URL is matched when it is asked for, among the items that the asker may read: matched
at ingestion, a hidden item of the same title could make the mark come or go.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
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
    AND (SELECT count(*) FROM items t WHERE t.uri IN (s.old_uri, s.new_uri) AND t.lifecycle = 'live'
         AND t.indexed_digest = t.digest AND t.scope = ANY(%(readable)s)) = 2
    """
)
# Candidates for names that are no addresses: `i` says that it is replaced, `t` answers to the name.
_NAMED: Final = trimmed(
    """
    SELECT i.uri AS old_uri, t.uri AS new_uri, name, i.title, i.source = t.source AND i.container = t.container AS near
    FROM items i, unnest(i.replaced_by_keys) AS name, items t
    WHERE {visible} AND (t.title_folded = name OR t.url_key = name) AND t.uri <> i.uri
    AND t.lifecycle = 'live' AND t.indexed_digest = t.digest AND t.scope = ANY(%(readable)s)
    AND i.replaced_by_keys <> '{{}}' AND {which}
    """,
    which="""(i.uri = ANY(%(uris)s) OR i.replaced_by_keys && ARRAY(
        SELECT n FROM items x, LATERAL (VALUES (x.title_folded), (x.url_key)) v(n) WHERE x.uri = ANY(%(uris)s)))""",
)


class SupersessionStore:
    """What replaces what."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def replace(self, evidence_uri: str, rows: Sequence[Supersession]) -> None:
        """Make these the only rows that this item is the evidence of; for a deleted item nothing is kept."""

        def work(connection: Connection[DictRow]) -> None:
            lock_evidence(connection, evidence_uri)
            connection.execute("DELETE FROM supersessions WHERE uri = %s", [evidence_uri])
            with connection.cursor() as cursor:
                cursor.executemany(
                    "INSERT INTO supersessions (uri, ordinal, old_uri, new_uri, kind, confidence, quote) "
                    "SELECT uri, %s, %s, %s, %s, %s, %s FROM items WHERE uri = %s AND lifecycle <> 'deleted'",
                    [
                        (n, r.old_uri, r.new_uri, r.kind, r.confidence, clean(r.quote), evidence_uri)
                        for n, r in enumerate(rows)
                    ],
                )

        self._db.retrying(work)

    def of(self, trim: Trim, uris: Collection[str]) -> list[Supersession]:
        """Rows in which one of these items is the old or the new, in order of old, new and evidence."""
        values = seen_by(trim, uris=[clean(u) for u in uris])
        with self._db.connection() as connection:
            stored = connection.execute(_STORED, values).fetchall()
            named = connection.execute(_NAMED, values).fetchall()
        wanted = set(values["uris"])
        found = {(r["old_uri"], r["new_uri"], r["uri"]): _stored(r) for r in stored}
        for row in _settled(named):
            if row.old_uri in wanted or row.new_uri in wanted:
                found.setdefault((row.old_uri, row.new_uri, row.old_uri), row)
        return [found[key] for key in sorted(found)]


def _settled(rows: Sequence[DictRow]) -> list[Supersession]:
    """For each name the one item that answers to it, those of the same container first; several: none, since the
    engine picks nothing silently."""
    candidates: dict[tuple[str, str], list[DictRow]] = {}
    for row in rows:
        candidates.setdefault((row["old_uri"], row["name"]), []).append(row)
    settled = []
    for found in candidates.values():
        near = [r for r in found if r["near"]] or found
        if len({r["new_uri"] for r in near}) == 1:
            settled.append(
                Supersession(
                    old_uri=near[0]["old_uri"],
                    new_uri=near[0]["new_uri"],
                    kind="declared",
                    confidence=1.0,
                    quote=f"{near[0]['title']} is declared replaced",
                    evidence_uri=near[0]["old_uri"],
                )
            )
    return settled


def _stored(row: DictRow) -> Supersession:
    return Supersession(
        old_uri=row["old_uri"],
        new_uri=row["new_uri"],
        kind=row["kind"],
        confidence=row["confidence"],
        quote=row["quote"],
        evidence_uri=row["uri"],
    )
