"""Figures of how the engine is doing, for whoever watches it: counts and ages, never a name, a title or an address."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, LiteralString

from graph.db import Database

Kind = Literal["gauge", "counter"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One measure. `samples` are (values of its labels, value); a value of None is unknown, or was never."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...]
    samples: tuple[tuple[tuple[str, ...], float | None], ...]


@dataclass(frozen=True, slots=True)
class _Question:
    """A figure, the table that it is of, and the statement that answers it: the labels' columns, and `value`."""

    table: str
    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...]
    sql: LiteralString


_QUESTIONS: Final = (
    _Question(
        "access_epoch",
        "access_epoch",
        "gauge",
        "Moves with each change of access.",
        (),
        "SELECT epoch AS value FROM access_epoch",
    ),
    _Question(
        "scopes",
        "scopes",
        "gauge",
        "Scopes of a connector.",
        ("connector",),
        "SELECT origin AS connector, count(*) AS value FROM scopes GROUP BY 1",
    ),
    _Question(
        "scopes",
        "scopes_behind",
        "gauge",
        "Scopes whose changed rule has not reached the index (it is obeyed).",
        ("connector",),
        "SELECT origin AS connector, count(*) FILTER (WHERE indexed_version <> acl_version) AS value "
        "FROM scopes GROUP BY 1",
    ),
    _Question(
        "items",
        "items",
        "gauge",
        "Items by source and by whether they are shown.",
        ("source", "state"),
        "SELECT source, CASE WHEN shown THEN 'shown' WHEN lifecycle = 'live' THEN 'behind' ELSE lifecycle END "
        "AS state, count(*) AS value FROM items WHERE source <> '' GROUP BY 1, 2",
    ),
    _Question(
        "failures",
        "failed_items",
        "gauge",
        "Items that failed and wait for their next try.",
        ("source",),
        "SELECT source, count(*) AS value FROM failures GROUP BY 1",
    ),
    _Question(
        "runs",
        "runs",
        "counter",
        "Runs by reader and how they ended.",
        ("connector", "reader", "state"),
        "SELECT source AS connector, reader, state, count(*) AS value FROM runs GROUP BY 1, 2, 3",
    ),
    _Question(
        "runs",
        "last_run_complete",
        "gauge",
        "1 where the last run that ended was complete.",
        ("connector", "reader"),
        "SELECT DISTINCT ON (source, reader) source AS connector, reader, (state = 'complete')::int AS value FROM runs "
        "WHERE finished_at IS NOT NULL ORDER BY source, reader, id DESC",
    ),
    _Question(
        "jobs",
        "job_success_age_seconds",
        "gauge",
        "Seconds since a job of the schedule last succeeded.",
        ("job",),
        "SELECT name AS job, extract(epoch FROM %(now)s::timestamptz - succeeded_at) AS value FROM jobs",
    ),
    _Question(
        "jobs",
        "job_overdue_seconds",
        "gauge",
        "Seconds for which a job of the schedule has been due.",
        ("job",),
        "SELECT name AS job, greatest(0, extract(epoch FROM %(now)s::timestamptz - due_at)) AS value "
        "FROM jobs WHERE due_at > '-infinity'",
    ),
    _Question(
        "jobs",
        "job_failures",
        "gauge",
        "Runs of a job that failed in a row.",
        ("job",),
        "SELECT name AS job, failures AS value FROM jobs",
    ),
    _Question("jobs", "job_runs", "counter", "Runs of a job.", ("job",), "SELECT name AS job, runs AS value FROM jobs"),
    _Question(
        "dead_letters",
        "dead_letters",
        "gauge",
        "Jobs that were given up.",
        (),
        "SELECT count(*) AS value FROM dead_letters",
    ),
    _Question(
        "inbox",
        "inbox_hints",
        "gauge",
        "Hints that wait, or were given up.",
        ("connector", "state"),
        "SELECT connector, state, count(*) AS value FROM inbox WHERE state <> 'done' GROUP BY 1, 2",
    ),
    _Question(
        "inbox",
        "inbox_oldest_seconds",
        "gauge",
        "Seconds that the oldest hint waits.",
        ("connector",),
        "SELECT connector, extract(epoch FROM %(now)s::timestamptz - min(received_at)) AS value "
        "FROM inbox WHERE state = 'pending' GROUP BY 1",
    ),
    _Question(
        "deliveries",
        "deliveries",
        "counter",
        "Deliveries of webhooks by outcome.",
        ("source", "outcome"),
        "SELECT source, outcome, n AS value FROM deliveries",
    ),
    _Question(
        "subscriptions",
        "subscriptions",
        "gauge",
        "Subscriptions to changes.",
        ("connector",),
        "SELECT connector, count(*) AS value FROM subscriptions GROUP BY 1",
    ),
    _Question(
        "subscriptions",
        "subscription_expires_seconds",
        "gauge",
        "Seconds until the first subscription of a connector expires.",
        ("connector",),
        "SELECT connector, -extract(epoch FROM %(now)s::timestamptz - min(expires_at)) AS value "
        "FROM subscriptions GROUP BY 1",
    ),
    _Question(
        "erasures",
        "erasures_unfinished",
        "gauge",
        "Erasures that were cut short.",
        (),
        "SELECT count(*) AS value FROM erasures WHERE finished_at IS NULL",
    ),
)


class Figures:
    """Reads them from one snapshot of the database, as far as its role may. Raises StoreUnavailableError."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def readable(self) -> frozenset[str]:
        """The tables that this role may read: a receiver's may read few."""
        with self._db.connection() as connection:
            rows = connection.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = 'public' "
                "AND has_table_privilege(format('%I.%I', schemaname, tablename), 'SELECT')"
            ).fetchall()
        return frozenset(r["tablename"] for r in rows)

    def read(self, now: datetime) -> Iterator[Figure]:
        """Every figure as of now."""
        readable = self.readable()
        with self._db.reading(), self._db.connection() as connection:
            for question in _QUESTIONS:
                if question.table not in readable:
                    continue
                rows = connection.execute(question.sql, {"now": now}).fetchall()
                samples = (
                    (tuple(str(r[x]) for x in question.labels), None if r["value"] is None else float(r["value"]))
                    for r in rows
                )
                yield Figure(question.name, question.kind, question.help, question.labels, tuple(samples))
