"""Writers that meet: nothing is lost, and no deadlock reaches a caller."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Barrier

import pytest
from psycopg import Connection
from psycopg.rows import DictRow

from core.errors import StoreUnavailableError
from core.items import Contribution, PersonRef, Role
from core.principals import parse
from graph.db import Database
from graph.directory import DirectoryStore
from graph.edges import EdgeStore
from graph.records import ItemStore
from tests.graph.support import (
    IRIS,
    NOW,
    TEO,
    allow,
    asking,
    box,
    group,
    item,
    member,
    open_trim,
    scope,
    scope_store,
    store,
)
from tests.support.postgres import FreshDatabase

URIS = [f"ctx://ado/org/wikis/w/pages/{n}" for n in range(8)]


def together(*jobs: Callable[[], object]) -> list[object]:
    """Run jobs side by side; the first error is raised."""
    with ThreadPoolExecutor(len(jobs)) as pool:
        return [f.result(timeout=60) for f in [pool.submit(j) for j in jobs]]


def test_two_writers_of_the_same_edges_in_opposite_order_lose_none(ingest_db: Database) -> None:
    """C117"""
    items, edges = ItemStore(ingest_db), EdgeStore(ingest_db)
    pair = (
        Contribution(person=PersonRef("Teo", TEO), role=Role.WROTE, at=NOW, note=""),
        Contribution(person=PersonRef("Mina", parse("user:t/mina")), role=Role.WROTE, at=NOW, note=""),
    )
    store(items, *(item(u) for u in URIS[:2]))

    def write(order: list[str], given: tuple[Contribution, ...]) -> None:
        for _ in range(200):
            for uri in order:
                edges.replace(uri, given)

    together(lambda: write(URIS[:2], pair), lambda: write(URIS[1::-1], pair[::-1]))
    found = edges.of_items(open_trim(ingest_db, "open"), URIS[:2])
    assert sorted((e.uri, e.person) for e in found) == sorted((u, p.person.principal) for u in URIS[:2] for p in pair)


def test_batches_that_overlap_in_opposite_order_do_not_deadlock(ingest_db: Database) -> None:
    items = ItemStore(ingest_db)
    store(items, *(item(u) for u in URIS))

    def delete(order: list[str]) -> None:
        for _ in range(40):
            items.tombstone(order, at=NOW, reason="gone", stated=False)

    def bring_back(order: list[str]) -> None:
        for n in range(40):
            for uri in order:
                items.upsert(item(uri, f"scope-{n % 2}"), (), at=NOW)

    together(lambda: delete(URIS), lambda: delete(URIS[::-1]), lambda: bring_back(URIS), lambda: bring_back(URIS[::-1]))
    items.tombstone(URIS, at=NOW, reason="gone", stated=False)
    assert list(items.not_indexed()) == URIS


def test_permission_passes_of_two_sources_meet_without_loss(ingest_db: Database) -> None:
    directory, scopes = DirectoryStore(ingest_db), scope_store(ingest_db)

    def sync(source: str) -> None:
        for n in range(30):
            boxes = [box(f"{source}-{m}", IRIS, TEO) for m in range(n % 3 + 1)]
            directory.apply(source, [member("iris"), member("teo")], boxes, complete=True, at=NOW)
            scopes.apply(source, [scope(f"{source}-{m}", allow(IRIS)) for m in range(n % 3 + 1)], complete=True, at=NOW)
            scopes.touch(source, NOW)

    together(lambda: sync("graph"), lambda: sync("azure_devops"))
    expected = {group(f"{s}-{n}") for s in ("graph", "azure_devops") for n in range(3)}
    assert {p for p in directory.closure(IRIS) if p.startswith("group:")} == expected
    assert len(scopes.trim_for(asking(IRIS)).readable) == 6


def test_a_trim_is_made_from_one_moment(ingest_db: Database, query_db: Database) -> None:
    """Two scopes swap their readers in one transaction, again and again: nobody ever sees both, or neither."""
    writer, reader = scope_store(ingest_db), scope_store(query_db)
    done = []

    def swap() -> None:
        for n in range(60):
            who = (IRIS, TEO) if n % 2 else (TEO, IRIS)
            writer.apply("wikis", [scope("a", allow(who[0])), scope("b", allow(who[1]))], complete=True, at=NOW)
        done.append(True)

    def look() -> None:
        while not done:
            assert len(reader.trim_for(asking(IRIS)).readable) == 1

    writer.apply("wikis", [scope("a", allow(IRIS)), scope("b", allow(TEO))], complete=True, at=NOW)
    writer.touch("wikis", NOW)
    together(swap, look)


def _cross(db: Database, barrier: Barrier, first: str, second: str) -> int:
    tries = 0

    def work(connection: Connection[DictRow]) -> None:
        nonlocal tries
        tries += 1
        connection.execute("UPDATE items SET version = version WHERE uri = %s", [first])
        if tries == 1:
            barrier.wait(10)
        connection.execute("UPDATE items SET version = version WHERE uri = %s", [second])

    db.retrying(work)
    return tries


def test_the_victim_of_a_deadlock_is_tried_again(ingest_db: Database) -> None:
    store(ItemStore(ingest_db), *(item(u) for u in URIS[:2]))
    barrier = Barrier(2)
    tries = together(
        lambda: _cross(ingest_db, barrier, URIS[0], URIS[1]), lambda: _cross(ingest_db, barrier, URIS[1], URIS[0])
    )
    assert sorted(map(str, tries)) == ["1", "2"]


def test_what_is_no_deadlock_is_not_tried_again(ingest_db: Database) -> None:
    tries = []

    def work(connection: Connection[DictRow]) -> None:
        tries.append(1)
        connection.execute("SET statement_timeout = 1; SELECT pg_sleep(5)")

    with pytest.raises(StoreUnavailableError):
        ingest_db.retrying(work)
    assert tries == [1]


def test_a_process_that_is_suspended_in_a_transaction_keeps_its_locks_for_a_while_only(
    ingest_db: Database, fresh_database: FreshDatabase
) -> None:
    with closing(Database(fresh_database.ingest_dsn, longest_pause="100ms")) as suspended:

        def sleep() -> None:
            with suspended.connection() as connection:
                connection.execute("SELECT pg_advisory_xact_lock(7)")
                threading.Event().wait(0.4)
                connection.execute("SELECT 1")

        with pytest.raises(StoreUnavailableError, match="paused"):
            sleep()
        with ingest_db.connection() as connection:
            connection.execute("SET LOCAL lock_timeout = '1s'")
            connection.execute("SELECT pg_advisory_xact_lock(7)")
        suspended.ping()


def test_more_questions_than_connections_wait_for_their_turn(query_db: Database) -> None:
    held = threading.Event()

    def question() -> None:
        with query_db.reading(), query_db.connection() as connection:
            held.wait(0.8)
            connection.execute("SELECT 1")

    # Each in turn they take longer than anyone waits for a connection; short reads get theirs meanwhile.
    together(*[question] * 12, *[query_db.ping] * 4)
