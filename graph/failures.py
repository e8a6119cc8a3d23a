"""Items that could not be read or processed: parked with their reason, tried again at growing intervals, told.

The next run tries a first failure again at once; after that the wait is `retry_after`, and four times as long with each
further failure, up to a day. A failed item never blocks the others.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from psycopg import Connection
from psycopg.rows import DictRow

from graph.db import Database, clean

LONGEST_WAIT: Final = timedelta(days=1)
_GROWTH: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedItem:
    """An item that could not be read or processed, since when, how often it was tried, and when it will be again
    (`due_at` None: by the next run)."""

    uri: str
    source: str
    reason: str
    first_at: datetime
    at: datetime
    attempts: int
    due_at: datetime | None


class FailureStore:
    """The parked items."""

    def __init__(self, db: Database, *, retry_after: timedelta) -> None:
        self._db = db
        self._retry_after = retry_after

    def fail(self, source: str, uri: str, reason: str, at: datetime) -> None:
        """Remember that an item could not be read or processed, and why."""

        def work(connection: Connection[DictRow]) -> None:
            row = connection.execute(
                "INSERT INTO failures (uri, source, reason, first_at, at, attempts) VALUES (%s, %s, %s, %s, %s, 1) "
                "ON CONFLICT (uri) DO UPDATE SET source = excluded.source, reason = excluded.reason, "
                "at = excluded.at, attempts = failures.attempts + 1 RETURNING attempts",
                [clean(uri), source, clean(reason), at, at],
            ).fetchone()
            assert row is not None
            wait = self.wait(row["attempts"])
            connection.execute(
                "UPDATE failures SET due_at = %s WHERE uri = %s", [at + wait if wait else None, clean(uri)]
            )

        self._db.retrying(work)

    def wait(self, attempts: int) -> timedelta:
        """How long an item waits after so many failures in a row."""
        if attempts < 2 or not self._retry_after:
            return timedelta(0)
        # Bounded before it is raised: a power of a large number overflows.
        times: int = _GROWTH ** min(attempts - 2, 20)
        return min(self._retry_after * times, LONGEST_WAIT)

    def clear_failures(self, uris: Collection[str]) -> None:
        """These items were read, or are gone."""
        with self._db.connection() as connection:
            connection.execute("DELETE FROM failures WHERE uri = ANY(%s)", [[clean(u) for u in uris]])

    def retry_now(self, source: str | None = None) -> int:
        """Let the next run try every parked item of one source or all; return how many there are."""
        with self._db.connection() as connection:
            return connection.execute(
                "UPDATE failures SET due_at = NULL WHERE %(source)s::text IS NULL OR source = %(source)s",
                {"source": source},
            ).rowcount

    def failures(self, source: str | None = None, *, due: datetime | None = None) -> list[FailedItem]:
        """Parked items of one source or all, by address; with `due`, those whose wait is over at that time."""
        with self._db.connection() as connection:
            rows = connection.execute(
                "SELECT uri, source, reason, first_at, at, attempts, due_at FROM failures "
                "WHERE (%(source)s::text IS NULL OR source = %(source)s) "
                "AND (%(due)s::timestamptz IS NULL OR due_at IS NULL OR due_at <= %(due)s) ORDER BY uri",
                {"source": source, "due": due},
            ).fetchall()
        return [FailedItem(**r) for r in rows]
