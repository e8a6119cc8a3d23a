"""The audit log: who asked, when, and what they were given. Never tokens, questions or the text of items."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from core.principals import Principal
from graph.db import Database, clean


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One answered (or refused) request. `question_digest` is the question's SHA-256, `interpreted_as` the summary of
    how it was read, `latency_ms` in milliseconds."""

    at: datetime
    asker: Principal
    agent: str | None
    question_digest: str
    interpreted_as: str
    uris: tuple[str, ...]
    bundle_digest: str | None
    latency_ms: float
    outcome: str


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
