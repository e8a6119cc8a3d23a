"""The history of a work item's state: when it was closed, by whom and why, and whether it was opened again."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from core.items import Role
from ingestion.azure_devops.identities import Identities
from ingestion.azure_devops.work_item_history import MOST_TOLD, history_part, state_changes
from tests.ingestion.azure_devops.small_worlds import ORG, Serve, edit, read
from tests.ingestion.azure_devops.support import Store, connect
from tests.sandbox.small import item

ITEMS = f"{ORG}/work-items"


def test_who_closed_an_item_why_and_that_it_was_opened_again_is_told(serve: Serve) -> None:
    server = serve(item(1, state="New", description="Crane 4"), item(2))
    edit(server, 1, "1d", "ben", state="Active")
    edit(server, 1, "2d", "ann", state="Closed")
    edit(server, 1, "3d", "ben", state="Active")
    edit(server, 1, "4d", "cat", state="Closed")
    store = read(server, "work_items")
    told = store.items[f"{ITEMS}/1"]
    history = next(p for p in told.parts if p.heading == ("State history",))
    assert history.text.splitlines() == [
        "- 2026-03-03: changed by Ben Baker, New → Active (Implementation started)",
        "- 2026-03-04: closed by Ann Arbor, Active → Closed (Completed)",
        "- 2026-03-05: reopened by Ben Baker, Closed → Active (Implementation started)",
        "- 2026-03-06: closed by Cat Castle, Active → Closed (Completed)",
    ]
    who = {(c.role, c.person.name, c.at, c.note) for c in told.contributions if c.role is Role.CLOSED}
    assert who == {
        (Role.CLOSED, "Ann Arbor", datetime(2026, 3, 4, 9, tzinfo=UTC), "Completed"),
        (Role.CLOSED, "Cat Castle", datetime(2026, 3, 6, 9, tzinfo=UTC), "Completed"),
    }
    assert (Role.EDITED, "Ben Baker", "reopened") in {(c.role, c.person.name, c.note) for c in told.contributions}
    assert not [p for p in store.items[f"{ITEMS}/2"].parts if p.heading == ("State history",)]


def test_updates_are_asked_for_only_where_the_state_has_changed(serve: Serve) -> None:
    server = serve(item(1, state="New"), item(2, state="New"), item(3, state="New"))
    edit(server, 2, "1d", title="Another title")
    edit(server, 3, "1d", state="Active")
    server.faults.clear()
    read(server, "work_items")
    asked = [path for path in server.faults.seen if path.endswith("/updates")]
    assert [path.split("/")[-2] for path in asked] == ["3"]


def test_a_closing_that_is_read_later_is_the_same_as_one_that_is_read_at_once(serve: Serve) -> None:
    server = serve(item(1, state="New"))
    store, connector = Store(), connect(server)
    store.sync(connector, ["work_items"])
    edit(server, 1, "1d", state="Closed")
    store.sync(connector, ["work_items"])
    edit(server, 1, "2d", state="Active")
    store.sync(connector, ["work_items"])
    assert store.items == read(server, "work_items").items
    connector.close()


def test_an_item_without_a_history_that_may_be_told_is_read_all_the_same(serve: Serve) -> None:
    server = serve(item(1, state="New"))
    edit(server, 1, "1d", state="Closed")
    server.faults.fail(r".*/workItems/1/updates", status=404, times=None)
    store = read(server, "work_items")
    assert store.failures == {}
    assert [c.person.name for c in store.items[f"{ITEMS}/1"].contributions if c.role is Role.CLOSED] == ["Ann Arbor"]


def update(rev: int, old: str | None, new: str, **fields: Any) -> dict[str, Any]:
    """An update as the service gives it, without a date of closing."""
    state = {"newValue": new} | ({"oldValue": old} if old else {})
    more = {name: {"newValue": value} for name, value in fields.items()}
    day = f"2031-02-{rev:02}T09:00:00Z"
    changed = {"System.ChangedDate": {"newValue": day}}
    return {"rev": rev, "revisedDate": "9999-01-01T00:00:00Z", "fields": {"System.State": state, **changed, **more}}


@pytest.fixture
def nobody_known(serve: Serve) -> Iterator[Identities]:
    connector = connect(serve())
    yield connector._org.identities
    connector.close()


def test_a_process_without_a_date_of_closing_is_told_by_its_states(nobody_known: Identities) -> None:
    rows = [update(3, "Done", "To Do"), update(1, None, "To Do"), update(2, "To Do", "Done")]
    found = state_changes(rows, nobody_known)
    assert [(c.new, c.closed, c.reopened) for c in found] == [("Done", True, False), ("To Do", False, True)]
    assert [c.at and c.at.day for c in found] == [2, 3]


def test_a_long_history_is_told_by_its_newest_changes_and_a_number(nobody_known: Identities) -> None:
    rows = [update(n, f"S{n}", f"S{n + 1}") for n in range(1, 25)]
    (part,) = history_part(state_changes(rows, nobody_known), "x")
    lines = part.text.splitlines()
    assert len(lines) == MOST_TOLD + 1
    assert lines[0] == f"- {24 - MOST_TOLD} earlier changes of state"
    assert lines[-1].endswith("S24 → S25")
