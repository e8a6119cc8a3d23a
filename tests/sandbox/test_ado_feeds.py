"""The reporting feeds: every revision and link once, resumed by token, and what an event adds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from azure.devops.v7_1.work_item_tracking.models import ReportingWorkItemRevisionsFilter

from fixtures.sandbox.server import SandboxServer
from tests.sandbox.ado import P, Rest, ado_world

FEED = "/_apis/wit/reporting/workitemrevisions"
LINKS = "/_apis/wit/reporting/workitemlinks"


def drain(rest: Rest, path: str, **params: Any) -> tuple[list[Any], str, int]:
    """Every row from a token to the end, the token to go on from, and the number of batches."""
    rows: list[Any] = []
    for batches in range(1, 100):
        body = rest.get(path, **params)
        rows += body["values"]
        params["continuationToken"] = body["continuationToken"]
        if body["isLastBatch"]:
            return rows, body["continuationToken"], batches
    raise AssertionError("a feed without an end")


def test_every_revision_comes_once_in_several_batches(ado: SandboxServer, rest: Rest) -> None:
    rows, _, batches = drain(rest, FEED, includeDeleted=True)
    keys = [(row["id"], row["rev"]) for row in rows]
    assert batches > 1
    assert len(set(keys)) == len(keys)
    assert set(keys) == {(row.id, row.rev) for row in ado.state.all_revisions()}


def test_the_last_token_brings_nothing_more_and_stays_good(rest: Rest) -> None:
    _, token, _ = drain(rest, FEED)
    again = rest.get(FEED, continuationToken=token)
    assert (again["values"], again["isLastBatch"], again["continuationToken"]) == ([], True, token)


def test_the_next_link_can_be_followed_as_it_is(rest: Rest) -> None:
    first = rest.get(FEED)
    second = rest.client.get(first["nextLink"])
    assert second.json()["values"] == rest.get(FEED, continuationToken=first["continuationToken"])["values"]


def test_an_empty_batch_may_come_before_the_end(rest: Rest) -> None:
    token, empty, found = None, 0, []
    while True:
        body = rest.get("/Tide and time" + FEED, **({"continuationToken": token} if token else {}))
        found += [row["id"] for row in body["values"]]
        if body["isLastBatch"]:
            break
        empty += not body["values"]
        token = body["continuationToken"]
    assert empty
    assert found == [500]


def test_deleted_items_come_only_if_asked_for(rest: Rest) -> None:
    assert 9 not in {row["id"] for row in drain(rest, FEED)[0]}
    gone = [row for row in drain(rest, FEED, includeDeleted=True)[0] if row["id"] == 9]
    assert [row["fields"]["System.IsDeleted"] for row in gone] == [False, True]


def test_only_the_latest_revision_of_each_item_can_be_asked_for(rest: Rest) -> None:
    rows, _, _ = drain(rest, FEED, includeLatestOnly=True)
    assert len({row["id"] for row in rows}) == len(rows) == 84
    assert next(row["rev"] for row in rows if row["id"] == 2) == 2


def test_long_texts_come_only_with_an_expansion(rest: Rest) -> None:
    def first(**params: Any) -> dict[str, Any]:
        found: dict[str, Any] = next(r["fields"] for r in drain(rest, FEED, **params)[0] if r["id"] == 1)
        return found

    assert "System.Description" not in first()
    assert first(**{"$expand": "fields"})["System.Description"] == "## Steps"
    assert set(first(fields="System.AreaId,System.Description")) == {"System.AreaId", "System.Description"}


def test_people_are_texts_unless_references_are_asked_for(rest: Rest) -> None:
    fields = rest.get(FEED)["values"][0]["fields"]
    assert fields["System.CreatedBy"] == "Ann Arbor <ann@small.example>"
    reference = rest.get(FEED, includeIdentityRef=True)["values"][0]["fields"]["System.CreatedBy"]
    assert set(reference) == {"id", "uniqueName"}
    tags = [r["fields"].get("System.Tags") for r in drain(rest, FEED, includeTagRef=True)[0] if r["id"] == 1]
    assert [tag["name"] for tag in tags[0]] == ["eu", "tax"]


def test_a_start_can_be_a_time_but_not_beside_a_token(rest: Rest) -> None:
    rows, token, _ = drain(rest, FEED, fields="System.ChangedDate")
    late = rest.get(FEED, startDateTime="2026-02-09T00:00:00Z")
    assert {(row["id"], row["rev"]) for row in late["values"]} == {
        (row["id"], row["rev"]) for row in rows if row["fields"]["System.ChangedDate"] >= "2026-02-09"
    }
    assert rest.refused(FEED, startDateTime="2026-02-09T00:00:00Z", continuationToken=token)[0] == 400


@pytest.mark.parametrize("query", [{"continuationToken": "soon"}, {"startDateTime": "soon"}, {"$expand": "soon"}])
def test_what_is_not_understood_is_refused(rest: Rest, query: dict[str, str]) -> None:
    assert rest.refused(FEED, **query)[0] == 400


def test_the_sdk_reaches_both_feeds_though_it_drops_what_they_hold(ado: SandboxServer, clients: Any) -> None:
    # Its batch models (7.1.0b4) hide the map of their base, so that values, token and end are lost: read them by REST.
    wit = clients.get_work_item_tracking_client()
    wanted = ReportingWorkItemRevisionsFilter(fields=["System.Title"], include_latest_only=True, types=["Task"])
    before = dict(ado.faults.seen)
    batches = [
        wit.read_reporting_revisions_get(include_latest_only=True, max_page_size=5),
        wit.read_reporting_revisions_post(wanted),
        wit.get_reporting_links_by_link_type(),
    ]
    assert [batch.values for batch in batches] == [None, None, None]
    new = {path for path, count in ado.faults.seen.items() if count > before.get(path, 0)}
    feed = "/ado/Small/_apis/wit/reporting/workItemRevisions".lower()
    assert {f"get {feed}", f"post {feed}", f"get {feed.replace('revisions', 'links')}"} <= {
        path.lower() for path in new
    }


def test_filters_may_stand_in_the_body(rest: Rest) -> None:
    body = rest.post(FEED, {"fields": ["System.Title"], "includeLatestOnly": True, "types": ["Task"]})
    assert body["values"]
    assert all(set(row["fields"]) == {"System.Title"} for row in body["values"])
    assert rest.post(FEED, {"types": ["Epic"]})["values"] == []
    assert len(rest.get(FEED, **{"$maxPageSize": 5})["values"]) <= 5


def test_discussions_are_the_revisions_that_brought_comments(rest: Rest) -> None:
    rows, _, _ = drain(rest, "/_apis/wit/reporting/workitemrevisions/discussions")
    assert {row["id"] for row in rows} == {1}
    assert len(rows) == 26


def test_links_come_with_their_base_names_in_one_direction(rest: Rest) -> None:
    rows, _, _ = drain(rest, LINKS)
    found = {(row["rel"], row["sourceId"], row["targetId"], row["isActive"]) for row in rows}
    assert ("System.LinkTypes.Hierarchy", 1, 2, True) in found
    assert ("Custom.LinkTypes.Supersedes", 1, 3, True) in found
    # The link to the deleted item came and went.
    assert {active for rel, source, target, active in found if {source, target} == {1, 9}} == {True, False}
    assert {row["rel"] for row in drain(rest, LINKS, linkTypes="System.LinkTypes.Related")[0]} == {
        "System.LinkTypes.Related"
    }


EVENTS: list[dict[str, Any]] = [
    {"id": "edited", "after": "1m", "edit": {"item": "work_item:2", "by": "ben", "fields": {"title": "New words"}}},
    {"id": "moved", "after": "2m", "move": {"item": "work_item:3", "to": "area:Salt"}},
    {"id": "deleted", "after": "3m", "delete": {"item": "work_item:1"}},
    {"id": "restored", "after": "4m", "restore": {"item": "work_item:1"}},
    {"id": "renamed", "after": "5m", "rename": {"what": "area:P/Sales", "to": "Trade"}},
]


@pytest.fixture
def moving(tmp_path: Path) -> Any:
    with SandboxServer(ado_world({"P": P, "Salt": {}}, events=EVENTS), tmp_path, remember=False) as server:
        yield server


def test_what_an_event_changes_comes_after_the_last_token(moving: SandboxServer) -> None:
    rest = Rest(moving)
    _, token, _ = drain(rest, FEED, includeDeleted=True)
    moving.apply("edited")
    rows, token, _ = drain(rest, FEED, continuationToken=token, includeDeleted=True)
    assert [(row["id"], row["fields"]["System.Title"]) for row in rows] == [(2, "New words")]
    moving.apply("moved")
    rows, token, _ = drain(rest, FEED, continuationToken=token, includeDeleted=True)
    assert [(row["id"], row["fields"]["System.TeamProject"]) for row in rows] == [(3, "Salt")]
    assert rest.get("/Salt/_apis/wit/workitems/3")["fields"]["System.AreaPath"] == "Salt"


def test_deletion_and_return_are_seen_in_feeds_and_bin(moving: SandboxServer) -> None:
    rest = Rest(moving)
    _, token, _ = drain(rest, FEED, includeDeleted=True)
    _, link_token, _ = drain(rest, LINKS)
    moving.apply("deleted")
    rows, token, _ = drain(rest, FEED, continuationToken=token, includeDeleted=True)
    assert (1, True) in [(row["id"], row["fields"]["System.IsDeleted"]) for row in rows]
    links, link_token, _ = drain(rest, LINKS, continuationToken=link_token)
    assert {row["isActive"] for row in links} == {False}
    assert [row["id"] for row in rest.get("/_apis/wit/recyclebin")["value"]] == [1, 9]
    moving.apply("restored")
    rows, _, _ = drain(rest, FEED, continuationToken=token, includeDeleted=True)
    assert (1, False) in [(row["id"], row["fields"]["System.IsDeleted"]) for row in rows]
    assert {row["isActive"] for row in drain(rest, LINKS, continuationToken=link_token)[0]} == {True}
    assert rest.get("/_apis/wit/workitems/1")["id"] == 1


def test_a_renamed_area_changes_paths_without_a_revision_and_keeps_its_id(moving: SandboxServer) -> None:
    rest = Rest(moving)
    before = rest.get("/_apis/wit/workitems/2", fields="System.AreaId,System.AreaPath")["fields"]
    moving.apply("restored")
    _, token, _ = drain(rest, FEED)
    moving.apply("renamed")
    assert drain(rest, FEED, continuationToken=token)[0] == []
    after = rest.get("/_apis/wit/workitems/2", fields="System.AreaId,System.AreaPath")["fields"]
    assert after["System.AreaId"] == before["System.AreaId"]
    assert (before["System.AreaPath"], after["System.AreaPath"]) == ("P\\Sales\\EU", "P\\Trade\\EU")
    assert rest.get("/P/_apis/wit/classificationnodes/Areas/Trade")["hasChildren"] is True
