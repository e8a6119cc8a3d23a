"""One run a period, one at a time, whatever schedulers and brokers do; and what becomes of runs that fail."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from core.errors import InputError, StoreUnavailableError
from graph.db import Database
from ingestion.schedule import Job, JobKind
from tests.schedule.support import CONTENT, HINTS, MEMBERSHIPS, PERMISSIONS, RECONCILIATION, Scheduled, scheduled

PAGES = {f"ctx://ado/o/wikis/w/pages/{n}": f"Page {n} of the handbook." for n in range(4)}


@pytest.fixture
def plan(ingest_db: Database) -> Iterator[Scheduled]:
    """A schedule over the scripted source: permissions and content each minute."""
    with scheduled(ingest_db, permission_interval=60, content_interval=60, lease=30) as made:
        made.source.items = dict(PAGES)
        made.source.per_batch = 1
        yield made


def contents(plan: Scheduled) -> list[str]:
    """How the runs of the reader ended, the first one first."""
    return [r.state for r in reversed(plan.side.runs.recent(100)) if r.reader == "wikis"]


def test_c115_two_schedulers_make_one_run_a_period(plan: Scheduled) -> None:
    second = plan.another("second")
    plan.runner.run(PERMISSIONS)
    states = []
    for _ in range(3):  # three periods; the second scheduler is some seconds behind the first
        states.append((plan.state(CONTENT), plan.state(CONTENT, second)))
        plan.after(4)
        states.append((plan.state(CONTENT, second), plan.state(CONTENT)))
        plan.after(56)
    assert states == [("done", "not_due"), ("not_due", "not_due")] * 3
    assert contents(plan) == ["complete"] * 3


def test_c115_a_scheduler_that_is_a_little_early_loses_no_period_and_wins_none(plan: Scheduled) -> None:
    plan.runner.run(PERMISSIONS)
    assert plan.state(CONTENT) == "done"
    plan.after(53)
    assert plan.state(CONTENT) == "not_due"
    plan.after(2)
    assert plan.state(CONTENT) == "done"
    plan.after(5)
    assert plan.state(CONTENT) == "not_due"


def test_c115_whoever_gets_the_lease_after_another_run_of_the_period_has_ended_runs_nothing(plan: Scheduled) -> None:
    """Two schedulers saw that the job is due before either had its lease: the second finds it done."""
    every, slack = timedelta(seconds=60), timedelta(seconds=6)
    assert plan.jobs.standing(PERMISSIONS.name, slack=slack).due
    first = plan.jobs.claim(PERMISSIONS.name, every=every, slack=slack)
    assert first is not None
    plan.jobs.succeed(first)
    assert plan.jobs.claim(PERMISSIONS.name, every=every, slack=slack) is None
    plan.after(60)
    assert plan.jobs.claim(PERMISSIONS.name, every=every, slack=slack) is not None


def test_c115_a_start_over_a_run_that_goes_on_is_skipped_and_counted_but_not_queued(plan: Scheduled) -> None:
    second = plan.another("second")
    plan.runner.run(PERMISSIONS)
    met: list[str] = []

    def slow() -> None:
        for _ in range(2):
            plan.after(20)
            plan.keep_leases()
        met.append(plan.state(CONTENT, second))
        plan.hints.due = {"wikis"}

    plan.hints.due, plan.hints.while_reading = {"wikis"}, slow
    assert plan.state(CONTENT) == "done"
    # At 40 s it is not due; at 80 and 120 it is, and at 160 the period that began at 120 has been passed over.
    assert met == ["not_due", "busy", "busy", "not_due"]
    assert plan.jobs.states()[CONTENT.name].skipped == {"overlap": 2}
    plan.hints.due.clear()
    assert plan.state(CONTENT) == "not_due", "what was skipped is not made up for"
    plan.after(15)
    assert plan.state(CONTENT) == "done"
    assert contents(plan) == ["complete"] * 2


def test_c115_a_clock_that_ran_ahead_and_was_put_right_stops_no_schedule(plan: Scheduled) -> None:
    plan.after(86_400)
    assert plan.state(PERMISSIONS) == "done"
    plan.after(-86_400)
    plan.keep_leases()
    assert plan.jobs.states()[PERMISSIONS.name].due_at <= plan.clock.now()
    assert plan.state(PERMISSIONS) == "done"
    assert plan.state(PERMISSIONS) == "not_due"
    assert plan.side.scopes.ages() == {"scripted": plan.clock.now()}


def test_c113_a_job_that_is_delivered_again_while_it_runs_is_not_run_twice(plan: Scheduled) -> None:
    plan.runner.run(PERMISSIONS)
    second, met = plan.another("second"), []

    def delivered_again() -> None:
        met.append(plan.state(CONTENT, second))
        plan.hints.due = {"wikis"}

    plan.hints.due, plan.hints.while_reading = {"wikis"}, delivered_again
    assert plan.state(CONTENT) == "done"
    assert met == ["not_due"] * 4
    assert contents(plan) == ["complete"]
    assert plan.side.embedder.texts == len(PAGES)


def test_a_dead_workers_job_is_taken_over_once_its_lease_lapsed_and_goes_on_where_it_was(plan: Scheduled) -> None:
    plan.runner.run(PERMISSIONS)
    second = plan.another("second")

    class Killed(BaseException):
        pass

    def die() -> None:
        raise Killed

    plan.hints.due, plan.hints.while_reading = {"wikis"}, die
    with pytest.raises(Killed):
        plan.runner.run(CONTENT)
    # A process that is killed releases nothing.
    held = [plan.leases.acquire(name, "dead", timedelta(seconds=30)) for name in ("scripted/wikis", "host:scripted#0")]
    assert all(held)
    plan.hints.while_reading = lambda: None
    plan.after(29)
    assert plan.state(CONTENT, second) == "not_due"
    plan.after(1)
    assert plan.state(CONTENT, second) == "done"
    assert plan.side.embedder.texts == len(PAGES), "what was read before is not read again"
    assert contents(plan) == ["running", "complete"]
    state = plan.jobs.states()[CONTENT.name]
    assert (state.failures, state.unfinished) == (0, False)


def test_a_job_that_lost_its_lease_stops_at_the_next_batch_and_writes_nothing_over_its_heir(plan: Scheduled) -> None:
    plan.runner.run(PERMISSIONS)
    second, heir = plan.another("second"), []

    def lose() -> None:
        plan.hints.while_reading = lambda: None
        plan.after(31)
        with ThreadPoolExecutor(1) as another:
            heir.append(another.submit(second.run, CONTENT).result())
        plan.hints.due = {"wikis"}

    plan.hints.due, plan.hints.while_reading = {"wikis"}, lose
    lost = plan.runner.run(CONTENT)
    assert [r.state for r in heir] == ["done"]
    assert lost.state == "failed"
    assert "no longer held" in (lost.reason or "")
    state = plan.jobs.states()[CONTENT.name]
    assert (state.failures, state.reason, state.runs) == (0, None, 2)
    assert set(plan.side.indexed()) == set(PAGES)


def test_a_job_that_kills_every_worker_is_told_of_and_no_longer_taken_up_at_once(plan: Scheduled) -> None:
    plan.runner.run(PERMISSIONS)

    class Killed(BaseException):
        pass

    def die() -> None:
        raise Killed

    plan.hints.while_reading = die
    for n in range(6):
        plan.hints.due = {"wikis"}
        with pytest.raises(Killed):
            plan.runner.run(CONTENT)
        if n >= 3:
            assert plan.state(CONTENT) == "not_due"
            plan.after(60)
    [letter] = plan.dead.all()
    assert (letter.name, letter.attempts) == (CONTENT.name, 5)
    assert "worker ended" in letter.reason
    plan.hints.while_reading = lambda: None
    assert plan.state(CONTENT) == "done"
    assert plan.dead.all() == [], "what succeeds is not given up any longer"


def test_a_crawl_waits_for_payloads_that_another_is_rewriting_and_counts_that_as_no_failure(plan: Scheduled) -> None:
    plan.runner.run(PERMISSIONS)
    rewriting = plan.leases.acquire("payloads", "another", timedelta(seconds=30))
    assert rewriting is not None
    waits = plan.runner.run(CONTENT)
    assert (waits.state, [r.state for r in waits.reports]) == ("busy", ["failed"])
    assert "have not reached the index" in (waits.reason or "")
    assert plan.jobs.states()[CONTENT.name].failures == 0
    rewriting.release()
    plan.after(15)
    assert plan.state(CONTENT) == "done"
    assert plan.side.embedder.texts == len(PAGES)


def test_a_source_that_fails_is_asked_less_and_less_often_and_never_given_up(plan: Scheduled) -> None:
    plan.runner.run(PERMISSIONS)
    plan.source.read_breaks = True
    began, waits = plan.clock.now(), []
    for _ in range(9):
        result = plan.runner.run(CONTENT)
        assert (result.state, result.reason) == ("failed", "the source broke off")
        due = plan.jobs.states()[CONTENT.name].due_at
        waits.append((due - plan.clock.now()).total_seconds())
        plan.clock.move_to(due)
        plan.runner.run(PERMISSIONS)
    assert waits == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]
    assert plan.dead.all() == []
    plan.source.read_breaks = False
    assert plan.state(CONTENT) == "done"
    assert plan.jobs.states()[CONTENT.name].due_at - plan.clock.now() == timedelta(seconds=60)
    assert began < plan.clock.now()


def test_permissions_that_fail_are_read_often_enough_for_the_promise(plan: Scheduled) -> None:
    plan.connector.access_fails = True
    for _ in range(6):
        assert plan.state(PERMISSIONS) == "failed"
        due = plan.jobs.states()[PERMISSIONS.name].due_at
        assert due - plan.clock.now() <= timedelta(seconds=plan.settings.revocation_sla / 4)
        plan.clock.move_to(due)


def test_what_should_never_happen_is_told_after_some_tries_without_what_it_choked_on(plan: Scheduled) -> None:
    class ChokedError(Exception):
        pass

    def choke() -> None:
        raise ChokedError("the salary of Iris")

    plan.runner.run(PERMISSIONS)
    plan.hints.while_reading = choke
    for n in range(5):
        assert plan.dead.all() == [], n
        plan.hints.due = {"wikis"}
        assert plan.state(CONTENT, force=True) == "failed"
    [letter] = plan.dead.all()
    assert letter.attempts == 5
    assert letter.reason.startswith("ChokedError in test_runner.py:")
    assert letter.body == {"job": CONTENT.name}


def test_content_is_not_read_before_permissions_were(plan: Scheduled) -> None:
    plan.connector.access_fails = True
    result = plan.runner.run(CONTENT)
    assert (result.state, result.reason) == ("busy", "it waits for permissions, which were not read yet")
    assert contents(plan) == []
    assert plan.jobs.states()[CONTENT.name].due_at - plan.clock.now() == timedelta(seconds=2)
    plan.connector.access_fails = False
    plan.after(60)
    assert plan.state(CONTENT) == "done", "nobody else has read them, so they are read first"
    assert plan.state(PERMISSIONS) == "not_due"


def test_a_long_crawl_keeps_permissions_fresh_where_nobody_else_does(plan: Scheduled) -> None:
    plan.runner.run(PERMISSIONS)
    plan.connector.accessed = 0

    def slow() -> None:
        plan.hints.due = {"wikis"}
        for _ in range(5):
            plan.after(20)
            plan.keep_leases()

    plan.hints.due, plan.hints.while_reading = {"wikis"}, slow
    assert plan.state(CONTENT) == "done"
    assert plan.connector.accessed == 2, "after 200 and 400 seconds: older than half of the promise"


def test_crawls_leave_a_slot_for_permissions(plan: Scheduled) -> None:
    plan.runner.run(PERMISSIONS)
    met: list[str] = []

    def meanwhile() -> None:
        plan.after(10)
        second = plan.another("second")
        met.extend(plan.state(job, second, force=True) for job in (PERMISSIONS, MEMBERSHIPS))
        taken = plan.leases.acquire("host:scripted#1", "a poll", timedelta(seconds=30))
        met.append(plan.state(PERMISSIONS, second, force=True))
        assert taken is not None
        taken.release()

    plan.hints.due, plan.hints.while_reading = {"wikis"}, meanwhile
    assert plan.state(CONTENT) == "done"
    assert met == ["done", "done", "no_slot"]


def test_with_one_slot_crawls_give_way_to_permissions_that_are_due(ingest_db: Database) -> None:
    with scheduled(ingest_db, source_concurrency=1, content_interval=30) as plan:
        plan.runner.run(PERMISSIONS)
        plan.runner.run(MEMBERSHIPS)
        assert plan.state(CONTENT) == "done"
        plan.after(60)
        assert plan.state(CONTENT) == "no_slot"
        assert [plan.state(PERMISSIONS), plan.state(MEMBERSHIPS), plan.state(CONTENT)] == ["done"] * 3
        assert plan.jobs.states()[CONTENT.name].skipped == {"no_slot": 1}


def test_hints_of_what_another_is_at_work_on_are_left_to_it(plan: Scheduled) -> None:
    plan.runner.run(PERMISSIONS)
    busy = plan.leases.acquire("scripted/wikis", "a crawl", timedelta(seconds=30))
    assert busy is not None
    plan.hints.due = {"access", "wikis", "subscriptions"}
    assert plan.state(HINTS) == "done"
    assert plan.hints.done == ["access", "subscriptions"]
    busy.release()
    plan.hints.done.clear()
    assert plan.state(CONTENT) == "done"
    assert plan.hints.done == ["wikis"], "a crawl does them between two batches"


def test_permissions_that_were_read_whole_do_what_hints_asked_for(plan: Scheduled) -> None:
    plan.hints.due = {"access"}
    plan.runner.run(PERMISSIONS)
    assert plan.hints.due == set()


def test_a_crawl_ends_in_good_time_before_it_would_be_killed_and_goes_on(ingest_db: Database) -> None:
    with scheduled(ingest_db, job_time_limit=100, content_interval=600, revocation_sla=3600) as plan:
        plan.source.items, plan.source.per_batch = dict(PAGES), 1
        plan.runner.run(PERMISSIONS)

        def slow() -> None:
            plan.hints.due = {"wikis"}
            plan.after(45)
            plan.keep_leases()

        plan.hints.due, plan.hints.while_reading = {"wikis"}, slow
        assert plan.state(CONTENT) == "done"
        assert 0 < len(plan.side.indexed()) < len(PAGES)
        assert plan.state(CONTENT) == "done", "it is due again at once"
        assert len(plan.side.indexed()) == len(PAGES)


def test_a_crawl_ends_at_the_next_batch_where_the_process_is_asked_to(plan: Scheduled) -> None:
    plan.runner.run(PERMISSIONS)

    def stop() -> None:
        plan.stopping = True

    plan.hints.due, plan.hints.while_reading = {"wikis"}, stop
    assert plan.state(CONTENT) == "done"
    assert len(plan.side.indexed()) == 2


def test_a_store_that_is_down_is_a_failed_run_and_no_dead_letter(
    plan: Scheduled, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(*_: object) -> None:
        raise StoreUnavailableError("qdrant", "it does not answer")

    plan.runner.run(PERMISSIONS)
    monkeypatch.setattr(plan.side.index.writer, "replace_item", down)
    for _ in range(6):
        assert plan.state(CONTENT, force=True) == "failed"
    assert plan.dead.all() == []
    monkeypatch.undo()
    assert plan.state(CONTENT, force=True) == "done"
    assert set(plan.side.indexed()) == set(PAGES)


def test_reconciliation_runs_by_itself_and_never_beside_a_crawl(plan: Scheduled) -> None:
    plan.runner.run(PERMISSIONS)
    early = plan.runner.run(RECONCILIATION)
    assert (early.state, early.reason) == ("busy", "it waits for the first reading to come to its end")
    assert plan.source.listed == 0
    plan.after(30)
    met = []

    def meanwhile() -> None:
        met.append(plan.state(RECONCILIATION, plan.another("second")))

    plan.hints.due, plan.hints.while_reading = {"wikis"}, meanwhile
    plan.runner.run(CONTENT)
    assert met == ["busy"]
    assert plan.state(RECONCILIATION) == "done"
    assert plan.state(RECONCILIATION) == "not_due"


def test_a_job_that_is_not_planned_is_refused(plan: Scheduled) -> None:
    with pytest.raises(InputError, match="no such job"):
        plan.runner.run(Job("elsewhere", JobKind.PERMISSIONS))
