"""The audit log: who asked, when, and what they were given. Never tokens, questions or the text of items.

The database chains the entries (`graph.audit_chain`): whoever appends chooses neither place nor time of record. A
question in full stands beside its entry for as long as it takes to work out what was withheld, an hour at most.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

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
    once that is done. `focus` are addresses of items that the focus resolved to; `spaces` is the policy of an
    application that asks on its own."""

    question: str
    as_of: datetime | None = None
    focus: tuple[str, ...] = ()
    spaces: tuple[str, ...] | None = None


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


_APPEND: Final = """
    INSERT INTO audit (at, operation, asker, agent, question_digest, interpreted_as, uris, bundle_digest, latency_ms,
        outcome, checks)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s::json)
"""
_KEEP: Final = "INSERT INTO audit_questions (question, as_of, focus, spaces) VALUES (%s, %s, %s, %s)"


class AuditLog:
    """Appends, and can do nothing else: the query plane's role may not read it.

    `keep_questions` False: nobody works out what was withheld, so no question is kept for that.
    """

    def __init__(self, db: Database, *, keep_questions: bool = False) -> None:
        self._db = db
        self._keep_questions = keep_questions

    def append(self, entry: AuditEntry) -> None:
        """Write one entry, and with it the question where it is to be looked into. Raises StoreUnavailableError."""
        checks = json.dumps([asdict(c) for c in entry.checks], separators=(",", ":"))
        asked = entry.asked if self._keep_questions and entry.outcome == "ok" else None
        with self._db.connection() as connection:
            connection.execute(
                _APPEND,
                [
                    entry.at,
                    entry.operation.value,
                    clean(entry.asker),
                    clean(entry.agent) if entry.agent is not None else None,
                    entry.question_digest,
                    clean(entry.interpreted_as),
                    [clean(uri) for uri in entry.uris],
                    entry.bundle_digest,
                    round(entry.latency_ms, 3),
                    entry.outcome,
                    clean(checks),
                ],
            )
            if asked is not None:
                focus = [clean(uri) for uri in asked.focus]
                spaces = list(asked.spaces) if asked.spaces is not None else None
                connection.execute(_KEEP, [clean(asked.question), asked.as_of, focus, spaces])
