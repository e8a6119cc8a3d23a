"""What becomes of hints, on real stores and connectors: the source alone says how things stand, in whatever order and
however often it was told."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from core import uris
from core.clock import Clock, FixedClock
from core.hints import Hint, HintKind
from fixtures.sandbox.event_models import Event
from fixtures.sandbox.hooks.delivery import Delivery
from fixtures.sandbox.server import SandboxServer
from fixtures.sandbox.state_additions import destroy_work_item
from fixtures.sandbox.state_events import apply_event
from graph.inbox import ATTEMPTS, Arrival, wait
from ingestion.azure_devops.connector import AzureDevOpsConnector
from tests.support.ingest_side import ingest_side, whole_read
from tests.support.postgres import PostgresServer
from tests.support.random_events import change
from tests.support.small_organization import small_organization
from tests.support.state_dump import differences
from tests.webhooks.hooked_side import START, HookedSide

PAST_EVERY_LOOK = timedelta(seconds=70)


class Turned:
    """The clock of whichever side runs now."""

    def __init__(self) -> None:
        self.clock: Clock = FixedClock(START)

    def now(self) -> Any:
        return self.clock.now()


@pytest.fixture(scope="module")
def turned() -> Turned:
    return Turned()


@pytest.fixture(scope="module")
def sandbox(sandbox_home: Path, turned: Turned) -> Iterator[SandboxServer]:
    with SandboxServer(small_organization(teams=True), sandbox_home, remember=False, hooks_clock=turned) as server:
        yield server


@pytest.fixture(scope="module")
def side(sandbox: SandboxServer, postgres: PostgresServer, turned: Turned) -> Iterator[HookedSide]:
    """One for all tests, each of which works on things of its own."""
    with ingest_side(sandbox, postgres, HookedSide) as made:
        turned.clock = made.clock
        made.subscribe()
        assert made.settle() == []
        yield made


@pytest.fixture(autouse=True)
def quiet(side: HookedSide) -> Iterator[None]:
    """Nothing of one test waits in the next."""
    yield
    side.sandbox.faults.rules.clear()
    side.sandbox.hooks.take()
    with side.database.connection() as connection:
        connection.execute("UPDATE inbox SET state = 'done'")


def happen(side: HookedSide, **what: Any) -> list[Delivery]:
    """Let something happen in the world; what is told of it."""
    state = side.sandbox.state
    with state.lock:
        past = int((state.now - state.first.now).total_seconds() // 60)
        data = {"id": f"h{len(state.journal)}", "after": f"{past + 1}m", **what}
        apply_event(state, Event.model_validate(data))
    return side.sandbox.hooks.take()


def work_item(side: HookedSide, number: int) -> str:
    assert isinstance(side.devops, AzureDevOpsConnector)
    return uris.work_item(side.devops._org.name, number)


def revision(side: HookedSide, uri: str) -> int:
    return int(side.record(uri).version or 0)


def thread(side: HookedSide, team: str, channel: str, key: str) -> str:
    state = side.sandbox.state
    root = state.message(team, channel, key).id
    return uris.thread(state.tenant_id, state.channel_id(team, channel), root)


def test_a_deletion_is_obeyed_although_the_source_shows_it_late_and_the_worker_is_killed(side: HookedSide) -> None:
    """C034: acknowledged, then the poll looked too early."""
    uri = work_item(side, 1)
    told = revision(side, uri) + 1
    side.say("workitem.deleted", {"id": 1, "rev": told})
    side.close()  # between the acknowledgement and anything that is made of it
    side.open()
    assert not side.work()
    assert side.record(uri).lifecycle == "hidden"
    assert side.pending() == 1
    # A poll that looks before every server of the source knows it: what it brings back is hidden again.
    side.synchronizer.read_items(side.devops, side.devops.readers()[0], [uri])
    assert side.record(uri).lifecycle == "live"
    assert not side.hints.waiting(side.devops)
    assert side.hints.withhold_gone(side.devops) == 1
    assert side.record(uri).lifecycle == "hidden"
    # Then the source shows it.
    happen(side, delete={"item": "work_item:1"})
    side.clock.advance(wait(1))
    assert side.work()
    assert side.record(uri).lifecycle == "deleted"
    assert side.pending() == 0


def test_a_deletion_that_the_source_contradicts_for_hours_was_none(side: HookedSide) -> None:
    uri = work_item(side, 5)
    side.say("workitem.deleted", {"id": 5, "rev": revision(side, uri)})
    for attempt in range(1, ATTEMPTS):
        assert not side.work()
        assert side.record(uri).lifecycle == "hidden", attempt
        side.clock.advance(wait(attempt))
    assert side.work()
    assert side.record(uri).lifecycle == "live"
    assert side.pending() == 0


def test_a_deletion_without_a_version_is_contradicted_for_about_a_minute(side: HookedSide) -> None:
    uri = work_item(side, 5)
    side.say("workitem.deleted", {"id": 5})
    until = side.clock.now() + PAST_EVERY_LOOK
    assert not side.work()
    while not side.work() or side.pending():
        assert side.record(uri).lifecycle == "hidden"
        side.clock.advance(timedelta(seconds=5))
    assert side.clock.now() <= until
    assert side.record(uri).lifecycle == "live"


def test_a_newer_state_than_the_deletion_is_live_again_at_once(side: HookedSide) -> None:
    uri = work_item(side, 12)
    deliveries = happen(side, delete={"item": "work_item:12"})
    deliveries += happen(side, restore={"item": "work_item:12"})
    side.tell(*deliveries)
    assert side.work()
    assert side.record(uri).lifecycle == "live"
    # Told once more, and late: known by its key.
    side.tell(deliveries[0])
    assert side.work()
    assert (side.record(uri).lifecycle, side.pending()) == ("live", 0)


@pytest.mark.parametrize("order", [(0, 1), (1, 0), (1, 1, 1), (0, 1, 0)])
def test_late_old_events_overwrite_nothing(side: HookedSide, order: tuple[int, ...]) -> None:
    """C035: the last state wins, with its area, in every order and however often it is told."""
    uri = work_item(side, 11)
    old = happen(side, edit={"item": "work_item:11", "by": "ann", "fields": {"title": "old title"}})
    new = happen(side, edit={"item": "work_item:11", "by": "ann", "fields": {"title": f"new title {order}"}})
    new += happen(side, move={"item": "work_item:11", "to": "area:Q/Lab" if len(order) % 2 else "area:Q"})
    newest = max(r.rev for r in side.sandbox.state.revisions(11))
    for n in order:
        side.tell(*(old, new)[n])
        assert side.work()
        assert side.record(uri).version == str(newest)
    with side.database.connection() as connection:
        row = connection.execute("SELECT title, scope FROM items WHERE uri = %s", [uri]).fetchone()
    fresh = {i.uri: i for i in _read(side, uri)}[uri]
    assert row is not None
    assert (row["title"], row["scope"]) == (f"new title {order}", fresh.scope)


def _read(side: HookedSide, uri: str) -> list[Any]:
    return [c.item for c in side.devops.readers()[0].fetch([uri]) if hasattr(c, "item")]


def test_deleted_and_then_told_of_an_older_update_stays_deleted(side: HookedSide) -> None:
    """C035"""
    uri = work_item(side, 3)
    update = happen(side, edit={"item": "work_item:3", "by": "ann", "fields": {"title": "x"}})
    gone = happen(side, delete={"item": "work_item:3"})
    for deliveries in (gone, update, update):
        side.tell(*deliveries)
        assert side.work()
        assert side.record(uri).lifecycle == "deleted"


def test_a_version_that_the_source_does_not_show_yet_is_waited_for(side: HookedSide) -> None:
    uri = work_item(side, 5)
    before = revision(side, uri)
    side.say("workitem.updated", {"workItemId": 5, "rev": before + 1})
    assert not side.work()
    assert side.pending() == 1
    happen(side, edit={"item": "work_item:5", "by": "ann", "fields": {"title": "later"}})
    side.clock.advance(wait(1))
    assert side.work()
    assert (revision(side, uri), side.pending()) == (before + 1, 0)


def test_hundreds_of_hints_for_one_item_are_one_read(side: HookedSide) -> None:
    uri, runs = work_item(side, 5), side.runs("work_items/hints")
    hint = Hint(connector="azure_devops", kind=HintKind.ITEM, reader="work_items", uri=uri)
    side.inbox.receive("azure_devops", [Arrival(key=f"many/{n}", hints=(hint,)) for n in range(500)])
    before = side.devops.asked()["requests"]
    assert side.work()
    assert side.runs("work_items/hints") == runs + 1
    assert side.devops.asked()["requests"] - before < 30
    assert side.pending() == 0


def test_a_source_that_is_down_is_asked_again_at_growing_intervals(side: HookedSide) -> None:
    happen(side, edit={"item": "work_item:5", "by": "ann", "fields": {"title": "while it was down"}})
    side.say("workitem.updated", {"workItemId": 5, "rev": revision(side, work_item(side, 5)) + 1})
    side.sandbox.faults.fail(".*/ado/.*", status=503, times=None)
    for attempt in (1, 2, 3):
        assert not side.work()
        assert side.pending() == 1
        side.clock.advance(wait(attempt) - timedelta(seconds=1))
        assert side.hints.waiting(side.devops) == set()
        side.clock.advance(timedelta(seconds=1))
    side.sandbox.faults.rules.clear()
    assert side.work()
    assert side.pending() == 0


def test_what_we_never_had_and_may_not_read_is_forgotten_after_some_tries(side: HookedSide) -> None:
    """Hooks tell of more than the connector may read: that is no failure of a sync, and nothing to be told for ever."""
    uri = work_item(side, 999_999)
    side.say("workitem.created", {"id": 999_999, "rev": 1})
    assert not side.work(), "it may only not be shown yet"
    for attempt in (1, 2, 3):
        side.clock.advance(wait(attempt))
        side.work()
    side.say("workitem.deleted", {"id": 999_999, "rev": 2})
    assert side.work()
    assert (side.pending(), side.record(uri).lifecycle, side.record(uri).failing) == (0, None, False)


def test_what_was_deleted_and_is_then_destroyed_is_no_failure_that_is_told_for_ever(side: HookedSide) -> None:
    uri = work_item(side, 4)
    side.tell(*happen(side, delete={"item": "work_item:4"}))
    assert side.work()
    assert side.record(uri).lifecycle == "deleted"
    destroy_work_item(side.sandbox.state, 4)
    side.say("workitem.restored", {"id": 4})
    for attempt in range(1, 5):
        side.work()
        side.clock.advance(wait(attempt))
    assert (side.pending(), side.record(uri).lifecycle, side.record(uri).failing) == (0, "deleted", False)


def test_a_member_who_is_removed_is_obeyed_without_reading_everything(side: HookedSide) -> None:
    side.tell(*happen(side, remove_member={"channel": "Core/Board", "who": "dan"}))
    state = side.sandbox.state
    runs = side.runs("access")
    assert side.work()
    assert side.runs("access") == runs
    roster = f"channel:{state.channel_id('Core', 'Board')}"
    with side.database.connection() as connection:
        rows = connection.execute("SELECT member FROM memberships WHERE container = %s", [roster]).fetchall()
    assert [r["member"] for r in rows] == [f"user:{state.tenant_id}/{state.oid('ann')}"]


def test_permissions_that_can_not_be_read_are_asked_for_again(side: HookedSide) -> None:
    place = uris.channel(side.sandbox.state.tenant_id, side.sandbox.state.channel_id("Core", "Board"))
    hint = Hint(connector="teams", kind=HintKind.ACCESS, place=place)
    side.inbox.receive("graph", [Arrival(key="board", hints=(hint,))])
    side.sandbox.faults.fail(".*/allMembers.*", status=503, times=None)
    assert not side.work()
    assert side.pending(HintKind.ACCESS) == 1
    side.sandbox.faults.rules.clear()
    side.clock.advance(wait(1))
    assert side.work()
    assert side.pending(HintKind.ACCESS) == 0


def test_a_whole_reading_of_permissions_does_what_hints_asked_for_before(side: HookedSide) -> None:
    hint = Hint(connector="teams", kind=HintKind.ACCESS)
    side.inbox.receive("graph", [Arrival(key="early", hints=(hint,))])
    side.clock.advance(timedelta(seconds=30))
    began = side.clock.now()
    side.inbox.receive("graph", [Arrival(key="late", hints=(hint,))])
    assert side.hints.covered_by_access(side.connectors[0], began) == 1
    assert side.pending(HintKind.ACCESS) == 1
    reader = side.devops.readers()[0]
    run = Hint(connector="azure_devops", kind=HintKind.READER, reader=reader.name)
    side.inbox.receive("azure_devops", [Arrival(key="run", hints=(run,))])
    assert side.hints.covered_by_reader(side.devops, reader, side.clock.now() + timedelta(minutes=1)) == 1


def test_while_a_crawl_holds_the_reader_only_items_are_read(side: HookedSide) -> None:
    reader = side.devops.readers()[0]
    item = Hint(connector="azure_devops", kind=HintKind.ITEM, reader=reader.name, uri=work_item(side, 5))
    run = Hint(connector="azure_devops", kind=HintKind.READER, reader=reader.name)
    side.inbox.receive("azure_devops", [Arrival(key="crawling", hints=(item, run))])
    runs = side.runs(reader.name)
    assert side.hints.items(side.devops, reader, only_items=True)
    assert (side.pending(), side.pending(HintKind.READER), side.runs(reader.name)) == (0, 1, runs)
    assert side.work()
    assert (side.pending(HintKind.READER), side.runs(reader.name)) == (0, runs + 1)


def test_messages_are_obeyed_by_notifications_alone(side: HookedSide) -> None:
    said = {"key": "n1", "by": "ann", "at": side.sandbox.state.now.isoformat(), "body": "Which limit holds?"}
    side.tell(*happen(side, post={"channel": "channel:Core/General", "message": said}))
    assert side.work()
    uri = thread(side, "Core", "General", "n1")
    asked = side.record(uri)
    assert asked.lifecycle == "live"
    answer = said | {"key": "n2", "by": "ben", "body": "The second one."}
    side.tell(*happen(side, post={"channel": "message:Core/General/n1", "message": answer}))
    assert side.work()
    answered = side.record(uri)
    assert (answered.lifecycle, answered.version != asked.version) == ("live", True)
    side.tell(*happen(side, delete={"item": "message:Core/General/n2"}))
    assert side.work()
    assert side.record(uri).lifecycle == "live", "a reply that is deleted is read as the thread without it"
    gone = happen(side, delete={"item": "message:Core/General/n1"})
    side.tell(*gone)
    assert side.work()
    assert side.record(uri).lifecycle == "deleted"
    side.clock.advance(timedelta(seconds=1))
    side.tell(*happen(side, restore={"item": "message:Core/General/n1"}))
    assert side.work()
    assert side.record(uri).lifecycle == "live"
    # A copy of the deletion comes late: it can't be told from another one, so it is looked at for a minute.
    side.tell(*gone)
    assert not side.work()
    assert side.record(uri).lifecycle == "hidden"
    for _ in range(14):
        side.clock.advance(timedelta(seconds=5))
        side.work()
    assert (side.record(uri).lifecycle, side.pending()) == ("live", 0)


# What makes Azure DevOps or Graph send something; of the rest (ACLs, areas, licences, project wikis) nobody is told.
TOLD = (
    ("new item", "edit item", "move item", "delete item", "restore item", "comment"),
    ("push", "edit file", "delete file", "move file"),
    ("new pull", "discuss", "vote", "complete"),
    ("post", "edit message", "delete message", "restore message"),
    ("member in teams",),
    ("rename in teams", "label in teams"),
    ("disable person",),
)


def test_by_deliveries_alone_the_stores_come_to_what_a_fresh_engine_makes_of_the_sources(
    side: HookedSide, postgres: PostgresServer
) -> None:
    numbers = itertools.count(7000)
    done = []
    for kinds in TOLD:
        for _ in range(3):
            done.append(change(side.sandbox.state, next(numbers), kinds))
        deliveries = side.sandbox.hooks.take()
        for delivery in reversed(deliveries):
            side.tell(delivery, delivery)
        side.clock.advance(timedelta(seconds=1))
        side.work()
    for _ in range(20):
        side.clock.advance(timedelta(seconds=5))
        side.work()
    # Licences and groups of Azure DevOps change with no word: the polls read them.
    side.synchronizer.sync_access(side.devops)
    assert side.inbox.state().pending == 0, done
    differing = differences(side.dump(), whole_read(side.sandbox, postgres))
    assert not differing, "\n".join([*done, "---", *differing])
