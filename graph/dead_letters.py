"""Dead letters: work that was given up, with the reason, until somebody looks. No secrets, no content."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from psycopg import Connection
from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from core.clock import Clock, SystemClock
from graph.db import Database, clean, clean_json

# The oldest make way: whoever can send rubbish must not be able to fill the disk.
_MOST: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """One thing that was given up: its name, what is needed to try it again, why, after how many attempts, when."""

    name: str
    body: dict[str, Any]
    reason: str
    attempts: int
    at: datetime


class DeadLetters:
    """The list; one entry a name, the latest."""

    def __init__(self, db: Database, clock: Clock | None = None) -> None:
        self._db = db
        self._clock = clock or SystemClock()

    def put(self, name: str, body: Mapping[str, Any], reason: str, *, attempts: int) -> None:
        """Give something up. `reason` and `body` are shown to operators: they must hold no secret and no content."""

        def work(connection: Connection[DictRow]) -> None:
            connection.execute("DELETE FROM dead_letters WHERE name = %s", [clean(name)])
            connection.execute(
                "INSERT INTO dead_letters (name, body, reason, attempts, at) VALUES (%s, %s, %s, %s, %s)",
                [clean(name), Jsonb(clean_json(dict(body))), clean(reason), attempts, self._clock.now()],
            )
            connection.execute(
                "DELETE FROM dead_letters WHERE id <= (SELECT id FROM dead_letters ORDER BY id DESC OFFSET %s LIMIT 1)",
                [_MOST],
            )

        self._db.retrying(work)

    def all(self) -> list[DeadLetter]:
        """The letters, oldest first."""
        with self._db.connection() as connection:
            rows = connection.execute(
                "SELECT name, body, reason, attempts, at FROM dead_letters ORDER BY id"
            ).fetchall()
        return [DeadLetter(**r) for r in rows]

    def remove(self, names: Collection[str]) -> int:
        """Take letters off the list, because they are tried again or went well; how many there were."""
        with self._db.connection() as connection:
            return connection.execute("DELETE FROM dead_letters WHERE name = ANY(%s)", [sorted(set(names))]).rowcount
