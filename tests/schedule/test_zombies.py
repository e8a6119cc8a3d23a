"""A worker that was suspended and wakes after its lease was taken over: what it read before is worth nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from core.access import ScopeId
from core.directory import Container
from graph.db import Database
from ingestion.connector import AccessSnapshot
from ingestion.schedule import JobRunner
from tests.graph.support import IRIS, allow, box, group, scope
from tests.schedule.support import CONTENT, MEMBERSHIPS, PERMISSIONS, RECONCILIATION, Scheduled, scheduled

PAGE = "ctx://ado/o/wikis/w/pages/1"
OPEN = ScopeId("open")


@pytest.fixture
def plan(ingest_db: Database) -> Iterator[Scheduled]:
    """One page, read once by a first worker, and due again."""
    with scheduled(ingest_db, permission_interval=60, content_interval=60, lease=30) as made:
        made.source.items = {PAGE: "Page one of the handbook."}
        assert made.state(PERMISSIONS) == "done"
        assert made.state(CONTENT) == "done"
        made.after(60)
        yield made


def asleep(plan: Scheduled, meanwhile: Callable[[JobRunner], object]) -> Callable[[], None]:
    """What happens to a process between what it reads and what it writes: it sleeps for longer than its lease."""
    heirs = [plan.another("heir")]

    def sleep() -> None:
        if heirs:
            plan.after(31)
            with ThreadPoolExecutor(1) as another:
                another.submit(meanwhile, heirs.pop()).result()

    return sleep


def readers_of(plan: Scheduled, scope_id: ScopeId) -> tuple[str, ...]:
    found = plan.side.scopes.access_of(scope_id)
    assert found is not None
    return found.allowed


def test_rules_that_were_read_before_a_revocation_do_not_undo_it(
    plan: Scheduled, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [allow(IRIS)]

    def access() -> AccessSnapshot:
        read = AccessSnapshot(source="scripted", scopes=(scope("open", now[0]),))
        sleep()
        return read

    def meanwhile(heir: JobRunner) -> None:
        now[0] = allow()
        assert heir.run(PERMISSIONS).state == "done"
        assert readers_of(plan, OPEN) == ()

    sleep = asleep(plan, meanwhile)
    monkeypatch.setattr(plan.connector, "access", access)
    result = plan.runner.run(PERMISSIONS)
    assert readers_of(plan, OPEN) == ()
    assert (result.state, "no longer held" in (result.reason or "")) == ("failed", True)


def test_members_that_were_read_before_one_was_removed_do_not_bring_them_back(
    plan: Scheduled, monkeypatch: pytest.MonkeyPatch
) -> None:
    now: list[Container] = [box("team", IRIS)]

    def memberships() -> AccessSnapshot:
        read = AccessSnapshot(source="scripted", containers=tuple(now), memberships_only=True)
        sleep()
        return read

    def meanwhile(heir: JobRunner) -> None:
        now[0] = box("team")
        assert heir.run(MEMBERSHIPS).state == "done"

    sleep = asleep(plan, meanwhile)
    monkeypatch.setattr(plan.connector, "memberships", memberships)
    assert plan.state(MEMBERSHIPS) == "failed"
    with plan.side.database.connection() as connection:
        found = connection.execute("SELECT member FROM memberships WHERE container = %s", [group("team")]).fetchall()
    assert found == []


def test_an_item_that_was_read_before_it_was_deleted_does_not_come_back(
    plan: Scheduled, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile(heir: JobRunner) -> None:
        plan.source.items = {}
        for _ in range(2):  # missed twice
            assert heir.run(PERMISSIONS).state == "done"
            assert heir.run(RECONCILIATION, force=True).state == "done"
            plan.after(60)
        assert plan.side.life(PAGE) == "deleted"

    plan.source.items = {PAGE: "Page one of the handbook, changed."}
    sleep = asleep(plan, meanwhile)
    read = plan.source.read

    def late(checkpoint: Any) -> Any:
        for batch in read(checkpoint):
            sleep()
            yield batch

    monkeypatch.setattr(plan.source, "read", late)
    result = plan.runner.run(CONTENT)
    assert plan.side.life(PAGE) == "deleted"
    assert "no longer held" in (result.reason or "")
    assert plan.side.indexed() == {}
    assert [f.uri for f in plan.side.runs.failures("wikis")] == [], "it is no fault of the item"
