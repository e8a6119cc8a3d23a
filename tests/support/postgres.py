"""A real Postgres for tests: one embedded server a session, and a new migrated database in some 20 ms."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import psycopg
import pytest

from context_engine.postgres import INGEST_ROLE, QUERY_ROLE, EmbeddedPostgres
from graph.db import Database
from graph.migrate import migrate


@dataclass(frozen=True)
class FreshDatabase:
    """A migrated, empty database, and how each plane gets in."""

    name: str
    ingest_dsn: str
    query_dsn: str
    audit_dsn: str


class PostgresServer:
    """The session's server."""

    def __init__(self, server: EmbeddedPostgres) -> None:
        self._server = server
        self._numbers = count(1)
        self._admin = psycopg.connect(server.superuser_dsn, autocommit=True)
        self._admin.execute(f"CREATE DATABASE migrated OWNER {INGEST_ROLE}")
        migrate(self._in("migrated", server.ingest_dsn), query_role=QUERY_ROLE)

    def fresh_database(self) -> FreshDatabase:
        """A new database with the newest schema and nothing in it."""
        name = f"test_{next(self._numbers)}"
        self._admin.execute(f"CREATE DATABASE {name} TEMPLATE migrated OWNER {INGEST_ROLE} STRATEGY file_copy")
        self._admin.execute(f"REVOKE TEMPORARY ON DATABASE {name} FROM PUBLIC")
        return self._ways_into(name)

    def empty_database(self) -> FreshDatabase:
        """A new database that was never migrated."""
        name = f"test_{next(self._numbers)}"
        self._admin.execute(f"CREATE DATABASE {name} OWNER {INGEST_ROLE}")
        return self._ways_into(name)

    def _ways_into(self, name: str) -> FreshDatabase:
        server = self._server
        dsns = (server.ingest_dsn, server.query_dsn, server.audit_dsn)
        return FreshDatabase(name, *(self._in(name, dsn) for dsn in dsns))

    def drop(self, database: FreshDatabase) -> None:
        """Remove a database, open connections and all."""
        self._admin.execute(f"DROP DATABASE IF EXISTS {database.name} WITH (FORCE)")

    def cut_connections(self) -> None:
        """End every session but the administrator's, as a restart of the server would."""
        self._admin.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )

    def close(self) -> None:
        """Close the administrator's connection."""
        self._admin.close()

    @staticmethod
    def _in(database: str, dsn: str) -> str:
        head, _, tail = dsn.rpartition("/")
        return f"{head}/{database}?{tail.partition('?')[2]}"


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One embedded server for the whole session (one for each worker, where tests run side by side)."""
    folder = Path(tempfile.mkdtemp(prefix="context-engine-postgres-"))
    try:
        with EmbeddedPostgres(folder, durable=False) as server:
            handle = PostgresServer(server)
            try:
                yield handle
            finally:
                handle.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def fresh_database(postgres: PostgresServer) -> Iterator[FreshDatabase]:
    """A new migrated database, dropped after the test."""
    made = postgres.fresh_database()
    yield made
    postgres.drop(made)


@pytest.fixture
def open_database() -> Iterator[Callable[[str], Database]]:
    """Opens pools that are closed after the test."""
    opened: list[Database] = []

    def open_(dsn: str) -> Database:
        opened.append(Database(dsn))
        return opened[-1]

    yield open_
    for database in opened:
        database.close()


@pytest.fixture
def ingest_db(open_database: Callable[[str], Database], fresh_database: FreshDatabase) -> Database:
    """The ingestion plane's way into a fresh database."""
    return open_database(fresh_database.ingest_dsn)


@pytest.fixture
def audit_db(open_database: Callable[[str], Database], fresh_database: FreshDatabase) -> Database:
    """The audit plane's way into the same fresh database."""
    return open_database(fresh_database.audit_dsn)


@pytest.fixture
def query_db(open_database: Callable[[str], Database], fresh_database: FreshDatabase) -> Database:
    """The query plane's way into the same fresh database."""
    return open_database(fresh_database.query_dsn)
