"""How many deliveries had which outcome, since the beginning: for doctor and for whoever looks for an attack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from psycopg import Connection
from psycopg.rows import DictRow

from core.clock import Clock
from graph.db import Database


@dataclass(frozen=True, slots=True)
class DeliveryCount:
    """So many deliveries of a source ended so, the last one then."""

    source: str
    outcome: str
    n: int
    last_at: datetime


class DeliveryCounts:
    """The counters. Raises StoreUnavailableError."""

    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock

    def add(self, counts: Mapping[tuple[str, str], int]) -> None:
        """Count so many more by (source, outcome), in one transaction."""
        now = self._clock.now()

        def work(connection: Connection[DictRow]) -> None:
            with connection.cursor() as cursor:
                cursor.executemany(
                    "INSERT INTO deliveries (source, outcome, n, last_at) VALUES (%s, %s, %s, %s) "
                    "ON CONFLICT (source, outcome) DO UPDATE SET n = deliveries.n + excluded.n, "
                    "last_at = greatest(deliveries.last_at, excluded.last_at)",
                    [(source, outcome, n, now) for (source, outcome), n in sorted(counts.items())],
                )

        if counts:
            self._db.retrying(work)

    def all(self) -> list[DeliveryCount]:
        """All counters, by source and outcome."""
        with self._db.connection() as connection:
            rows = connection.execute(
                "SELECT source, outcome, n, last_at FROM deliveries ORDER BY source, outcome"
            ).fetchall()
        return [DeliveryCount(**r) for r in rows]
