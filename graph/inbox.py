"""The inbox: what deliveries told us to look at again, kept from before they are acknowledged until it was done.

A hint waits until what it asks for began after it came and ended well. What fails waits longer each time and is given
up after some ten tries; then the polls have to find what it told. Doubles are known by their key for as long as rows
are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from psycopg import Connection
from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from core.clock import Clock
from core.hints import Hint, HintKind
from graph.db import Database, clean, clean_json
from graph.deliveries import DeliveryCounts
from graph.hinted import HintedItems
from graph.versions import order

ATTEMPTS: Final = 10
FIRST_WAIT: Final = timedelta(seconds=5)
LONGEST_WAIT: Final = timedelta(hours=1)
_GROWTH: Final = 3
# So many items at a time: what was read is settled before the next ones are.
_TARGETS_AT_ONCE: Final = 200
# Who wrote `received_at` may be another machine: what came so shortly before a run may have come within it.
_SKEW: Final = timedelta(seconds=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One delivery, or one item of a batch: its hints, and the `key` by which another copy of it is known."""

    key: str
    hints: tuple[Hint, ...]
    occurred_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Received:
    """How many arrivals were new, and how many had come before."""

    new: int
    doubled: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingHint:
    """A hint that waits; `attempts` failed so far, and it is tried again from `due_at` on."""

    id: int
    hint: Hint
    received_at: datetime
    attempts: int
    due_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadHint:
    """A hint that was given up, and why."""

    id: int
    hint: Hint
    received_at: datetime
    attempts: int
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxState:
    """How many hints wait, how many of them failed at least once, how many were given up; `oldest`: since when the
    first of those that wait does."""

    pending: int
    failing: int
    dead: int
    oldest: datetime | None


