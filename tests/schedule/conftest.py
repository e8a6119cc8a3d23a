"""One database for all tests of a file, emptied before each: most of what they do takes less time than making one."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from tests.support.postgres import FreshDatabase, PostgresServer

_ANY = sql.SQL("SELECT 1 FROM {} LIMIT 1")


@pytest.fixture(scope="module")
def shared_database(postgres: PostgresServer) -> Iterator[tuple[FreshDatabase, sql.Composed]]:
    """The database, and the statement that empties it of all but what migrations put there."""
    made = postgres.fresh_database()
    with psycopg.connect(made.ingest_dsn) as connection:
        found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1").fetchall()
        # The audit log can't be emptied by anybody; no job writes to it.
        tables = [sql.Identifier(name) for (name,) in found if not name.startswith("audit")]
        emptied = [t for t in tables if connection.execute(_ANY.format(t)).fetchone() is None]
    yield made, sql.SQL("TRUNCATE {}").format(sql.SQL(", ").join(emptied))
    postgres.drop(made)


@pytest.fixture
def fresh_database(shared_database: tuple[FreshDatabase, sql.Composed]) -> FreshDatabase:
    """The shared database, empty again."""
    made, empty = shared_database
    with psycopg.connect(made.ingest_dsn, autocommit=True) as connection:
        connection.execute(empty)
    return made
