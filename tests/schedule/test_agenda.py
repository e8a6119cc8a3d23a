"""The schedule of one thread, under a clock that is turned by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

import pytest

from graph.db import Database
from ingestion.schedule import Job
from tests.schedule.support import CONTENT, HINTS, MEMBERSHIPS, PAYLOADS, PERMISSIONS, Scheduled, scheduled

PAGE = "ctx://ado/o/wikis/w/pages/1"


@pytest.fixture
def plan(ingest_db: Database) -> Iterator[Scheduled]:
    """A schedule over the scripted source with one page."""
    with scheduled(ingest_db) as made:
        made.source.items = {PAGE: "The first page."}
        yield made


def test_everything_is_due_at_first_and_access_comes_before_content(plan: Scheduled) -> None:
    agenda = plan.agenda()
    assert agenda.next_due() <= plan.clock.now()
    results = agenda.run_due(plan.clock.now())
    assert {r.state for r in results} == {"done"}
    assert [r.job for r in results] == [p.job for p in plan.runner.plan]
    assert plan.side.life(PAGE) == "live"
    assert plan.side.scopes.pending() == [], "payloads follow in the same round"


def test_each_job_keeps_its_own_time(plan: Scheduled) -> None:
    agenda = plan.agenda()
    start = plan.clock.now()
    ran: Counter[Job] = Counter()
    while agenda.next_due() <= start + timedelta(minutes=2):
        plan.clock.move_to(max(agenda.next_due(), plan.clock.now()))
        for result in agenda.run_due(plan.clock.now()):
            assert result.state == "done", result
            ran[result.job] += 1
    assert (ran[PERMISSIONS], ran[MEMBERSHIPS], ran[CONTENT]) == (3, 3, 1)
    assert (ran[HINTS], ran[PAYLOADS]) == (25, 13)


def test_what_is_busy_is_tried_again_shortly_and_not_all_the_time(plan: Scheduled) -> None:
    agenda = plan.agenda()
    agenda.run_due(plan.clock.now())
    plan.after(60)
    other = plan.leases.acquire("scripted/access", "another", timedelta(minutes=5))
    assert other is not None
    states = {r.job: r.state for r in agenda.run_due(plan.clock.now())}
    assert (states[PERMISSIONS], states[MEMBERSHIPS]) == ("busy", "busy")
    assert agenda.next_due() == plan.clock.now() + timedelta(seconds=1)
    other.release()
    plan.after(1)
    assert {r.job: r.state for r in agenda.run_due(plan.clock.now())} == {PERMISSIONS: "done", MEMBERSHIPS: "done"}


def test_a_crawl_that_always_has_more_does_not_keep_others_from_their_turn(plan: Scheduled) -> None:
    agenda = plan.agenda()
    agenda.run_due(plan.clock.now())
    plan.after(300)
    claim = plan.jobs.claim(CONTENT.name, every=timedelta(minutes=5), slack=timedelta(0))
    assert claim is not None
    plan.jobs.succeed(claim, again=True)
    ran = []
    while (result := agenda.run_next()) is not None:
        ran.append(result.job)
    assert ran[-1] == CONTENT
    assert set(ran[:-1]) == {PERMISSIONS, MEMBERSHIPS, HINTS, PAYLOADS}
