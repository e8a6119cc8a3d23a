"""The glossary: what terms mean, each meaning hanging on the item that says so. A term may have many meanings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from psycopg import Connection
from psycopg.rows import DictRow

from core.access import ScopeId, Trim
from core.items import PersonRef
from graph import codec
from graph.db import Database, clean
from graph.edges import lock_evidence
from graph.visible import seen_by, trimmed

LONGEST_PHRASE: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class GlossaryEntry:
    """`term` means `meaning`, as `quote` says. `key` and `meaning_key` are the forms in which both are looked up."""

    term: str
    key: str
    meaning: str
    meaning_key: str
    quote: str
    at: datetime | None
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GlossaryRow:
    """An entry with the item that says so (`uri`, its container, scope and author)."""

    term: str
    key: str
    meaning: str
    meaning_key: str
    quote: str
    at: datetime | None
    uri: str
    container: str
    scope: ScopeId
    author: PersonRef | None


_ROWS: Final = """
    SELECT g.term, g.key, g.meaning, g.meaning_key, g.quote, g.at, g.uri, i.container, i.scope, i.author_name, i.author
    FROM glossary g JOIN items i ON i.uri = g.uri
"""
_MEANINGS: Final = trimmed(
    "{rows} WHERE {visible} AND g.key = %(key)s ORDER BY g.at DESC NULLS LAST, g.uri, g.ordinal", rows=_ROWS
)
_LONG_FORMS: Final = trimmed(
    "{rows} WHERE {visible} AND g.meaning_key = ANY(%(phrases)s) ORDER BY g.key, g.meaning_key, g.uri, g.ordinal",
    rows=_ROWS,
)
_KEYS: Final = trimmed("SELECT DISTINCT g.key FROM glossary g JOIN items i ON i.uri = g.uri WHERE {visible}")
_FIND_KEYS: Final = trimmed(
    "SELECT DISTINCT g.key FROM glossary g JOIN items i ON i.uri = g.uri WHERE {visible} AND g.key = ANY(%(keys)s)"
)


class GlossaryStore:
    """Terms and their meanings."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def replace(self, uri: str, entries: Sequence[GlossaryEntry]) -> None:
        """Make these the only entries of an item that is there; for a deleted one nothing is kept."""
        self.replace_all({uri: entries})

    def replace_all(self, entries: Mapping[str, Sequence[GlossaryEntry]]) -> None:
        """`replace` for several items, by address, in one transaction."""

        def work(connection: Connection[DictRow]) -> None:
            lock_evidence(connection, entries.keys())
            connection.execute("DELETE FROM glossary WHERE uri = ANY(%s)", [sorted(entries)])
            rows = [
                (n, *map(clean, (e.term, e.key, e.meaning, e.meaning_key, e.quote)), e.at, e.method, uri)
                for uri in sorted(entries)
                for n, e in enumerate(entries[uri])
            ]
            with connection.cursor() as cursor:
                cursor.executemany(
                    "INSERT INTO glossary (uri, ordinal, term, key, meaning, meaning_key, quote, at, method) "
                    "SELECT uri, %s, %s, %s, %s, %s, %s, %s, %s FROM items WHERE uri = %s AND lifecycle <> 'deleted'",
                    rows,
                )

        self._db.retrying(work)

    def meanings(self, trim: Trim, key: str) -> list[GlossaryRow]:
        """Every meaning of a term that the asker may read of, newest first."""
        with self._db.connection() as connection:
            return [_row(r) for r in connection.execute(_MEANINGS, seen_by(trim, key=clean(key)))]

    def keys(self, trim: Trim) -> set[str]:
        """Every term that means something to this asker."""
        with self._db.connection() as connection:
            return {r["key"] for r in connection.execute(_KEYS, seen_by(trim))}

    def find_keys(self, trim: Trim, keys: Iterable[str]) -> set[str]:
        """Which of these words are terms to this asker."""
        with self._db.connection() as connection:
            rows = connection.execute(_FIND_KEYS, seen_by(trim, keys=[clean(k) for k in keys]))
            return {r["key"] for r in rows}

    def long_forms(self, trim: Trim, folded_words: Sequence[str]) -> list[GlossaryRow]:
        """Entries whose meaning is one of these words, or a run of up to eight of them that follow each other."""
        words = [clean(w) for w in folded_words]
        phrases = {
            " ".join(words[start:end])
            for start in range(len(words))
            for end in range(start + 1, min(start + LONGEST_PHRASE, len(words)) + 1)
        }
        with self._db.connection() as connection:
            return [_row(r) for r in connection.execute(_LONG_FORMS, seen_by(trim, phrases=sorted(phrases)))]


def _row(row: DictRow) -> GlossaryRow:
    return GlossaryRow(
        term=row["term"],
        key=row["key"],
        meaning=row["meaning"],
        meaning_key=row["meaning_key"],
        quote=row["quote"],
        at=row["at"],
        uri=row["uri"],
        container=row["container"],
        scope=ScopeId(row["scope"]),
        author=codec.person(row["author_name"], row["author"]),
    )
