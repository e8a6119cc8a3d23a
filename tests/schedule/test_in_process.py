"""The schedule of one process: nothing waits behind a crawl, nudges are obeyed at once, and it stops in good order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from context_engine.schedule import Schedule
from core.clock import SystemClock
from graph.db import Database
from graph.jobs import JobStore
from graph.leases import LeaseStore
from tests.schedule.support import CONTENT, HINTS, PERMISSIONS, Scheduled, scheduled

PAGES = {f"ctx://ado/o/wikis/w/pages/{n}": f"Page {n} of the handbook." for n in range(3)}


@pytest.fixture
def plan(ingest_db: Database) -> Iterator[Scheduled]:
    """The scripted source by the machine's clock."""
    with scheduled(ingest_db) as made:
        clock: Any = SystemClock()
        made.clock = clock
        made.leases, made.jobs = LeaseStore(ingest_db, clock), JobStore(ingest_db, clock)
        made.source.items, made.source.per_batch = dict(PAGES), 1
        yield made


def open_schedule(plan: Scheduled, stop: threading.Event) -> Schedule:
    return Schedule(plan.another("this process"), plan.jobs, plan.clock, stop)


def until(found: Callable[[], object]) -> None:
    """Wait until something is the case."""
    waited = threading.Event()
    for _ in range(500):
        if found():
            return
        waited.wait(0.01)
    raise AssertionError("it did not come about")


def ran(plan: Scheduled) -> set[str]:
    return {name for name, state in plan.jobs.states().items() if state.succeeded_at is not None}


def test_everything_runs_once_at_the_start_and_access_while_a_crawl_goes_on(plan: Scheduled) -> None:
    go_on = threading.Event()
    plan.hints.due, plan.hints.while_reading = {"wikis"}, lambda: go_on.wait(10)
    stop = threading.Event()
    with open_schedule(plan, stop) as schedule:
        until(lambda: PERMISSIONS.name in ran(plan))
        plan.jobs.bring_forward([PERMISSIONS.name])
        before = plan.connector.accessed
        schedule.nudge_all()
        until(lambda: plan.connector.accessed > before)
        assert CONTENT.name not in ran(plan), "the crawl still goes on"
        go_on.set()
        until(lambda: CONTENT.name in ran(plan))
        until(lambda: set(plan.side.indexed()) == set(PAGES))


def test_a_nudge_is_obeyed_at_once(plan: Scheduled) -> None:
    stop = threading.Event()
    with open_schedule(plan, stop) as schedule:
        until(lambda: {HINTS.name, CONTENT.name} <= ran(plan))
        for _ in range(3):
            plan.hints.due = {"access"}
            schedule.nudge("scripted")
            until(lambda: not plan.hints.due)


def test_a_crawl_is_ended_at_its_next_batch_when_the_process_stops(plan: Scheduled) -> None:
    stop, reading = threading.Event(), threading.Event()

    def read() -> None:
        reading.set()
        stop.wait(10)

    plan.hints.due, plan.hints.while_reading = {"wikis"}, read
    schedule = open_schedule(plan, stop)
    with schedule:
        assert reading.wait(10)
        plan.stopping = True
    assert not any(thread.is_alive() for thread in schedule._threads)
    assert len(plan.side.indexed()) < len(PAGES)


def test_a_record_that_is_down_stops_nothing_for_good(plan: Scheduled, caplog: pytest.LogCaptureFixture) -> None:
    plan.side.database.ping()
    plan.side.database.close()
    stop = threading.Event()
    with open_schedule(plan, stop) as schedule:
        until(lambda: "the schedule waits" in caplog.text)
        assert all(thread.is_alive() for thread in schedule._threads)
