"""What each database role may do. What it may do to the audit log is in tests/audit/test_audit_roles.py."""

from __future__ import annotations

import psycopg
import pytest

from tests.support.postgres import FreshDatabase, PostgresServer

_AUDIT = (
    "INSERT INTO audit (at, operation, asker, question_digest, interpreted_as, uris, latency_ms, outcome) "
    "VALUES (now(), 'context', 'user:t/a', 'd', 'i', '{}', 1, 'answered')"
)


def _tables(fresh_database: FreshDatabase) -> list[str]:
    with psycopg.connect(fresh_database.ingest_dsn) as connection:
        rows = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1").fetchall()
    return [r[0] for r in rows]


def _refused(dsn: str, statement: str) -> bool:
    with psycopg.connect(dsn) as connection:
        try:
            connection.execute(statement)  # type: ignore[arg-type]
        except psycopg.errors.InsufficientPrivilege:
            return True
        except psycopg.Error:
            return False
        finally:
            connection.rollback()
    return False


@pytest.mark.invariant("INV-2")
def test_the_query_role_can_write_to_no_table_but_append_to_the_audit_log(fresh_database: FreshDatabase) -> None:
    dsn = fresh_database.query_dsn
    tables = _tables(fresh_database)
    assert "items" in tables
    assert len(tables) >= 18
    for table in tables:
        assert _refused(dsn, f"DELETE FROM {table}"), table
        assert _refused(dsn, f"TRUNCATE {table} CASCADE"), table
        with psycopg.connect(fresh_database.ingest_dsn) as connection:
            column = connection.execute(
                "SELECT column_name FROM information_schema.columns WHERE table_name = %s "
                "ORDER BY ordinal_position DESC LIMIT 1",
                [table],
            ).fetchone()
        assert column is not None
        assert _refused(dsn, f"UPDATE {table} SET {column[0]} = {column[0]}"), table
        if table not in ("audit", "audit_questions"):
            assert _refused(dsn, f"INSERT INTO {table} DEFAULT VALUES"), table


@pytest.mark.invariant("INV-2")
@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE mine (x int)",
        "CREATE TEMPORARY TABLE mine (x int)",
        "CREATE SCHEMA mine",
        "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "DROP TABLE items CASCADE",
        "ALTER TABLE items ADD COLUMN x int",
        "SELECT * FROM checkpoints",
        "SELECT * FROM failures",
        "SELECT * FROM audit",
        f"{_AUDIT} RETURNING seq",
        "COPY items TO PROGRAM 'cat'",
        "SELECT pg_read_file('/etc/passwd')",
        "SET ROLE context_ingest",
        "SELECT rolpassword FROM pg_authid",
    ],
)
def test_the_query_role_is_refused(fresh_database: FreshDatabase, statement: str) -> None:
    assert _refused(fresh_database.query_dsn, statement)


def test_the_query_role_may_append_to_the_audit_log(fresh_database: FreshDatabase) -> None:
    with psycopg.connect(fresh_database.query_dsn) as connection:
        connection.execute(_AUDIT)
    with psycopg.connect(fresh_database.ingest_dsn) as connection:
        assert connection.execute("SELECT count(*) FROM audit").fetchone() == (1,)


def test_two_fresh_databases_share_nothing(postgres: PostgresServer) -> None:
    one, other = postgres.fresh_database(), postgres.fresh_database()
    with psycopg.connect(one.query_dsn) as connection:
        connection.execute(_AUDIT)
    with psycopg.connect(other.ingest_dsn) as connection:
        assert connection.execute("SELECT count(*) FROM audit").fetchone() == (0,)
    postgres.drop(one)
    postgres.drop(other)
