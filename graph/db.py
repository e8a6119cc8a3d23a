"""The way to Postgres: one pool a role, one transaction a block, and errors that say no more than they should."""

from __future__ import annotations

import contextlib
import logging
import random
import select
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, TypeVar

import psycopg
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import DictRow, dict_row
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout, TooManyRequests

from core.errors import InvariantError, StoreUnavailableError

T = TypeVar("T")

# Seconds: to be let in by the server, and to wait for a free connection before the caller is told to come back.
_CONNECT_WAIT: Final = 5
_POOL_WAIT: Final = 2.0
# Seconds to wait for a turn while other questions are answered.
_TURN_WAIT: Final = 20.0
_ATTEMPTS: Final = 8
# A process that stops in the middle of a transaction, suspended or cut off, keeps its locks no longer than this. One
# that works cuts texts into chunks meanwhile, which may take minutes on a slow machine.
_LONGEST_PAUSE: Final = "10min"
_PAUSED_TOO_LONG: Final = "25P03"
# The pool reports each failed attempt to connect; ours is the error that the caller gets, once.
logging.getLogger("psycopg.pool").setLevel(logging.ERROR)

# serialization_failure, deadlock_detected
_RETRYABLE: Final = frozenset({"40001", "40P01"})


class Database:
    """A pool of connections of one role; opened when first used. Make it after a fork, never before. A transaction
    in which nothing is said for `longest_pause` (as Postgres writes it) is ended by Postgres."""

    def __init__(
        self,
        dsn: str,
        *,
        min_size: int = 1,
        max_size: int = 4,
        name: str = "postgres",
        longest_pause: str = _LONGEST_PAUSE,
    ) -> None:
        self._name = name
        self._dsn = dsn
        self._secrets = _secrets_of(dsn)
        self._reading = threading.local()
        # A snapshot keeps its connection for as long as a question takes; one stays free for short reads.
        self._snapshots = threading.BoundedSemaphore(max(1, max_size - 1))
        self._pool: ConnectionPool[Connection[DictRow]] = ConnectionPool(
            dsn,
            connection_class=Connection[DictRow],
            kwargs={"row_factory": dict_row, "connect_timeout": _CONNECT_WAIT},
            min_size=min_size,
            max_size=max_size,
            name=name,
            timeout=_POOL_WAIT,
            check=_check,
            configure=partial(_configure, longest_pause),
            open=False,
        )

    def __repr__(self) -> str:
        return f"Database({self._name})"

    @contextlib.contextmanager
    def connection(self) -> Iterator[Connection[DictRow]]:
        """One transaction: committed at the end of the block, rolled back on any error.

        Raises StoreUnavailableError where Postgres does not answer or gives up on the statement, InvariantError where
        it refuses one (a defect of ours). Neither holds the statement, its values or the DSN.
        """
        snapshot: Connection[DictRow] | None = getattr(self._reading, "connection", None)
        if snapshot is not None:
            yield snapshot
            return
        try:
            self._pool.open()
            with self._pool.connection() as connection:
                yield connection
        except (PoolTimeout, PoolClosed, TooManyRequests) as e:
            raise StoreUnavailableError(self._name, self._why_no_connection()) from e
        except (psycopg.OperationalError, psycopg.InterfaceError) as e:
            raise StoreUnavailableError(self._name, self._reason(e)) from e
        except psycopg.Error as e:
            if e.sqlstate == _PAUSED_TOO_LONG:
                raise StoreUnavailableError(self._name, "a transaction was paused for too long") from e
            raise InvariantError(f"Postgres refused a statement ({e.sqlstate})", where=self._name) from e

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Let every `connection()` of this thread inside the block read from one snapshot, in one transaction.

        What a question is answered from is then the state of one moment, and it costs one round trip a statement
        instead of three. Nothing can be written inside. Errors as for `connection`.
        """
        if getattr(self._reading, "connection", None) is not None:
            yield
            return
        with self._turn(), self.connection() as connection:
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            self._reading.connection = connection
            try:
                yield
            finally:
                self._reading.connection = None

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        if not self._snapshots.acquire(timeout=_TURN_WAIT):
            raise StoreUnavailableError(self._name, "too many questions at once")
        try:
            yield
        finally:
            self._snapshots.release()

    def ping(self) -> None:
        """Return when Postgres answers; raises StoreUnavailableError."""
        with self.connection() as connection:
            connection.execute("SELECT 1")

    def retrying(self, work: Callable[[Connection[DictRow]], T]) -> T:
        """Run `work` in a transaction of its own, again where Postgres chose it to break a deadlock.

        `work` must do nothing that can't be done twice. Writers also sort their rows by key first, so that a deadlock
        is the exception.
        """
        for attempt in range(_ATTEMPTS):
            try:
                with self.connection() as connection:
                    return work(connection)
            except StoreUnavailableError as e:
                state = getattr(e.__cause__, "sqlstate", None)
                if state not in _RETRYABLE or attempt == _ATTEMPTS - 1:
                    raise
                time.sleep(random.uniform(0.002, 0.01) * 2**attempt)  # noqa: S311
        raise InvariantError("unreachable: every attempt returns or raises")

    def close(self) -> None:
        """Close every connection."""
        self._pool.close()

    def _why_no_connection(self) -> str:
        """The pool only knows that it waited in vain; the server says more."""
        try:
            psycopg.connect(self._dsn, connect_timeout=_CONNECT_WAIT).close()
        except psycopg.OperationalError as e:
            return self._reason(e)
        return "every connection is in use"

    def _reason(self, error: psycopg.Error) -> str:
        text = str(error).strip().split("\n", 1)[0]
        if any(secret in text for secret in self._secrets):
            return f"it does not answer ({error.sqlstate or type(error).__name__})"
        return text or type(error).__name__


def _configure(longest_pause: str, connection: Connection[DictRow]) -> None:
    connection.execute("SELECT set_config('idle_in_transaction_session_timeout', %s, false)", [longest_pause])
    connection.commit()


def _check(connection: Connection[DictRow]) -> None:
    """A server that was restarted leaves dead connections in the pool; a caller must not meet them.

    An idle connection has nothing to say, so where its socket can be read it has ended or been told something: only
    then it is worth a round trip to find out.
    """
    socket = select.poll()
    socket.register(connection.pgconn.socket, select.POLLIN)
    if socket.poll(0):
        ConnectionPool.check_connection(connection)


def clean(text: str) -> str:
    """`text` as Postgres can hold it: without U+0000, which it refuses, and lone surrogates, which are no text."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")


def clean_json(value: Any) -> Any:
    """`clean` for every string in a JSON value, keys too."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean_json(k): clean_json(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [clean_json(v) for v in value]
    return value


def _secrets_of(dsn: str) -> tuple[str, ...]:
    try:
        parts = conninfo_to_dict(dsn)
    except psycopg.Error:
        return (dsn,)
    return tuple(str(parts[k]) for k in ("password", "passfile", "sslpassword") if parts.get(k))
