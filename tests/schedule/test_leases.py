"""Leases: one holder at a time, and none for ever."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from context_engine.alone import alone
from core.clock import FixedClock
from core.errors import LeaseLostError, StoreUnavailableError
from graph.db import Database
from graph.leases import LeaseStore, kept
from tests.graph.support import NOW

MINUTE = timedelta(minutes=1)


def test_a_lease_has_one_holder_until_it_is_released(ingest_db: Database) -> None:
    store = LeaseStore(ingest_db)
    lease = store.acquire("teams/access", "one", MINUTE)
    assert lease is not None
    assert store.acquire("teams/access", "two", MINUTE) is None
    assert store.acquire("teams/access", "one", MINUTE) is None, "a holder's name is no key"
    assert store.holder("teams/access") == "one"
    lease.release()
    assert store.holder("teams/access") is None
    again = store.acquire("teams/access", "two", MINUTE)
    assert again is not None
    assert again.token > lease.token
    lease.release()
    assert store.holder("teams/access") == "two", "who lost it can't release it for another"


def test_of_many_who_ask_at_once_one_gets_it(ingest_db: Database) -> None:
    store = LeaseStore(ingest_db)
    start = threading.Barrier(4)

    def ask(n: int) -> bool:
        start.wait()
        return store.acquire("x", str(n), MINUTE) is not None

    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            assert sum(pool.map(ask, range(4))) == 1
            assert store.forget(str(store.holder("x"))) == 1


def test_what_a_dead_holder_had_is_taken_over_when_its_time_is_over(ingest_db: Database) -> None:
    clock = FixedClock(NOW)
    store = LeaseStore(ingest_db, clock)
    dead = store.acquire("x", "dead", MINUTE)
    assert dead is not None
    clock.advance(timedelta(seconds=59))
    assert store.acquire("x", "heir", MINUTE) is None
    clock.advance(timedelta(seconds=1))
    with pytest.raises(LeaseLostError):
        dead.check()
    assert store.acquire("x", "heir", MINUTE) is not None
    for deed in (dead.renew, dead.check):
        with pytest.raises(LeaseLostError):
            deed()
    dead.release()
    assert store.holder("x") == "heir"


def test_a_lease_that_is_renewed_is_held_on(ingest_db: Database) -> None:
    clock = FixedClock(NOW)
    store = LeaseStore(ingest_db, clock)
    lease = store.acquire("x", "one", MINUTE)
    assert lease is not None
    for _ in range(3):
        clock.advance(timedelta(seconds=40))
        lease.renew()
        lease.check()
        assert store.acquire("x", "two", MINUTE) is None


def test_leases_are_renewed_while_a_block_runs_and_released_after_it(ingest_db: Database) -> None:
    store = LeaseStore(ingest_db)
    ttl = timedelta(milliseconds=150)
    lease = store.acquire("x", "one", ttl)
    assert lease is not None
    waited = threading.Event()
    with kept(lease):
        for _ in range(6):
            waited.wait(0.05)
            assert store.acquire("x", "two", ttl) is None
        lease.check()
    assert store.acquire("x", "two", ttl) is not None


def test_a_holder_learns_that_its_lease_was_taken_over(ingest_db: Database) -> None:
    store = LeaseStore(ingest_db)
    lease = store.acquire("x", "one", timedelta(milliseconds=90))
    assert lease is not None
    with kept(lease):
        assert store.forget("one") == 1
        assert store.acquire("x", "two", MINUTE) is not None
        threading.Event().wait(0.1)
        with pytest.raises(LeaseLostError):
            lease.check()
    assert store.holder("x") == "two"


def test_work_by_hand_waits_for_what_others_are_at_work_on_and_then_keeps_them_out(ingest_db: Database) -> None:
    store = LeaseStore(ingest_db)
    worker = store.acquire("teams/teams", "worker 7", MINUTE)
    assert worker is not None
    names = ["teams/teams", "teams/access"]
    with (
        pytest.raises(StoreUnavailableError, match="teams/teams is still being read by worker 7"),
        alone(ingest_db, names, "sync", MINUTE, patience=0, mend="Wait"),
    ):
        pytest.fail("it wrote beside a worker")
    assert store.holder("teams/access") is None
    worker.release()
    with alone(ingest_db, names, "sync", MINUTE, patience=0, mend="Wait"):
        assert {name: store.holder(name) for name in names} == dict.fromkeys(names, "sync")
    assert store.holder("teams/access") is None
