"""The schedule's jobs: when each may run next, and how its last run went.

Whoever would run a job claims it first, holding its lease. However many schedulers there are, and however often a
message comes, a period has one run: the second claim finds that the job is not due.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from core.clock import Clock
from graph.db import Database, clean

# A run that its worker did not end is taken up at once, but not for ever: it may be what ends the workers.
_TAKEN_UP_AT_ONCE: Final = 3
_DIED: Final = "its worker ended before it did"
_UNFINISHED: Final = "(j.started_at IS NOT NULL AND (j.finished_at IS NULL OR j.finished_at < j.started_at))"
# What began in the future began by a clock that ran ahead then, as did its next period.
_DUE: Final = (
    "(j.due_at <= coalesce(%(now)s, now()) + %(slack)s "
    "OR coalesce(j.started_at > coalesce(%(now)s, now()) + %(slack)s, false))"
)
_CLAIMABLE: Final = f"({_DUE} OR ({_UNFINISHED} AND j.failures < {_TAKEN_UP_AT_ONCE}))"


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to one run. `failures` is how many runs before it failed in a row; `died`: the last one was not ended,
    its worker was."""

    name: str
    run: int
    failures: int
    died: bool


@dataclass(frozen=True, slots=True)
class Standing:
    """`due`: its time has come. `unfinished`: it runs, or its worker ended before it did. `claimable`: whoever gets
    its lease may run it."""

    due: bool
    unfinished: bool
    claimable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """What is known of a job. `skipped`: how often a start was skipped, by the reason. `due_at` lies in the past for a
    job that may run now."""

    name: str
    due_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    succeeded_at: datetime | None
    reason: str | None
    runs: int
    failures: int
    skipped: dict[str, int]

    @property
    def unfinished(self) -> bool:
        """Whether it runs, or its worker ended before it did."""
        return self.started_at is not None and (self.finished_at is None or self.finished_at < self.started_at)


