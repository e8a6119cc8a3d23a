"""The audit log: who asked, when, and what they were given. Never tokens, questions or the text of items."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from core.journal import AccessCheck
from core.principals import Principal
from graph.db import Database, clean


class Operation(StrEnum):
    """What was asked for."""

    CONTEXT = "context"
    ITEM = "item"
    PEOPLE = "people"
    DEFINITIONS = "definitions"
    STATUS = "status"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The question as it was put, which the audit plane needs to work out afterwards what was withheld; it is removed
    once that is done. `focus` are addresses of items that the focus resolved to."""

    question: str
    as_of: datetime | None = None
    focus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One answered (or refused) request. `question_digest` is the question's SHA-256, `interpreted_as` the summary of
    how it was read, `latency_ms` in milliseconds; `outcome` is `ok` or the class of the refusal; `checks` are the
    access checks that were made for it."""

    at: datetime
    operation: Operation
    asker: Principal
    agent: str | None
    question_digest: str
    interpreted_as: str
    uris: tuple[str, ...]
    bundle_digest: str | None
    latency_ms: float
    outcome: str
    checks: tuple[AccessCheck, ...]
    asked: Asked | None = None


class AuditLog:
    """Appends, and can do nothing else: the query plane's role may not read it."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def append(self, entry: AuditEntry) -> None:
        """Write one entry. Raises StoreUnavailableError."""
        with self._db.connection() as connection:
            connection.execute(
                "INSERT INTO audit (at, asker, agent, question_digest, interpreted_as, uris, bundle_digest, "
                "latency_ms, outcome) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
                [
                    entry.at,
                    entry.asker,
                    clean(entry.agent) if entry.agent else None,
                    entry.question_digest,
                    clean(entry.interpreted_as),
                    list(entry.uris),
                    entry.bundle_digest,
                    entry.latency_ms,
                    entry.outcome,
                ],
            )
