"""What the receiver's database role may do: keep hints and count, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from core.clock import FixedClock
from core.hints import Hint, HintKind
from graph.db import Database
from graph.deliveries import DeliveryCounts
from graph.inbox import Arrival, Inbox, Received
from graph.subscriptions import Subscription, SubscriptionStore
from tests.support.postgres import FreshDatabase, PostgresServer
from tests.webhooks.support import hooks_dsn

NOW = datetime(2031, 3, 7, 12, tzinfo=UTC)


@pytest.fixture
def dsn(postgres: PostgresServer, fresh_database: FreshDatabase) -> str:
    return hooks_dsn(postgres, fresh_database)


def _refused(dsn: str, statement: str) -> bool:
    with psycopg.connect(dsn) as connection:
        try:
            connection.execute(statement)  # type: ignore[arg-type]
        except psycopg.errors.InsufficientPrivilege:
            return True
        finally:
            connection.rollback()
    return False


def test_the_receiver_can_do_its_work(
    dsn: str, fresh_database: FreshDatabase, open_database: Callable[[str], Database]
) -> None:
    mine, clock = open_database(dsn), FixedClock(NOW)
    arrival = Arrival(key="k", hints=(Hint(connector="teams", kind=HintKind.ACCESS),))
    inbox = Inbox(mine, clock)
    inbox.ping()
    assert inbox.receive("graph", [arrival]) == Received(1, 0)
    assert inbox.receive("graph", [arrival]) == Received(0, 1)
    DeliveryCounts(mine, clock).add({("graph", "forged"): 1})
    kept = SubscriptionStore(open_database(fresh_database.ingest_dsn))
    kept.put(
        Subscription(
            connector="teams",
            resource="/users",
            id="gsub-1",
            made_at=NOW,
            renewed_at=NOW,
            expires_at=NOW + timedelta(1),
        )
    )
    store = SubscriptionStore(mine)
    assert store.resources_of(["gsub-1", "x"]) == {"gsub-1": "/users"}
    store.delivered({"gsub-1": NOW, "unknown": NOW})
    assert [s.last_delivery_at for s in kept.all("teams")] == [NOW]


def test_the_receiver_is_refused_everything_else(dsn: str) -> None:
    kept = "INSERT INTO subscriptions (connector, resource, id, made_at, renewed_at, expires_at) "
    for statement in (
        "SELECT hint FROM inbox",
        "UPDATE inbox SET state = 'done'",
        "DELETE FROM inbox",
        "TRUNCATE inbox",
        "DELETE FROM deliveries",
        "UPDATE subscriptions SET id = 'x'",
        kept + "VALUES ('t', 'r', 'i', now(), now(), now())",
        "DELETE FROM subscriptions",
        "SELECT made_with FROM subscriptions",
        "INSERT INTO leases (name, holder, token, until) VALUES ('a', 'b', 1, now())",
        "CREATE TABLE mine (x int)",
        "CREATE TEMPORARY TABLE mine (x int)",
        "CREATE SCHEMA mine",
        "SET ROLE context_ingest",
        "SELECT rolpassword FROM pg_authid",
        "SELECT pg_read_file('/etc/passwd')",
    ):
        assert _refused(dsn, statement), statement


def test_no_other_table_is_open_to_the_receiver(dsn: str, fresh_database: FreshDatabase) -> None:
    with psycopg.connect(fresh_database.ingest_dsn) as connection:
        rows = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
    others = {r[0] for r in rows} - {"inbox", "deliveries", "subscriptions"}
    assert {"items", "audit", "people", "scopes", "checkpoints"} <= others
    for table in sorted(others):
        assert _refused(dsn, f"SELECT 1 FROM {table}"), table
        assert _refused(dsn, f"INSERT INTO {table} DEFAULT VALUES"), table
        assert _refused(dsn, f"DELETE FROM {table}"), table