class JobStore:
    """The jobs. `clock` None: the database's own, so that machines whose clocks differ agree on what is due."""

    def __init__(self, db: Database, clock: Clock | None = None) -> None:
        self._db = db
        self._clock = clock

    def standing(self, name: str, *, slack: timedelta = timedelta(0)) -> Standing:
        """Whether the job may be claimed now; one that never ran may. `slack` as for `claim`."""
        with self._db.connection() as connection:
            row = connection.execute(
                f"SELECT {_DUE} AS due, {_UNFINISHED} AS unfinished, {_CLAIMABLE} AS claimable "  # noqa: S608 (ours)
                "FROM jobs j WHERE j.name = %(name)s",
                self._given(name, slack=slack),
            ).fetchone()
        return Standing(True, False, True) if row is None else Standing(**row)

    def claim(self, name: str, *, every: timedelta, slack: timedelta, force: bool = False) -> Claim | None:
        """Begin a run, whose next is due `every` after now; None where the job is not due (by more than `slack`).

        To be called with the job's lease held: a run that was not ended is then known to be a dead worker's.
        `force` runs it whether it is due or not. Raises StoreUnavailableError.
        """
        with self._db.connection() as connection:
            row = connection.execute(
                f"""
                INSERT INTO jobs AS j (name, due_at, started_at, runs)
                VALUES (%(name)s, coalesce(%(now)s, now()) + %(every)s, coalesce(%(now)s, now()), 1)
                ON CONFLICT (name) DO UPDATE SET
                    due_at = excluded.due_at, started_at = excluded.started_at, runs = j.runs + 1,
                    failures = j.failures + CASE WHEN {_UNFINISHED} THEN 1 ELSE 0 END,
                    reason = CASE WHEN {_UNFINISHED} THEN %(died)s ELSE j.reason END
                WHERE %(force)s OR {_CLAIMABLE}
                RETURNING runs, failures, reason IS NOT DISTINCT FROM %(died)s AS died
                """,  # noqa: S608 (ours)
                {**self._given(name, slack=slack, every=every), "force": force, "died": _DIED},
            ).fetchone()
        return None if row is None else Claim(name, row["runs"], row["failures"], row["died"])

    def succeed(self, claim: Claim, *, told: str | None = None, again: bool = False) -> None:
        """The run did what it could; `told` is what it could not. `again`: it did not come to its end, so it is due at
        once.

        Does nothing where the job was claimed by another since.
        """
        self._end(
            claim,
            "succeeded_at = CASE WHEN %(again)s THEN succeeded_at ELSE coalesce(%(now)s, now()) END, "
            "failures = 0, reason = %(reason)s, "
            "due_at = CASE WHEN %(again)s THEN coalesce(%(now)s, now()) ELSE due_at END",
            {"reason": clean(told) if told else None, "again": again},
        )

    def fail(self, claim: Claim, reason: str, *, wait: timedelta) -> None:
        """The run failed; the next is due `wait` after this one began. Does nothing where the job was claimed since."""
        self._end(
            claim,
            "failures = failures + 1, reason = %(reason)s, "
            "due_at = greatest(started_at + %(wait)s, coalesce(%(now)s, now()))",
            {"reason": clean(reason), "wait": wait},
        )

    def postpone(self, claim: Claim, reason: str, *, wait: timedelta) -> None:
        """The run did nothing, since it has to wait `wait` for something else. Does nothing where the job was claimed
        since."""
        self._end(
            claim,
            "reason = %(reason)s, due_at = coalesce(%(now)s, now()) + %(wait)s",
            {"reason": clean(reason), "wait": wait},
        )

    def _end(self, claim: Claim, change: str, given: dict[str, Any]) -> None:
        with self._db.connection() as connection:
            connection.execute(
                f"UPDATE jobs SET finished_at = coalesce(%(now)s, now()), {change} "  # noqa: S608 (ours)
                "WHERE name = %(name)s AND runs = %(run)s",
                {**self._given(claim.name), "run": claim.run, **given},
            )

    def skip(self, name: str, why: str, *, every: timedelta, slack: timedelta) -> None:
        """Count a start that was due and did not happen, because of `why` (a word).

        Where the job itself still runs, the period goes by without another run: the next is due with the next period.
        """
        with self._db.connection() as connection:
            connection.execute(
                f"""
                UPDATE jobs AS j SET
                    skipped = skipped || jsonb_build_object(
                        %(why)s::text, coalesce((skipped ->> %(why)s::text)::bigint, 0) + 1),
                    due_at = CASE WHEN {_UNFINISHED}
                        THEN due_at + %(every)s * (1 + greatest(0, floor(
                            extract(epoch FROM coalesce(%(now)s, now()) - due_at) / extract(epoch FROM %(every)s))))
                        ELSE due_at END
                WHERE name = %(name)s AND {_DUE}
                """,  # noqa: S608 (ours)
                {**self._given(name, every=every, slack=slack), "why": why},
            )

    def put_off(self, name: str, *, every: timedelta) -> None:
        """What the job does was just done by other means: it is due `every` from now."""
        with self._db.connection() as connection:
            connection.execute(
                "INSERT INTO jobs (name, due_at, succeeded_at) "
                "VALUES (%(name)s, coalesce(%(now)s, now()) + %(every)s, coalesce(%(now)s, now())) "
                "ON CONFLICT (name) DO UPDATE SET due_at = excluded.due_at, succeeded_at = excluded.succeeded_at",
                self._given(name, every=every),
            )

    def bring_forward(self, names: Collection[str]) -> int:
        """Let these jobs be due now, whatever they waited for; how many of them there are."""
        with self._db.connection() as connection:
            return connection.execute(
                "UPDATE jobs SET due_at = least(due_at, coalesce(%(now)s, now())) WHERE name = ANY(%(names)s)",
                {**self._given(""), "names": sorted(set(names))},
            ).rowcount

    def states(self) -> dict[str, JobState]:
        """Every job that was ever claimed, by name. One that its worker left is due as soon as it may be taken up."""
        with self._db.connection() as connection:
            rows = connection.execute(
                f"""
                SELECT name, started_at, finished_at, succeeded_at, reason, runs, failures, skipped,
                    CASE WHEN started_at > coalesce(%(now)s, now()) THEN coalesce(%(now)s, now())
                        WHEN {_UNFINISHED} AND failures < {_TAKEN_UP_AT_ONCE}
                        THEN least(started_at, due_at) ELSE due_at END AS due_at
                FROM jobs j ORDER BY name
                """,  # noqa: S608 (ours)
                self._given(""),
            ).fetchall()
        return {r["name"]: JobState(**r) for r in rows}

    def _given(self, name: str, **more: timedelta) -> dict[str, Any]:
        return {"name": name, "now": self._clock.now() if self._clock is not None else None, **more}
