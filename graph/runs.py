"""Sync state: runs and how they ended, and checkpoints. Items that failed are `graph.failures`'s."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from core.clock import Clock, SystemClock
from core.items import Source
from graph.db import Database, clean, clean_json
from graph.failures import FailedItem as FailedItem
from graph.failures import FailureStore

# `complete`: everything was read and the checks passed. `partial`: so was all but what is told. `failed`: it broke off,
# or the index is not what the record says. `blocked`: it waits for something else: permissions that can't be read.
RunState = Literal["complete", "partial", "failed", "blocked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One reader's run. `state` is `running` where it was cut short, or still runs."""

    id: int
    source: str
    reader: str
    started_at: datetime
    finished_at: datetime | None
    state: str
    reason: str | None
    counts: dict[str, Any]
    checks: dict[str, Any]


class RunStore(FailureStore):
    """Runs, checkpoints and failures of the sync. `retry_after` is the first wait of a failed item (see `failures`)."""

    def __init__(
        self, db: Database, *, clock: Clock | None = None, retry_after: timedelta = timedelta(seconds=60)
    ) -> None:
        super().__init__(db, retry_after=retry_after)
        self._clock = clock or SystemClock()

    def start(self, source: str, reader: str, item_source: Source | None = None) -> int:
        """Begin a run and return its id. `item_source` is the source of the items that it reads, where `reader` is
        not named after it."""
        if item_source is None and reader in {s.value for s in Source}:
            item_source = Source(reader)
        with self._db.connection() as connection:
            row = connection.execute(
                "INSERT INTO runs (source, reader, item_source, started_at, state) "
                "VALUES (%s, %s, %s, %s, 'running') RETURNING id",
                [source, reader, item_source.value if item_source else None, self._clock.now()],
            ).fetchone()
        assert row is not None
        return int(row["id"])

    def finish(
        self,
        run: int,
        state: str,
        reason: str | None,
        counts: Mapping[str, int],
        checks: Mapping[str, Any] | None = None,
    ) -> None:
        """End a run in one of the states of `RunState`, with the reason where it isn't complete, and what the checks
        found."""
        with self._db.connection() as connection:
            connection.execute(
                "UPDATE runs SET finished_at = %s, state = %s, reason = %s, counts = %s, checks = %s WHERE id = %s",
                [
                    self._clock.now(),
                    state,
                    clean(reason) if reason else None,
                    Jsonb(clean_json(dict(counts))),
                    Jsonb(clean_json(dict(checks or {}))),
                    run,
                ],
            )

    def recent(self, limit: int, source: str | None = None) -> list[Run]:
        """The latest `limit` runs of one source or all, newest first."""
        with self._db.connection() as connection:
            rows = connection.execute(
                "SELECT * FROM runs WHERE %(source)s::text IS NULL OR source = %(source)s ORDER BY id DESC LIMIT %(n)s",
                {"source": source, "n": limit},
            ).fetchall()
        return [_run(r) for r in rows]

    def last(self, source: str | None = None) -> list[Run]:
        """The latest run of each reader, of one source or all, by source and reader."""
        with self._db.connection() as connection:
            rows = connection.execute(
                "SELECT DISTINCT ON (source, reader) * FROM runs WHERE %(source)s::text IS NULL OR source = %(source)s "
                "ORDER BY source, reader, id DESC",
                {"source": source},
            ).fetchall()
        return [_run(r) for r in rows]

    def synced_at(self) -> dict[Source, datetime]:
        """When each source was last read to its end: by all of its readers, so the earliest of their last complete
        runs. A source one of whose readers never came to its end is left out."""
        with self._db.connection() as connection:
            rows = connection.execute(
                """
                SELECT item_source, min(done) AS at, bool_and(done IS NOT NULL) AS whole FROM (
                    SELECT item_source, source, reader, max(finished_at) FILTER (WHERE state = 'complete') AS done
                    FROM runs WHERE item_source IS NOT NULL GROUP BY item_source, source, reader
                ) readers GROUP BY item_source
                """
            ).fetchall()
        return {Source(r["item_source"]): r["at"] for r in rows if r["whole"]}

    def checkpoint(self, source: str, reader: str) -> dict[str, Any] | None:
        """Where the reader goes on; None: from the beginning."""
        with self._db.connection() as connection:
            row = connection.execute(
                "SELECT data FROM checkpoints WHERE source = %s AND reader = %s", [source, reader]
            ).fetchone()
        return dict(row["data"]) if row else None

    def forget_checkpoint(self, source: str, reader: str) -> None:
        """Let the reader begin anew."""
        with self._db.connection() as connection:
            connection.execute("DELETE FROM checkpoints WHERE source = %s AND reader = %s", [source, reader])

    def commit_checkpoint(self, source: str, reader: str, data: Mapping[str, Any]) -> None:
        """Everything up to this checkpoint is in the stores."""
        with self._db.connection() as connection:
            connection.execute(
                "INSERT INTO checkpoints (source, reader, data, at) VALUES (%s, %s, %s, %s) "
                "ON CONFLICT (source, reader) DO UPDATE SET data = excluded.data, at = excluded.at",
                [source, reader, Jsonb(clean_json(dict(data))), self._clock.now()],
            )


def _run(row: DictRow) -> Run:
    return Run(
        id=row["id"],
        source=row["source"],
        reader=row["reader"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        state=row["state"],
        reason=row["reason"],
        counts=row["counts"],
        checks=row["checks"],
    )
