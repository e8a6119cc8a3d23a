"""Connecting, migrating, and what errors say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from context_engine.postgres import QUERY_ROLE
from core.errors import ConfigError, InvariantError, StoreUnavailableError
from graph.db import Database, clean, clean_json
from graph.migrate import current_revision, migrate, newest_revision
from tests.support.postgres import FreshDatabase, PostgresServer


@pytest.fixture
def empty(postgres: PostgresServer) -> Iterator[FreshDatabase]:
    made = postgres.empty_database()
    yield made
    postgres.drop(made)


def test_an_empty_database_is_brought_to_the_newest_revision(empty: FreshDatabase) -> None:
    assert current_revision(empty.ingest_dsn) is None
    assert migrate(empty.ingest_dsn, query_role=QUERY_ROLE) == newest_revision() == "0004_audit"
    assert current_revision(empty.ingest_dsn) == newest_revision()
    assert migrate(empty.ingest_dsn, query_role=QUERY_ROLE) == newest_revision()


def test_processes_that_migrate_at_once_do_not_hinder_each_other(empty: FreshDatabase) -> None:
    with ThreadPoolExecutor(4) as pool:
        revisions = list(pool.map(lambda _: migrate(empty.ingest_dsn, query_role=QUERY_ROLE), range(4)))
    assert revisions == [newest_revision()] * 4


def test_rights_that_the_query_role_should_not_have_are_taken_back(fresh_database: FreshDatabase) -> None:
    with psycopg.connect(fresh_database.ingest_dsn) as connection:
        connection.execute("GRANT ALL ON items, audit TO context_query")
    migrate(fresh_database.ingest_dsn, query_role=QUERY_ROLE)
    with psycopg.connect(fresh_database.query_dsn) as connection:
        for statement in ("DELETE FROM items", "SELECT 1 FROM audit"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)
            connection.rollback()


def test_a_migration_that_waits_for_a_lock_gives_up_soon_and_changes_nothing(
    empty: FreshDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graph.migrate.LOCK_TIMEOUT", "200ms")
    with psycopg.connect(empty.ingest_dsn) as other:
        other.execute("CREATE TABLE audit (x int)")
        with pytest.raises(StoreUnavailableError, match="lock timeout"):
            migrate(empty.ingest_dsn, query_role=None)
        other.rollback()
    assert current_revision(empty.ingest_dsn) is None
    assert migrate(empty.ingest_dsn, query_role=None) == newest_revision()


def test_a_role_that_is_not_there_is_named_with_how_to_make_it(empty: FreshDatabase) -> None:
    with pytest.raises(ConfigError, match=r"there is no role nobody_here.*CREATE ROLE nobody_here"):
        migrate(empty.ingest_dsn, query_role="nobody_here")


def test_a_server_that_is_down_is_told_without_password_or_address_of_ours(
    fresh_database: FreshDatabase, open_database: Callable[[str], Database]
) -> None:
    password = fresh_database.ingest_dsn.split(":")[2].split("@")[0]
    wrong = "postgresql://context_ingest:hunter22@127.0.0.1:1/context"
    with pytest.raises(StoreUnavailableError) as raised:
        migrate(wrong, query_role=None)
    assert "hunter22" not in f"{raised.value!s}{raised.value.__cause__}"
    refused = open_database(fresh_database.ingest_dsn.replace(password, "hunter22"))
    with pytest.raises(StoreUnavailableError, match="password authentication failed") as raised:
        refused.ping()
    assert "hunter22" not in f"{raised.value!s}{raised.value.__cause__}"
    assert password not in repr(refused)


def test_a_refused_statement_is_a_defect_and_its_values_are_not_told(ingest_db: Database) -> None:
    with pytest.raises(InvariantError) as raised, ingest_db.connection() as connection:
        connection.execute("SELECT %s::int", ["somebody's secret"])
    assert "secret" not in str(raised.value)


def test_a_block_that_fails_leaves_nothing(ingest_db: Database) -> None:
    def fail() -> None:
        with ingest_db.connection() as connection:
            connection.execute("UPDATE access_epoch SET epoch = 99")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with ingest_db.connection() as connection:
        assert connection.execute("SELECT epoch FROM access_epoch").fetchone() == {"epoch": 1}


def test_a_pool_gets_over_connections_that_the_server_cut(ingest_db: Database, postgres: PostgresServer) -> None:
    ingest_db.ping()
    postgres.cut_connections()
    ingest_db.ping()


def test_text_is_cleaned_of_what_postgres_cannot_hold_and_of_nothing_else() -> None:
    assert clean("a\x00b\x0b\t\ud800é") == "ab\x0b\t?é"
    assert clean_json({"a\x00": ["\x00", 1, None, ("x\x00",)]}) == {"a": ["", 1, None, ["x"]]}