class Inbox:
    """Receives hints and gives them out. Every method is one transaction and raises StoreUnavailableError.

    `counts` counts deliveries by how they ended; `known` looks up what the record says of the items that hints name.
    """

    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock
        self.counts = DeliveryCounts(db, clock)
        self.known = HintedItems(db)

    # --- coming in

    def receive(self, source: str, arrivals: Sequence[Arrival]) -> Received:
        """Keep the hints of one delivery: all of them when this returns, none where it raises."""
        now = self._clock.now()
        rows = sorted(
            (
                (f"{arrival.key}#{n}", number, hint, arrival.occurred_at)
                for number, arrival in enumerate(arrivals)
                for n, hint in enumerate(arrival.hints)
            ),
            key=lambda row: row[:2],
        )

        def work(connection: Connection[DictRow]) -> set[str]:
            kept = connection.execute(
                "INSERT INTO inbox (source, key, connector, hint, occurred_at, received_at, due_at) "
                "SELECT %s, key, connector, hint, occurred_at, %s, %s "
                "FROM unnest(%s::text[], %s::text[], %s::jsonb[], %s::timestamptz[]) "
                "AS arrived (key, connector, hint, occurred_at) ON CONFLICT (source, key) DO NOTHING RETURNING key",
                [
                    source,
                    now,
                    now,
                    [key for key, *_ in rows],
                    [hint.connector for _, _, hint, _ in rows],
                    [Jsonb(clean_json(hint.to_json())) for _, _, hint, _ in rows],
                    [at for *_, at in rows],
                ],
            ).fetchall()
            return {r["key"] for r in kept}

        if not rows:
            return Received(0, 0)
        kept = self._db.retrying(work)
        told = {number for _, number, _, _ in rows}
        # Two arrivals of one key in one delivery are a double of each other.
        new = len({key.rpartition("#")[0] for key in kept})
        return Received(new, len(told) - new)

    def ping(self) -> None:
        """Return when a hint could be kept now: one is written and taken back. Raises StoreUnavailableError, or
        InvariantError where the role may not write."""
        with self._db.connection() as connection, connection.transaction(force_rollback=True):
            connection.execute(
                "INSERT INTO inbox (source, key, connector, hint, received_at, due_at) "
                "VALUES ('ping', gen_random_uuid()::text, '', "
                "jsonb_build_object('connector', '', 'kind', 'access'), now(), now())"
            )

    # --- going out

    def waiting(self, connector: str) -> set[str]:
        """For what hints are due: `access`, `subscriptions`, and names of readers."""
        with self._db.connection() as connection:
            rows = connection.execute(
                "SELECT DISTINCT CASE hint->>'kind' WHEN 'access' THEN 'access' WHEN 'subscription' THEN "
                "'subscriptions' ELSE hint->>'reader' END AS what FROM inbox "
                "WHERE connector = %s AND state = 'pending' AND due_at <= %s",
                [connector, self._clock.now()],
            ).fetchall()
        return {r["what"] for r in rows if r["what"] is not None}

    def pending(self, connector: str, kind: HintKind, reader: str | None = None) -> list[PendingHint]:
        """Hints of a kind, of one reader where given: those that are due, and with them what waits for the same item,
        so that it is read once for all. The longest due first, and no more items than are read at a time."""
        now = self._clock.now()
        with self._db.connection() as connection:
            rows = connection.execute(
                _PENDING,
                {"connector": connector, "kind": kind.value, "reader": reader, "now": now, "most": _TARGETS_AT_ONCE},
            ).fetchall()
        return [_pending(r) for r in rows]

    def done(self, ids: Collection[int]) -> None:
        """What these hints asked for was done."""
        if not ids:
            return
        with self._db.connection() as connection:
            connection.execute(
                "UPDATE inbox SET state = 'done', done_at = %s, reason = NULL WHERE id = ANY(%s) AND state = 'pending'",
                [self._clock.now(), sorted(ids)],
            )

    def failed(self, ids: Collection[int], reason: str) -> int:
        """What these hints asked for did not end well: those that were due wait longer; return how many are given
        up."""
        if not ids:
            return 0
        now = self._clock.now()

        def work(connection: Connection[DictRow]) -> int:
            rows = connection.execute(
                "SELECT id, attempts FROM inbox WHERE id = ANY(%s) AND state = 'pending' AND due_at <= %s "
                "ORDER BY id FOR UPDATE",
                [sorted(ids), now],
            ).fetchall()
            dead = [r["id"] for r in rows if r["attempts"] + 1 >= ATTEMPTS]
            connection.execute(
                "UPDATE inbox i SET attempts = i.attempts + 1, due_at = tried.due_at, reason = %s, "
                "state = CASE WHEN i.id = ANY(%s) THEN 'dead' ELSE i.state END "
                "FROM unnest(%s::bigint[], %s::timestamptz[]) AS tried (id, due_at) WHERE i.id = tried.id",
                [clean(reason)[:500], dead, [r["id"] for r in rows], [now + wait(r["attempts"] + 1) for r in rows]],
            )
            return len(dead)

        return self._db.retrying(work)

    def covered(self, connector: str, kind: HintKind, reader: str | None, began: datetime) -> int:
        """A whole run of this kind (of this reader) that began then has done what hints asked for that came before it;
        return how many there were."""
        with self._db.connection() as connection:
            return connection.execute(
                "UPDATE inbox SET state = 'done', done_at = %(now)s, reason = NULL WHERE state = 'pending' AND "
                "connector = %(connector)s AND hint->>'kind' = %(kind)s AND received_at <= %(before)s AND "
                "(%(reader)s::text IS NULL OR hint->>'reader' = %(reader)s)",
                {
                    "now": self._clock.now(),
                    "connector": connector,
                    "kind": kind.value,
                    "reader": reader,
                    "before": began - _SKEW,
                },
            ).rowcount

    def withhold_gone(self, connector: str, withhold: Callable[[list[str]], object]) -> int:
        """Hand `withhold` the items of which a waiting hint says that they are gone and that are shown all the same;
        return how many. While it runs no such hint can be settled."""
        with self._db.connection() as connection:
            rows = connection.execute(
                "SELECT i.hint->>'uri' AS uri, i.hint->>'version' AS version, t.version AS known FROM inbox i "
                "JOIN items t ON t.uri = i.hint->>'uri' WHERE i.connector = %s AND i.state = 'pending' "
                "AND i.hint->>'kind' = 'item' AND (i.hint->>'gone')::boolean AND t.lifecycle = 'live' "
                "ORDER BY i.id FOR UPDATE OF i",
                [connector],
            ).fetchall()
            uris = sorted({r["uri"] for r in rows if not is_newer(r["known"], r["version"])})
            if uris:
                withhold(uris)
        return len(uris)

    # --- upkeep

    def purge(self, keep: timedelta) -> int:
        """Forget what came longer ago than `keep` and does not wait; return how many rows that were."""
        with self._db.connection() as connection:
            return connection.execute(
                "DELETE FROM inbox WHERE received_at < %s AND state <> 'pending'", [self._clock.now() - keep]
            ).rowcount

    def state(self) -> InboxState:
        """How much waits and how much was given up."""
        with self._db.connection() as connection:
            row = connection.execute(
                "SELECT count(*) FILTER (WHERE state = 'pending') AS pending, "
                "count(*) FILTER (WHERE state = 'pending' AND attempts > 0) AS failing, "
                "count(*) FILTER (WHERE state = 'dead') AS dead, "
                "min(received_at) FILTER (WHERE state = 'pending') AS oldest FROM inbox WHERE state <> 'done'"
            ).fetchone()
        assert row is not None
        return InboxState(**row)

    def dead(self, limit: int = 20) -> list[DeadHint]:
        """The latest hints that were given up."""
        with self._db.connection() as connection:
            rows = connection.execute(
                "SELECT id, hint, received_at, attempts, reason FROM inbox WHERE state = 'dead' "
                "ORDER BY id DESC LIMIT %s",
                [limit],
            ).fetchall()
        return [DeadHint(**{**r, "hint": Hint.from_json(r["hint"])}) for r in rows]

    def retry_dead(self, connector: str | None = None) -> int:
        """Let what was given up, of one connector or all, be tried again now; return how many hints."""
        with self._db.connection() as connection:
            return connection.execute(
                "UPDATE inbox SET state = 'pending', attempts = 0, due_at = %(now)s WHERE state = 'dead' "
                "AND (%(connector)s::text IS NULL OR connector = %(connector)s)",
                {"now": self._clock.now(), "connector": connector},
            ).rowcount


