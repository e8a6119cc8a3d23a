"""Entries for tests, an administrator who may do anything to the log, and what such a one could make of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row
from psycopg.sql import SQL, Identifier

from core.journal import AccessCheck
from core.principals import Principal
from graph.audit import Asked, AuditEntry, AuditLog, Operation
from graph.audit_chain import NOTHING, ChainedEntry, entry_hash
from graph.audit_reading import AuditReader
from graph.audit_verify import Link, Verdict, Verifier, verify
from graph.db import Database
from tests.support.postgres import FreshDatabase

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
ANN = Principal("user:t/ann")
BEN = Principal("user:t/ben")


def check(**said: Any) -> AccessCheck:
    """An access check; fields that a test does not care about are filled in."""
    known: dict[str, Any] = {
        "epoch": 7,
        "principals": 3,
        "principals_digest": "a" * 64,
        "readable": 2,
        "readable_digest": "b" * 64,
        "blocked": 0,
    }
    wanted = {f.name for f in fields(AccessCheck) if f.name in known}
    return AccessCheck(**{**{k: known[k] for k in wanted}, **said})


def entry(**said: Any) -> AuditEntry:
    """An answered question."""
    known: dict[str, Any] = {
        "at": NOW,
        "operation": Operation.CONTEXT,
        "asker": ANN,
        "agent": None,
        "question_digest": "0" * 64,
        "interpreted_as": "what: “größe” of 🐢",
        "uris": ("ctx://a", "ctx://b"),
        "bundle_digest": "1" * 64,
        "latency_ms": 12.5,
        "outcome": "ok",
        "checks": (check(),),
        "asked": Asked(question="what is the größe?"),
    }
    return AuditEntry(**{**known, **said})


def verdict_on(db: Database, kept: Link | None = None) -> Verdict:
    """What verification says of a log."""
    with AuditReader(db).snapshot() as log:
        return verify(log.entries(), Verifier(anchor=log.anchor(), head=log.head(), kept=kept))


def entries_of(db: Database) -> list[ChainedEntry]:
    """Every entry, the oldest first."""
    with AuditReader(db).snapshot() as log:
        return list(log.entries())


class Tamperer:
    """The owner of the schema, who takes the triggers of the log out of the way for as long as a change takes."""

    TABLES = ("audit", "audit_head", "audit_anchor", "audit_questions")

    def __init__(self, database: FreshDatabase) -> None:
        self._connection = psycopg.connect(database.ingest_dsn, autocommit=True, row_factory=dict_row)

    @contextmanager
    def unguarded(self) -> Iterator[psycopg.Connection[dict[str, Any]]]:
        """One transaction without the triggers."""
        with self._connection.transaction():
            for table in self.TABLES:
                self._connection.execute(SQL("ALTER TABLE {} DISABLE TRIGGER USER").format(Identifier(table)))
            yield self._connection
            for table in self.TABLES:
                self._connection.execute(SQL("ALTER TABLE {} ENABLE TRIGGER USER").format(Identifier(table)))

    def run(self, *statements: str, values: Sequence[Any] = ()) -> None:
        """Do it."""
        with self.unguarded() as connection:
            for statement in statements:
                connection.execute(statement, values)  # type: ignore[arg-type]

    def rewrite(self, entries: Sequence[ChainedEntry]) -> list[ChainedEntry]:
        """Put these in the place of all entries, in an unbroken chain of correct hashes; what was written."""
        made: list[ChainedEntry] = []
        previous = NOTHING
        with self.unguarded() as connection:
            connection.execute("DELETE FROM audit")
            for seq, one in enumerate(entries, start=1):
                chained = replace(one, seq=seq, previous_hash=previous)
                chained = replace(chained, hash=entry_hash(chained))
                previous = chained.hash
                values = {f.name: getattr(chained, f.name) for f in fields(chained)} | {"uris": list(chained.uris)}
                places = SQL(", ").join([SQL("%s")] * len(values))
                columns = SQL(", ").join(map(Identifier, values))
                connection.execute(
                    SQL("INSERT INTO audit ({}) VALUES ({})").format(columns, places), list(values.values())
                )
                made.append(chained)
            connection.execute(
                "UPDATE audit_head SET seq = %s, hash = %s, recorded_at = %s",
                [len(made), previous, made[-1].recorded_at],
            )
        return made

    def aged(self, entries: Sequence[ChainedEntry], *ages: timedelta) -> list[ChainedEntry]:
        """`rewrite` with entries that were recorded as long ago as `ages` say."""
        now = datetime.now(UTC)
        return self.rewrite([replace(e, recorded_at=now - age) for e, age in zip(entries, ages, strict=True)])

    def close(self) -> None:
        """Leave."""
        self._connection.close()


def appended(db: Database, n: int, **said: Any) -> AuditLog:
    """A log with `n` entries, appended as the query plane does."""
    log = AuditLog(db, keep_questions=True)
    for i in range(n):
        log.append(entry(latency_ms=float(i), **said))
    return log


def refused(dsn: str, statement: str, *values: Any) -> bool:
    """Whether the database refuses the statement for want of a right."""
    with psycopg.connect(dsn) as connection:
        try:
            connection.execute(statement, values)  # type: ignore[arg-type]
        except psycopg.errors.InsufficientPrivilege:
            return True
        except psycopg.Error as e:
            pytest.fail(f"{statement}: {e}")
        finally:
            connection.rollback()
    return False
