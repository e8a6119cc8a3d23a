"""What was erased on request and must never come back: items by address, people by digest; and the receipts.

An erasure is written down first, and only then carried out: whatever is read of a source from that moment on is
stored without it. One that was cut short has no `finished_at`, and is gone on with.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from psycopg import Connection
from psycopg.rows import DictRow
from psycopg.sql import SQL, Identifier
from psycopg.types.json import Jsonb

from core.access import WITHHELD
from core.erased import MARK, ErasedPeople, NameDigest, name_digests, names_to_find, subject_digest
from core.items import Chunk, Item
from core.principals import Principal
from graph.db import Database, clean, clean_json
from graph.writing import lock_items, write_item

Kind = Literal["person", "item"]

_NOBODY: Final = ErasedPeople()
_REGISTER: Final = """
    INSERT INTO erasures (subject, kind, names, at, receipt) VALUES (%(subject)s, %(kind)s, %(names)s, %(at)s, '{}')
    ON CONFLICT (subject) DO UPDATE SET names = excluded.names, at = excluded.at, finished_at = NULL
"""
_HANGING: Final = ("chunks", "item_aliases", "links", "edges", "glossary", "supersessions", "failures")
# Texts that are told of work that went wrong: they may quote what a source answered.
_TOLD: Final = {"failures": "uri", "runs": "id", "dead_letters": "id", "inbox": "id", "jobs": "name"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """One that was asked for: its subject (an address, or a person's digest) and, once it is done, what went where."""

    subject: str
    kind: Kind
    at: datetime
    finished_at: datetime | None
    receipt: Mapping[str, Any]


def erased_people(connection: Connection[DictRow]) -> ErasedPeople:
    """`ErasureStore.people` in a transaction that is already open."""
    rows = connection.execute("SELECT subject, names FROM erasures WHERE kind = 'person'").fetchall()
    if not rows:
        return _NOBODY
    return ErasedPeople(
        _key(connection),
        subjects=[r["subject"] for r in rows],
        names=[NameDigest.from_json(n) for r in rows for n in r["names"]],
    )


class ErasureStore:
    """Erasures. Raises StoreUnavailableError where Postgres does not answer."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def refuses(self, uris: Collection[str]) -> set[str]:
        """Those of these items that were erased: they are never stored again."""
        with self._db.connection() as connection:
            rows = connection.execute(
                "SELECT subject FROM erasures WHERE kind = 'item' AND subject = ANY(%s)",
                [sorted({clean(u) for u in uris})],
            ).fetchall()
        return {r["subject"] for r in rows}

    def people(self) -> ErasedPeople:
        """The erased people, to leave out of whatever is stored."""
        with self._db.connection() as connection:
            return erased_people(connection)

    def register_item(self, uri: str, at: datetime) -> None:
        """From now on the item is not stored any more."""

        def work(connection: Connection[DictRow]) -> None:
            values = {"subject": clean(uri), "kind": "item", "names": Jsonb([]), "at": at}
            connection.execute(_REGISTER, values)

        self._db.retrying(work)

    def register_person(
        self,
        principal: Principal,
        *,
        shown: Iterable[str],
        addresses: Iterable[str],
        also: Iterable[str] = (),
        at: datetime,
    ) -> str:
        """From now on the person is left out of what is stored; return the subject that they are kept under.

        `shown` are names that they go by, `addresses` mail addresses, logins and ids; `also` what else to look for, as
        it is. Of all that only digests are kept, beside those of an earlier request.
        """

        def work(connection: Connection[DictRow]) -> str:
            key = _key(connection, make=True)
            subject = subject_digest(key, principal)
            known = connection.execute("SELECT names FROM erasures WHERE subject = %s", [subject]).fetchone()
            names = {NameDigest.from_json(n) for n in (known["names"] if known else ())}
            names |= name_digests(key, {*names_to_find(shown=shown, addresses=addresses), *also})
            kept = Jsonb([n.to_json() for n in sorted(names)])
            connection.execute(_REGISTER, {"subject": subject, "kind": "person", "names": kept, "at": at})
            return subject

        return self._db.retrying(work)

    def finish(self, subject: str, receipt: Mapping[str, Any], at: datetime) -> None:
        """It is done, and this went where."""
        with self._db.connection() as connection:
            connection.execute(
                "UPDATE erasures SET finished_at = %s, receipt = %s WHERE subject = %s",
                [at, Jsonb(clean_json(dict(receipt))), subject],
            )

    def all(self, *, unfinished: bool = False) -> list[Erasure]:
        """Every erasure, or those that are not done yet, the oldest first."""
        with self._db.connection() as connection:
            rows = connection.execute(
                "SELECT subject, kind, at, finished_at, receipt FROM erasures "
                "WHERE NOT %s OR finished_at IS NULL ORDER BY at, subject",
                [unfinished],
            ).fetchall()
        return [Erasure(**r) for r in rows]

    def called(self, principal: Principal) -> tuple[set[str], set[str]]:
        """What the record calls a person: names that are shown, and addresses."""
        with self._db.connection() as connection:
            accounts = connection.execute("SELECT name, upn FROM people WHERE principal = %s", [principal]).fetchall()
            rows = connection.execute(
                """
                SELECT author_name AS name FROM items WHERE author = %(who)s
                UNION SELECT owner_name FROM items WHERE owner = %(who)s
                UNION SELECT name FROM edges WHERE person = %(who)s
                """,
                {"who": principal},
            ).fetchall()
        shown = {r["name"] for r in (*accounts, *rows) if r["name"]} - {MARK}
        return shown, {r["upn"] for r in accounts if r["upn"]} | {principal.rpartition("/")[2]}

    def forget_accounts(self) -> int:
        """Take name, address and post out of the accounts of erased people; how many there were. Who they are and what
        they belong to stays as long as their sources list them: access hangs on it."""

        def work(connection: Connection[DictRow]) -> int:
            people = erased_people(connection)
            rows = connection.execute("SELECT DISTINCT principal FROM people ORDER BY 1").fetchall()
            erased = [r["principal"] for r in rows if people.has(Principal(r["principal"]))]
            return connection.execute(
                "UPDATE people SET name = %s, upn = NULL, title = NULL, department = NULL "
                "WHERE principal = ANY(%s) AND (name, upn, title, department) IS DISTINCT FROM (%s, NULL, NULL, NULL)",
                [MARK, erased, MARK],
            ).rowcount

        return self._db.retrying(work)

    def mask_told(self) -> int:
        """Take the names of erased people out of what is told of failures, runs and jobs; how many texts had one."""

        def work(connection: Connection[DictRow]) -> int:
            people, masked = erased_people(connection), 0
            for table, key in _TOLD.items():
                names = {"table": Identifier(table), "key": Identifier(key)}
                found = SQL("SELECT {key} AS key, reason FROM {table} WHERE reason IS NOT NULL").format(**names)
                for row in connection.execute(found).fetchall():
                    text = people.masked(row["reason"])
                    if text != row["reason"]:
                        masked += 1
                        change = SQL("UPDATE {table} SET reason = %s WHERE {key} = %s").format(**names)
                        connection.execute(change, [text, row["key"]])
            return masked

        return self._db.retrying(work)

    def rows_of(self, uri: str) -> dict[str, int]:
        """How many rows of each table hang on an item."""
        count = SQL("SELECT count(*) AS n FROM {} WHERE uri = %s")
        with self._db.connection() as connection:
            found = {t: connection.execute(count.format(Identifier(t)), [uri]).fetchone() for t in _HANGING}
        return {table: int(row["n"]) for table, row in found.items() if row is not None}

    def forget_deliveries(self, uri: str) -> int:
        """Remove hints that name an item; how many there were."""
        with self._db.connection() as connection:
            return connection.execute("DELETE FROM inbox WHERE hint ->> 'uri' = %s", [uri]).rowcount

    def withheld_for(self, reason: str) -> set[str]:
        """Items that are hidden for this reason."""
        with self._db.connection() as connection:
            rows = connection.execute(
                "SELECT uri FROM items WHERE lifecycle = 'hidden' AND reason = %s", [reason]
            ).fetchall()
        return {r["uri"] for r in rows}

    def rewrite_hidden(self, item: Item, chunks: Sequence[Chunk]) -> bool:
        """Replace what an item says that nobody is shown, and leave it as hidden as it is, for the same reason. What
        was derived of it goes, and its points are to be removed: all of that is made anew when it comes back. False,
        and nothing is done, where it is not hidden (any more)."""

        def work(connection: Connection[DictRow]) -> bool:
            lock_items(connection, [item.uri])
            row = connection.execute(
                "SELECT reason, noticed_at, misses, missed_at, ingested_at FROM items "
                "WHERE uri = %s AND lifecycle = 'hidden'",
                [item.uri],
            ).fetchone()
            if row is None:
                return False
            write_item(connection, item, chunks, digest=item.digest, at=row["ingested_at"])
            connection.execute(
                "UPDATE items SET lifecycle = 'hidden', reason = %(reason)s, noticed_at = %(noticed_at)s, "
                "misses = %(misses)s, missed_at = %(missed_at)s, indexed_digest = NULL, indexed_scope = %(withheld)s "
                "WHERE uri = %(uri)s",
                {**row, "withheld": WITHHELD, "uri": item.uri},
            )
            for table in ("glossary", "supersessions"):
                connection.execute(SQL("DELETE FROM {} WHERE uri = %s").format(Identifier(table)), [item.uri])
            return True

        return self._db.retrying(work)


def _key(connection: Connection[DictRow], *, make: bool = False) -> bytes:
    """What digests are made with."""
    if make:
        connection.execute(
            "INSERT INTO erasure_key (key) VALUES (%s) ON CONFLICT DO NOTHING", [secrets.token_bytes(32)]
        )
    row = connection.execute("SELECT key FROM erasure_key").fetchone()
    return bytes(row["key"]) if row else b""