def wait(attempts: int) -> timedelta:
    """How long a hint waits after so many failures."""
    times: int = _GROWTH ** min(max(attempts, 1) - 1, 20)
    return min(FIRST_WAIT * times, LONGEST_WAIT)


def is_newer(version: str, than: str | None) -> bool:
    """Whether a version is known to be newer than the one that a hint tells."""
    return than is not None and order(version, None, than, None) == 1


def _pending(row: dict[str, Any]) -> PendingHint:
    return PendingHint(**{**row, "hint": Hint.from_json(row["hint"])})


_PENDING: Final = """
    WITH of_kind AS (
        SELECT id, hint, received_at, attempts, due_at, coalesce(hint->>'uri', hint->>'place', '') AS target
        FROM inbox WHERE connector = %(connector)s AND state = 'pending' AND hint->>'kind' = %(kind)s
            AND (%(reader)s::text IS NULL OR hint->>'reader' = %(reader)s)
    ), due AS (
        SELECT target, min(due_at) AS first FROM of_kind WHERE due_at <= %(now)s
        GROUP BY target ORDER BY first, target LIMIT %(most)s
    )
    SELECT id, hint, received_at, attempts, of_kind.due_at FROM of_kind JOIN due USING (target)
    ORDER BY due.first, target, id
"""
