"""Takes words out of the audit log that were erased: who asked what stays told, but not in which words.

An entry holds its words by a salted digest, so it verifies without them; the chain records which entries lost theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from psycopg import Connection
from psycopg.rows import DictRow

from core.erased import ErasedPeople
from core.principals import Principal
from graph.db import Database

_AT_ONCE: Final = 1000
# A shorter title is a word that anybody may have used.
_TELLING: Final = 8


class AuditWords:
    """The words of entries, as the owner of the log may erase them. Raises StoreUnavailableError."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def forget_people(self, people: ErasedPeople) -> int:
        """Erase the words of what these people asked, and of whatever names them; of how many entries."""

        def is_theirs(row: DictRow) -> bool:
            words = f"{row['interpreted_as']}\n{row['question'] or ''}"
            return people.has(Principal(row["asker"])) or people.masked(words) != words

        return self._forget(is_theirs)

    def forget_item(self, uri: str, title: str | None) -> int:
        """Erase the words of entries whose answers showed the item, or that hold its title; of how many entries."""
        wanted = title.casefold().strip() if title is not None else ""

        def is_of_it(row: DictRow) -> bool:
            words = f"{row['interpreted_as']}\n{row['question'] or ''}".casefold()
            return uri in row["uris"] or (len(wanted) >= _TELLING and wanted in words)

        return self._forget(is_of_it)

    def _forget(self, is_meant: Callable[[DictRow], bool]) -> int:
        with self._db.connection() as connection:
            meant = [row["seq"] for row in _with_words(connection) if is_meant(row)]
            return sum(_erase(connection, meant[i : i + _AT_ONCE]) for i in range(0, len(meant), _AT_ONCE))


def _with_words(connection: Connection[DictRow]) -> Iterator[DictRow]:
    with connection.cursor(name="audit_words") as cursor:
        cursor.execute(
            "SELECT a.seq, a.asker, a.interpreted_as, a.uris, q.question "
            "FROM audit a LEFT JOIN audit_questions q USING (seq) WHERE a.salt IS NOT NULL ORDER BY a.seq"
        )
        yield from cursor


def _erase(connection: Connection[DictRow], entries: Sequence[int]) -> int:
    row = connection.execute("SELECT audit_erase_words(%s::bigint[]) AS n", [list(entries)]).fetchone()
    return int(row["n"]) if row is not None else 0
