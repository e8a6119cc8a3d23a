"""Leases: who may do a thing for a while. A holder that dies loses it when its time is over.

A lease is one row. `token` grows with each holder, so one that was taken over can be told from the one before. A
process that was suspended learns of that too late to stop by itself, so what it writes is checked where it is written:
see `still_held`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Final

from psycopg import Connection
from psycopg.rows import DictRow

from core.clock import Clock
from core.errors import LeaseLostError, StoreUnavailableError
from graph.db import Database

log = logging.getLogger(__name__)

# A holder has this many tries to renew before its lease lapses.
_TRIES: Final = 3
_OF_THREAD: Final = threading.local()


class LeaseStore:
    """The leases. `clock` None: the database's own, so that machines whose clocks differ agree on who holds what."""

    def __init__(self, db: Database, clock: Clock | None = None) -> None:
        self._db = db
        self._clock = clock

    def acquire(self, name: str, holder: str, ttl: timedelta) -> Lease | None:
        """Take a lease for `ttl`; None while somebody holds it, whoever they are. `holder` is who to name for it.

        Raises StoreUnavailableError.
        """
        asked = time.monotonic()
        with self._db.connection() as connection:
            row = connection.execute(
                """
                INSERT INTO leases AS l (name, holder, token, until)
                VALUES (%(name)s, %(holder)s, 1, coalesce(%(now)s, clock_timestamp()) + %(ttl)s)
                ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, token = l.token + 1, until = excluded.until
                WHERE l.until <= coalesce(%(now)s, clock_timestamp())
                RETURNING token, until
                """,
                {"name": name, "holder": holder, "now": self._now(), "ttl": ttl},
            ).fetchone()
        return None if row is None else Lease(self, name, ttl, row["token"], row["until"], asked)

    def holder(self, name: str) -> str | None:
        """Who holds a lease now."""
        with self._db.connection() as connection:
            row = connection.execute(
                "SELECT holder FROM leases WHERE name = %s AND until > coalesce(%s, clock_timestamp())",
                [name, self._now()],
            ).fetchone()
        return None if row is None else str(row["holder"])

    def forget(self, holder: str) -> int:
        """End every lease of a holder that is known to be gone; how many there were."""
        with self._db.connection() as connection:
            return connection.execute(
                "UPDATE leases SET until = '-infinity' WHERE holder = %s AND until > '-infinity'", [holder]
            ).rowcount

    def _renew(self, name: str, token: int, ttl: timedelta) -> datetime | None:
        with self._db.connection() as connection:
            row = connection.execute(
                "UPDATE leases SET until = coalesce(%(now)s, clock_timestamp()) + %(ttl)s "
                "WHERE name = %(name)s AND token = %(token)s AND until > coalesce(%(now)s, clock_timestamp()) "
                "RETURNING until",
                {"name": name, "token": token, "now": self._now(), "ttl": ttl},
            ).fetchone()
        return None if row is None else row["until"]

    def _release(self, name: str, token: int) -> None:
        # The row stays: the next holder's token must be a greater one.
        with self._db.connection() as connection:
            connection.execute(
                "UPDATE leases SET until = '-infinity' WHERE name = %s AND token = %s AND until > '-infinity'",
                [name, token],
            )

    def _holds(self, connection: Connection[DictRow], name: str, token: int) -> bool:
        row = connection.execute(
            "SELECT 1 FROM leases WHERE name = %s AND token = %s AND until > coalesce(%s, clock_timestamp())",
            [name, token, self._now()],
        ).fetchone()
        return row is not None

    def _now(self) -> datetime | None:
        return self._clock.now() if self._clock is not None else None


class Lease:
    """One that is held. Not made by hand: see `LeaseStore.acquire`. Threads may share it."""

    def __init__(self, store: LeaseStore, name: str, ttl: timedelta, token: int, until: datetime, asked: float) -> None:
        self.name = name
        self.token = token
        self.ttl = ttl
        self._store = store
        self._until = until
        self._asked = asked  # on this machine's own steady clock, from before the store was asked
        self._lost = False

    def renew(self) -> None:
        """Hold it for another `ttl` from now. Raises LeaseLostError where it lapsed or is somebody else's;
        StoreUnavailableError leaves it open whether it was renewed."""
        if self._lost:
            raise self._loss()
        asked = time.monotonic()
        until = self._store._renew(self.name, self.token, self.ttl)
        if until is None:
            self._lost = True
            raise self._loss()
        self._until, self._asked = until, asked

    def check(self) -> None:
        """Return while it is surely held. Costs nothing as long as it was renewed in time. Raises as `renew`."""
        now = self._store._now()
        lapsed = now is not None and now >= self._until
        if self._lost or lapsed or time.monotonic() - self._asked >= self.ttl.total_seconds():
            self.renew()

    def still_held(self, connection: Connection[DictRow]) -> None:
        """Return where it is held at this moment of an open transaction. Raises LeaseLostError."""
        if self._lost or not self._store._holds(connection, self.name, self.token):
            raise self._loss()

    def release(self) -> None:
        """Let the next one have it at once. One that was lost is nobody's to release. Raises StoreUnavailableError."""
        if not self._lost:
            self._lost = True
            self._store._release(self.name, self.token)

    def _loss(self) -> LeaseLostError:
        return LeaseLostError("the lease is no longer held by this process", where=self.name)


def still_held(connection: Connection[DictRow]) -> None:
    """Return where every lease that this thread keeps (`kept`) is its own at this moment. Raises LeaseLostError.

    To be called in the transaction that writes, once it holds the lock under which such writes follow each other: who
    takes a lease over later then reads later, and writes after it.
    """
    for lease in getattr(_OF_THREAD, "leases", ()):
        lease.still_held(connection)


@contextmanager
def kept(*leases: Lease) -> Iterator[None]:
    """Renew leases in the background while the block runs, and release them after it. What this thread writes inside
    of it to rules, memberships and items is written only as long as they are held.

    A store that does not answer is asked again; one that does not answer for a whole lease ends it, which
    `Lease.check` then tells. A release that fails is logged: the lease lapses by itself.
    """
    done = threading.Event()

    def renew() -> None:
        held = list(leases)
        while held and not done.wait(min(lease.ttl for lease in held).total_seconds() / _TRIES):
            for lease in tuple(held):
                try:
                    lease.renew()
                except LeaseLostError:
                    held.remove(lease)
                except StoreUnavailableError as e:
                    log.warning("lease %s could not be renewed: %s", lease.name, e.message)

    keeper = threading.Thread(target=renew, name="leases", daemon=True)
    keeper.start()
    before = getattr(_OF_THREAD, "leases", ())
    _OF_THREAD.leases = (*before, *leases)
    try:
        yield
    finally:
        _OF_THREAD.leases = before
        done.set()
        keeper.join()
        for lease in leases:
            try:
                lease.release()
            except StoreUnavailableError as e:
                log.warning("lease %s could not be released, so it lapses: %s", lease.name, e.message)
