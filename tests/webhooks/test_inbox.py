"""The inbox on a real Postgres: nothing is lost, doubles have no effect, and what fails waits longer each time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from core.clock import FixedClock
from core.hints import Hint, HintKind
from graph.db import Database
from graph.deliveries import DeliveryCounts
from graph.hinted import HintedItems
from graph.inbox import ATTEMPTS, Arrival, Inbox, InboxState, Received, wait
from tests.support.postgres import FreshDatabase, PostgresServer

NOW = datetime(2031, 3, 7, 12, tzinfo=UTC)
ADO = "azure_devops"


def item(number: int, *, gone: bool = False, version: str | None = None) -> Hint:
    uri = f"ctx://ado/o/work-items/{number}"
    return Hint(connector=ADO, kind=HintKind.ITEM, reader="work_items", uri=uri, gone=gone, version=version)


def reader(name: str) -> Hint:
    return Hint(connector=ADO, kind=HintKind.READER, reader=name)


def arrival(key: str, *hints: Hint) -> Arrival:
    return Arrival(key=key, hints=hints or (item(1),), occurred_at=NOW)


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(NOW)


@pytest.fixture(scope="module")
def made(postgres: PostgresServer) -> Iterator[tuple[FreshDatabase, Database]]:
    """One database for all tests, empty for each."""
    database = postgres.fresh_database()
    with closing(Database(database.ingest_dsn)) as db:
        yield database, db
    postgres.drop(database)


@pytest.fixture
def fresh_database(made: tuple[FreshDatabase, Database]) -> FreshDatabase:
    return made[0]


@pytest.fixture
def ingest_db(made: tuple[FreshDatabase, Database]) -> Iterator[Database]:
    yield made[1]
    with made[1].connection() as connection:
        connection.execute("TRUNCATE inbox, deliveries, items, failures CASCADE")


@pytest.fixture
def inbox(ingest_db: Database, clock: FixedClock) -> Inbox:
    return Inbox(ingest_db, clock)


def ids(inbox: Inbox, kind: HintKind = HintKind.ITEM, of: str | None = None) -> list[int]:
    return [p.id for p in inbox.pending(ADO, kind, of)]


def test_a_delivery_that_came_before_has_no_effect(inbox: Inbox) -> None:
    assert inbox.receive("azure_devops", [arrival("s/1"), arrival("s/2", item(2), item(3))]) == Received(2, 0)
    assert inbox.receive("azure_devops", [arrival("s/1", item(9))]) == Received(0, 1)
    assert inbox.receive("azure_devops", [arrival("s/3"), arrival("s/3")]) == Received(1, 1)
    assert inbox.receive("graph", [arrival("s/1")]) == Received(1, 0)
    inbox.done(ids(inbox))
    assert inbox.receive("azure_devops", [arrival("s/2", item(2))]) == Received(0, 1)
    assert not ids(inbox)


def test_nothing_of_a_delivery_is_kept_where_not_all_of_it_can_be(inbox: Inbox) -> None:
    broken = Hint(connector=ADO, kind=HintKind.ITEM, uri=object())  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        inbox.receive("azure_devops", [arrival("s/1"), arrival("s/2", broken)])
    assert inbox.state() == InboxState(pending=0, failing=0, dead=0, oldest=None)


def test_what_was_received_survives_the_process(
    inbox: Inbox, clock: FixedClock, fresh_database: FreshDatabase, open_database: Callable[[str], Database]
) -> None:
    hint = item(4103, gone=True, version="9")
    inbox.receive("azure_devops", [arrival("s/1", hint)])
    found = Inbox(open_database(fresh_database.ingest_dsn), clock).pending(ADO, HintKind.ITEM, "work_items")
    assert [p.hint for p in found] == [hint]


def test_many_receivers_of_the_same_deliveries_keep_each_once(inbox: Inbox) -> None:
    batch = [arrival(f"s/{n}", item(n)) for n in range(40)]
    with ThreadPoolExecutor(4) as pool:
        received = list(pool.map(lambda k: inbox.receive("graph", batch if k % 2 else batch[::-1]), range(8)))
    assert sum(r.new for r in received) == 40
    assert sum(r.doubled for r in received) == 40 * 7


def test_what_fails_waits_longer_each_time_and_is_given_up_in_the_end(inbox: Inbox, clock: FixedClock) -> None:
    inbox.receive("azure_devops", [arrival("s/1")])
    waits = []
    for _ in range(ATTEMPTS - 1):
        (pending,) = inbox.pending(ADO, HintKind.ITEM)
        assert inbox.failed([pending.id], "the source does not answer") == 0
        assert not ids(inbox)
        assert inbox.waiting(ADO) == set()
        waits.append(wait(pending.attempts + 1))
        clock.advance(waits[-1])
    assert waits == sorted(waits)
    assert waits[0] == timedelta(seconds=5)
    assert waits[-1] == timedelta(hours=1)
    assert inbox.failed(ids(inbox), "the source does not answer") == 1
    assert inbox.state() == InboxState(pending=0, failing=0, dead=1, oldest=None)
    (dead,) = inbox.dead()
    assert (dead.reason, dead.attempts) == ("the source does not answer", ATTEMPTS)
    assert inbox.retry_dead() == 1
    assert len(ids(inbox)) == 1


def test_hints_for_one_item_are_given_out_together_once_one_of_them_is_due(inbox: Inbox, clock: FixedClock) -> None:
    inbox.receive("azure_devops", [arrival(f"s/{n}") for n in range(500)])
    assert len({p.hint.uri for p in inbox.pending(ADO, HintKind.ITEM)}) == 1
    first = ids(inbox)
    inbox.failed(first, "no answer")
    assert not ids(inbox)
    inbox.receive("azure_devops", [arrival("s/new")])
    assert len(ids(inbox)) == 501
    inbox.failed(ids(inbox), "no answer")
    clock.advance(wait(1))
    tried = {p.attempts for p in inbox.pending(ADO, HintKind.ITEM)}
    assert tried == {1}, "a hint that waits is not charged for a try that another one was due for"


def test_it_is_told_for_what_hints_wait(inbox: Inbox) -> None:
    access = Hint(connector=ADO, kind=HintKind.ACCESS)
    kept = Hint(connector=ADO, kind=HintKind.SUBSCRIPTION, place="x", note="missed")
    inbox.receive("azure_devops", [arrival("s/1", item(1), reader("code"), access, kept)])
    assert inbox.waiting(ADO) == {"work_items", "code", "access", "subscriptions"}
    assert inbox.waiting("teams") == set()


def test_a_run_covers_only_what_came_before_it_began(inbox: Inbox, clock: FixedClock) -> None:
    inbox.receive("azure_devops", [arrival("s/1", reader("code"), reader("wikis"))])
    clock.advance(timedelta(seconds=30))
    began = clock.now()
    inbox.receive("azure_devops", [arrival("s/2", reader("code"))])
    assert inbox.covered(ADO, HintKind.READER, "code", began) == 1
    assert inbox.waiting(ADO) == {"code", "wikis"}


def test_doubles_are_remembered_as_long_as_deliveries_are_kept(inbox: Inbox, clock: FixedClock) -> None:
    inbox.receive("azure_devops", [arrival("s/1"), arrival("s/2", item(2))])
    (waiting, _) = ids(inbox)
    inbox.done([i for i in ids(inbox) if i != waiting])
    clock.advance(timedelta(days=7))
    assert inbox.purge(timedelta(days=7)) == 0
    clock.advance(timedelta(seconds=1))
    assert inbox.purge(timedelta(days=7)) == 1
    assert ids(inbox) == [waiting], "what waits is never forgotten"


def test_the_probe_of_the_inbox_leaves_nothing(inbox: Inbox) -> None:
    inbox.ping()
    assert inbox.state().pending == 0


def test_only_items_that_are_shown_and_not_newer_than_the_deletion_are_withheld(
    inbox: Inbox, fresh_database: FreshDatabase
) -> None:
    with psycopg.connect(fresh_database.ingest_dsn) as connection:
        for number, lifecycle, version in ((1, "live", "8"), (2, "live", "10"), (3, "hidden", "8"), (4, "live", "x")):
            connection.execute(
                "INSERT INTO items (uri, lifecycle, source, kind, scope, version, ingested_at) "
                "VALUES (%s, %s, 'work_items', 'work_item', 's', %s, now())",
                [item(number).uri, lifecycle, version],
            )
    told = [item(n, gone=True, version="9" if n < 4 else None) for n in (1, 2, 3, 4, 5)]
    inbox.receive("azure_devops", [arrival("s/1", *told, item(2))])
    withheld: list[str] = []
    assert inbox.withhold_gone(ADO, withheld.extend) == 2
    assert withheld == [item(1).uri, item(4).uri]
    inbox.done(ids(inbox))
    assert inbox.withhold_gone(ADO, withheld.extend) == 0


def test_what_the_record_knows_of_hinted_items(ingest_db: Database, fresh_database: FreshDatabase) -> None:
    with psycopg.connect(fresh_database.ingest_dsn) as connection:
        connection.execute(
            "INSERT INTO items (uri, lifecycle, source, kind, scope, version, ingested_at) "
            "VALUES ('ctx://a', 'live', 'work_items', 'work_item', 's', '3', now())"
        )
        connection.execute(
            "INSERT INTO failures (uri, source, reason, first_at, at, attempts) "
            "VALUES ('ctx://b', 's', 'r', now(), now(), 1)"
        )
    found = HintedItems(ingest_db).of(["ctx://a", "ctx://b", "ctx://c"])
    assert (found["ctx://a"].lifecycle, found["ctx://a"].version, found["ctx://a"].failing) == ("live", "3", False)
    assert (found["ctx://b"].lifecycle, found["ctx://b"].failing) == (None, True)
    assert (found["ctx://c"].lifecycle, found["ctx://c"].failing) == (None, False)


def test_outcomes_are_counted(ingest_db: Database, clock: FixedClock) -> None:
    counts = DeliveryCounts(ingest_db, clock)
    counts.add({})
    counts.add({("graph", "forged"): 3, ("graph", "accepted"): 1})
    clock.advance(timedelta(minutes=1))
    counts.add({("graph", "forged"): 2})
    assert [(c.outcome, c.n, c.last_at) for c in counts.all()] == [
        ("accepted", 1, NOW),
        ("forged", 5, NOW + timedelta(minutes=1)),
    ]


@pytest.mark.parametrize(
    "hint",
    [
        {},
        {"kind": "item"},
        {"kind": "elsewhere"},
        {"kind": "item", "reader": "work_items", "uri": 5},
        {"kind": "item", "reader": "work_items", "uri": "ctx://a", "gone": "perhaps"},
        {"kind": "reader", "reader": "code", "command": "x"},
        {"kind": "access", "connector": "teams"},
        {"kind": "reader", "reader": None},
    ],
)
def test_what_nobody_could_read_as_a_hint_can_not_be_put_in(
    fresh_database: FreshDatabase, hint: dict[str, Any]
) -> None:
    """It would stop the work on all other hints."""
    put = (
        "INSERT INTO inbox (source, key, connector, hint, received_at, due_at) VALUES ('s', 'k', %s, %s, now(), now())"
    )
    with psycopg.connect(fresh_database.ingest_dsn) as connection, pytest.raises(psycopg.errors.CheckViolation):
        connection.execute(put, [ADO, Jsonb({"connector": ADO, **hint})])
