"""Reads the audit log, for auditors: its entries as they are stored, its ends, and what was withheld.

Not for the query plane, whose role may read none of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final, LiteralString

from psycopg import Connection
from psycopg.rows import DictRow
from psycopg.sql import SQL, Composed

from core.principals import Principal
from graph.audit_chain import ChainedEntry
from graph.audit_verify import Link
from graph.db import Database

_COLUMNS: Final = SQL(
    "seq, recorded_at, at, plane, operation, asker, agent, question_digest, interpreted_as, salt, words_digest, uris, "
    "bundle_digest, latency_ms, outcome, checks::text AS checks, detail::text AS detail, previous_hash, hash"
)
_AT_A_TIME: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which entries. `since` and `until` (left out) are times of record; an empty selection is the whole log."""

    since: datetime | None = None
    until: datetime | None = None
    asker: Principal | None = None
    seq: int | None = None

    @property
    def is_everything(self) -> bool:
        """Whether nothing is left out."""
        return all(getattr(self, f.name) is None for f in fields(self))


EVERYTHING: Final = Selection()


@dataclass(frozen=True, slots=True, kw_only=True)
class Withheld:
    """An item that would have been among the best and was not for this asker: what kept its scope shut (`bars`), and
    which gates of its rule did not let them in (`gates`, in words)."""

    rank: int
    uri: str
    source: str
    scope: str
    relevance: float
    bars: tuple[str, ...]
    gates: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """What came of looking for what was withheld from the answer of entry `seq`. `same_epoch`: access was still what it
    was when the question was answered. `outcome` other than `examined` says why nobody could look."""

    seq: int
    at: datetime
    outcome: str
    epoch: int | None
    same_epoch: bool | None
    looked_at: int
    items: tuple[Withheld, ...]


class Snapshot:
    """The log as it was at one moment, however long it is read."""

    def __init__(self, connection: Connection[DictRow]) -> None:
        self._connection = connection

    def head(self) -> Link:
        """The last entry, by what the database says of it; number 0 where there is none."""
        return self._link("SELECT seq, hash FROM audit_head")

    def anchor(self) -> Link:
        """The last entry that retention took; number 0 where it took none."""
        return self._link("SELECT seq, hash FROM audit_anchor")

    def count(self, selection: Selection = EVERYTHING) -> int:
        """How many entries it has. Retention may have left some behind the anchor that still go."""
        where, values = _where(selection)
        row = self._connection.execute(SQL("SELECT count(*) AS n FROM audit WHERE {}").format(where), values).fetchone()
        return int(row["n"]) if row is not None else 0

    def entries(self, selection: Selection = EVERYTHING) -> Iterator[ChainedEntry]:
        """Its entries behind the anchor, the oldest first; some at a time are in memory."""
        where, values = _where(selection)
        with self._connection.cursor(name="audit") as cursor:
            cursor.itersize = _AT_A_TIME
            cursor.execute(SQL("SELECT {} FROM audit WHERE {} ORDER BY seq").format(_COLUMNS, where), values)
            for row in cursor:
                yield _entry(row)

    def latest(self, selection: Selection, most: int, *, only_withheld: bool = False) -> list[ChainedEntry]:
        """The last `most` of them, the newest first; `only_withheld`: of those from whose answers something was."""
        where, values = _where(selection)
        if only_withheld:
            where = SQL("{} AND seq IN (SELECT w.seq FROM audit_withheld w)").format(where)
        rows = self._connection.execute(
            SQL("SELECT {} FROM audit WHERE {} ORDER BY seq DESC LIMIT %(most)s").format(_COLUMNS, where),
            {**values, "most": most},
        ).fetchall()
        return [_entry(row) for row in rows]

    def examinations(self, entries: list[int]) -> dict[int, Examination]:
        """What was withheld from the answers of these entries, by their numbers; those not looked into are left out."""
        rows = self._connection.execute("SELECT * FROM audit_examinations WHERE seq = ANY(%s)", [entries]).fetchall()
        items = self._connection.execute(
            "SELECT * FROM audit_withheld WHERE seq = ANY(%s) ORDER BY seq, rank", [entries]
        ).fetchall()
        found: dict[int, list[Withheld]] = {}
        for row in items:
            plain = {name: row[name] for name in ("rank", "uri", "source", "scope", "relevance")}
            one = Withheld(**plain, bars=tuple(row["bars"]), gates=tuple(row["gates"]))
            found.setdefault(row["seq"], []).append(one)
        return {
            row["seq"]: Examination(
                **{n: row[n] for n in ("seq", "at", "outcome", "epoch", "same_epoch", "looked_at")},
                items=tuple(found.get(row["seq"], ())),
            )
            for row in rows
        }

    def _link(self, statement: LiteralString) -> Link:
        row = self._connection.execute(statement).fetchone()
        assert row is not None
        return Link(row["seq"], row["hash"])


class AuditReader:
    """The log as an auditor's role reads it. Raises StoreUnavailableError where Postgres does not answer."""

    def __init__(self, db: Database) -> None:
        self._db = db

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """The log of one moment."""
        with self._db.connection() as connection:
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield Snapshot(connection)


class Retention:
    """Takes the oldest entries away, as the audit plane's role."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def prune(self, before: datetime, *, at_once: int = 2000) -> int:
        """Remove what was recorded before that time, and record it in the chain; how many entries that were. Killed in
        the midst of it, the next call removes what is left.

        Raises InvariantError for a time within the last day, which the database refuses.
        """
        with self._db.connection() as connection:
            row = connection.execute("SELECT audit_prune(%s) AS n", [before]).fetchone()
            pruned = int(row["n"]) if row is not None else 0
        while True:
            with self._db.connection() as connection:
                row = connection.execute("SELECT audit_sweep(%s) AS n", [at_once]).fetchone()
            if row is None or not row["n"]:
                return pruned


def _where(selection: Selection) -> tuple[Composed, dict[str, Any]]:
    conditions = [SQL("seq > (SELECT a.seq FROM audit_anchor a)")]
    values: dict[str, Any] = {}
    known: tuple[tuple[str, LiteralString, Any], ...] = (
        ("since", "recorded_at >= %(since)s", selection.since),
        ("until", "recorded_at < %(until)s", selection.until),
        ("asker", "asker = %(asker)s", selection.asker),
        ("seq", "seq = %(seq)s", selection.seq),
    )
    for name, condition, value in known:
        if value is not None:
            conditions.append(SQL(condition))
            values[name] = value
    return SQL(" AND ").join(conditions), values


def _entry(row: DictRow) -> ChainedEntry:
    salt = row["salt"]
    return ChainedEntry(
        **{k: v for k, v in row.items() if k not in ("salt", "uris")},
        salt=bytes(salt) if salt is not None else None,
        uris=tuple(row["uris"]),
    )
