"""What tests of the receiver share: its own role in a real Postgres."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql

from context_engine.postgres import QUERY_ROLE
from graph.db import Database
from graph.migrate import HOOKS_ROLE, migrate
from tests.support.postgres import FreshDatabase, PostgresServer

PASSWORD = "of-the-receiver"


def hooks_dsn(postgres: PostgresServer, database: FreshDatabase) -> str:
    """The receiver's way into a database, where its role is made and has its rights."""
    with psycopg.connect(postgres._server.superuser_dsn, autocommit=True) as connection:
        if connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [HOOKS_ROLE]).fetchone() is None:
            role, password = sql.Identifier(HOOKS_ROLE), sql.Literal(PASSWORD)
            connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(role, password))
    migrate(database.ingest_dsn, query_role=QUERY_ROLE)
    head, _, tail = database.ingest_dsn.partition("@")
    return f"{head.partition('//')[0]}//{HOOKS_ROLE}:{PASSWORD}@{tail}"


@contextmanager
def hooks_database(postgres: PostgresServer) -> Iterator[tuple[FreshDatabase, Database, Database]]:
    """A database with the receiver's way in, and the ingestion plane's."""
    database = postgres.fresh_database()
    mine, theirs = Database(hooks_dsn(postgres, database)), Database(database.ingest_dsn)
    try:
        yield database, mine, theirs
    finally:
        mine.close()
        theirs.close()
        postgres.drop(database)


def empty(theirs: Database) -> None:
    """Forget every hint, count and subscription."""
    with theirs.connection() as connection:
        connection.execute("TRUNCATE inbox, deliveries, subscriptions")
