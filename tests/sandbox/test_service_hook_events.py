"""Which service hooks a change of the world sends, and which changes send none."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from fixtures.sandbox import state_additions as add
from fixtures.sandbox import world_models as m
from fixtures.sandbox.hooks.delivery import Delivery
from tests.sandbox import small
from tests.sandbox.hooked import Hooked
from tests.sandbox.small import Data


def bodies(deliveries: list[Delivery]) -> list[Any]:
    """What is told."""
    return [json.loads(delivery.body) for delivery in deliveries]


@pytest.mark.parametrize(
    ("event", "told"),
    [
        ({"edit": {"item": "work_item:1", "by": "ben", "fields": {"state": "Closed"}}}, ["workitem.updated 1"]),
        ({"move": {"item": "work_item:1", "to": "area:P/A/B"}}, ["workitem.updated 1"]),
        ({"move": {"item": "work_item:1", "to": "project:Q"}}, ["workitem.updated 1"]),
        ({"rename": {"what": "work_item:1", "to": "New"}}, ["workitem.updated 1"]),
        ({"label": {"on": "work_item:1", "label": "Secret"}}, ["workitem.updated 1"]),
        ({"delete": {"item": "work_item:1"}}, ["workitem.deleted 1"]),
        ({"edit": {"item": "file:app/a.md", "by": "ann", "content": "two"}}, ["git.push app"]),
        ({"delete": {"item": "file:app/a.md"}}, ["git.push app"]),
        ({"move": {"item": "file:app/a.md", "to": "src/a.md"}}, ["git.push app"]),
        ({"edit": {"item": "wiki:C/Guide", "by": "ann", "content": "new"}}, ["git.push docs"]),
        ({"rename": {"what": "wiki:C/Guide", "to": "Handbook"}}, ["git.push docs"]),
        (
            {"edit": {"item": "pr:app/7", "by": "ann", "fields": {"status": "abandoned"}}},
            ["git.pullrequest.updated app/7"],
        ),
    ],
    ids=str,
)
def test_changes_that_are_events_send_one_each(hooked: Hooked, event: Data, told: list[str]) -> None:
    hooked.every_hook()
    hooked.change(**event)
    assert hooked.told() == told


@pytest.mark.parametrize(
    "event",
    [
        {"set_acl": {"on": "project:P", "acl": []}},
        {"set_acl": {"on": "area:P/A", "acl": small.deny("ben")}},
        {"set_acl": {"on": "repo:app", "acl": []}},
        {"set_acl": {"on": "wiki:W", "acl": []}},
        {"add_member": {"group": "ops", "who": "dan"}},
        {"remove_member": {"group": "staff", "who": "ann"}},
        {"set_access_level": {"who": "ben", "access_level": "none"}},
        {"disable_person": {"who": "ben"}},
        {"rename": {"what": "area:P/A", "to": "Z"}},
        {"rename": {"what": "project:P", "to": "Z"}},
        {"rename": {"what": "repo:app", "to": "Z"}},
        {"move": {"item": "repo:app", "to": "project:Q"}},
        {"delete": {"item": "repo:app"}},
        {"delete": {"item": "project:P"}},
        {"delete": {"item": "pr:app/7"}},
        {"delete": {"item": "comment:1/1"}},
        {"edit": {"item": "comment:1/1", "by": "ann", "body": "changed"}},
        {"edit": {"item": "pr:app/7", "by": "ann", "fields": {"title": "Another"}}},
        {"label": {"on": "repo:app", "label": "Secret"}},
        {"label": {"on": "project:P", "label": "Secret"}},
        {"label": {"on": "wiki:C/Guide", "label": "Secret"}},
        {"edit": {"item": "wiki:W/Home", "by": "ann", "content": "new"}},
        {"post": {"channel": "channel:Web/General", "message": small.message("m2")}},
    ],
    ids=str,
)
def test_changes_of_access_places_and_project_wikis_send_none(hooked: Hooked, event: Data) -> None:
    hooked.every_hook()
    hooked.change(**event)
    assert hooked.told() == []


def test_a_project_wiki_sends_pushes_where_that_is_switched_on(hooked: Hooked) -> None:
    hooked.every_hook()
    hooked.server.hooks.settings.wiki_pushes = True
    hooked.change(edit={"item": "wiki:W/Home", "by": "ann", "content": "new"})
    assert hooked.told() == ["git.push W"]


def test_what_comes_new_is_told_as_made(hooked: Hooked) -> None:
    state = hooked.server.state
    hooked.every_hook()
    add.add_work_item(state, "P", m.WorkItem.model_validate(small.item(3)))
    add.add_comment(state, 3, "ben", "well said")
    assert hooked.told() == ["workitem.created 3", "workitem.updated 3", "workitem.commented 3"]
    hooked.change(delete={"item": "work_item:3"})
    hooked.change(restore={"item": "work_item:3"})
    assert hooked.told() == ["workitem.deleted 3", "workitem.restored 3"]
    add.destroy_work_item(state, 3)
    assert hooked.told() == []


def test_a_merge_is_tried_when_a_pull_request_is_made_pushed_to_and_completed(hooked: Hooked) -> None:
    state = hooked.server.state
    hooked.every_hook()
    pull = {"id": 8, "title": "q", "created": small.stamp(), "source": "more"}
    add.push(state, "app", {"c.md": "three"}, by="ann", message="c", branch="more")
    add.add_pull_request(state, "app", m.PullRequest.model_validate(pull))
    made = hooked.take()
    assert [one.about for one in made] == [
        "git.push app",
        "git.pullrequest.created app/8",
        "git.pullrequest.merged app/8",
    ]
    assert bodies(made)[2]["resource"]["status"] == "active"  # tried, not completed
    add.push(state, "app", {"c.md": "four"}, by="ann", message="d", branch="more")
    assert hooked.told() == ["git.push app", "git.pullrequest.updated app/8", "git.pullrequest.merged app/8"]
    add.vote(state, "app", 8, "ben", 10)
    add.comment_on(state, "app", 8, "ben", "why?")
    assert hooked.told() == [
        "git.pullrequest.updated app/8",
        "ms.vss-code.git-pullrequest-comment-event app/8",
    ]
    add.complete(state, "app", 8, "ann")
    done = hooked.take()
    assert [one.about for one in done] == [
        "git.push app",
        "git.pullrequest.updated app/8",
        "git.pullrequest.merged app/8",
    ]
    assert [update["name"] for update in bodies(done)[0]["resource"]["refUpdates"]] == ["refs/heads/main"]
    assert bodies(done)[2]["resource"]["status"] == "completed"


def test_a_push_names_the_branches_that_moved_a_forced_one_too(hooked: Hooked) -> None:
    state = hooked.server.state
    hooked.hook("git.push")
    head = state.git("app").head()
    add.push(state, "app", {"a.md": "two"}, by="ben", message="b")
    add.push(state, "app", {"n.md": "n"}, by="ben", message="n", branch="new")
    add.reset_branch(state, "app", 1, forget=True)
    pushed, branched, reset = (body["resource"] for body in bodies(hooked.take()))
    moved = state.git("app").commits[-2].sha
    assert pushed["refUpdates"] == [{"name": "refs/heads/main", "oldObjectId": head, "newObjectId": moved}]
    assert (pushed["commits"][0]["commitId"], pushed["pushedBy"]["displayName"]) == (moved, "Ben Baker")
    assert [(one["name"], one["oldObjectId"]) for one in branched["refUpdates"]] == [("refs/heads/new", "0" * 40)]
    assert reset["commits"] == []
    assert [(one["oldObjectId"], one["newObjectId"]) for one in reset["refUpdates"]] == [(moved, head)]


def test_an_update_names_the_item_apart_from_the_update(hooked: Hooked) -> None:
    hooked.hook("workitem.updated")
    hooked.change(edit={"item": "work_item:1", "by": "ben", "fields": {"title": "New"}})
    resource = bodies(hooked.take())[0]["resource"]
    assert (resource["workItemId"], resource["id"], resource["rev"]) == (1, 3, 3)
    assert resource["fields"]["System.Title"] == {"oldValue": "Item 1", "newValue": "New"}


def test_the_envelope_is_as_documented(hooked: Hooked) -> None:
    made = hooked.hook("workitem.deleted", messagesToSend="text", detailedMessagesToSend="none")
    hooked.change(delete={"item": "work_item:2"})
    (body,) = bodies(hooked.take())
    assert set(body) == {
        *("subscriptionId", "notificationId", "id", "eventType", "publisherId", "message", "detailedMessage"),
        *("resource", "resourceVersion", "resourceContainers", "createdDate"),
    }
    assert (body["subscriptionId"], body["notificationId"], body["eventType"]) == (made["id"], 1, "workitem.deleted")
    assert (body["message"], body["detailedMessage"]) == ({"text": "Task #2 (Item 2) deleted by Ann Arbor."}, None)
    assert body["resource"]["url"].endswith("/_apis/wit/recycleBin/2")
    assert body["resource"]["fields"]["System.CreatedBy"] == "Ann Arbor <ann@small.example>"
    assert body["resourceContainers"]["project"]["id"] == hooked.server.state.project_id("P")
    assert body["createdDate"] == "2026-03-02T09:00:00Z"


def test_an_event_has_one_id_for_all_and_each_subscription_counts_for_itself(hooked: Hooked) -> None:
    first = hooked.hook("workitem.updated")
    hooked.change(rename={"what": "work_item:1", "to": "One"})
    second = hooked.hook("workitem.updated")
    hooked.change(rename={"what": "work_item:1", "to": "Two"})
    one, two, three = bodies(hooked.take())
    assert [(b["subscriptionId"], b["notificationId"]) for b in (one, two, three)] == [
        (first["id"], 1),
        (first["id"], 2),
        (second["id"], 1),
    ]
    assert one["id"] != two["id"] == three["id"]


@pytest.mark.parametrize(
    ("details", "resource"),
    [("minimal", {"id": 3, "workItemId": 1, "url": "updates/3"}), ("none", None), ("", {"workItemId": 1})],
)
def test_a_subscription_says_how_much_of_the_thing_it_wants(hooked: Hooked, details: str, resource: Any) -> None:
    filters = {"projectId": hooked.server.state.project_id("P")}
    hooked.hook("workitem.updated", filters=filters, resourceDetailsToSend=details)
    hooked.change(rename={"what": "work_item:1", "to": "One"})
    (body,) = bodies(hooked.take())
    sent = body["resource"]
    assert body["resourceVersion"] == (None if resource is None else "1.0")
    if resource is None or details == "":
        assert (sent or {}).get("fields") == (None if sent is None else sent["fields"])
        assert (sent is None) == (resource is None)
    else:
        assert sent | {"url": sent["url"][-9:]} == resource


def test_who_takes_all_projects_is_told_little_unless_they_ask(hooked: Hooked) -> None:
    hooked.hook("git.push", resourceDetailsToSend="", messagesToSend="")
    add.push(hooked.server.state, "app", {"a.md": "two"}, by="ben", message="b")
    (body,) = bodies(hooked.take())
    assert (set(body["resource"]), body["message"]) == ({"pushId", "url"}, None)


@pytest.mark.parametrize(
    ("event", "filters", "passes"),
    [
        ("workitem.updated", {"projectId": "Q"}, False),
        ("workitem.updated", {"projectId": "P"}, True),
        ("workitem.updated", {"areaPath": "P"}, True),
        ("workitem.updated", {"areaPath": "P\\A\\B"}, False),
        ("workitem.updated", {"workItemType": "Bug"}, False),
        ("workitem.updated", {"changedFields": "System.State,System.Title"}, True),
        ("workitem.updated", {"changedFields": "System.State"}, False),
        ("git.push", {"branch": "main", "repository": "app"}, True),
        ("git.push", {"branch": "topic"}, False),
        ("git.push", {"repository": "docs"}, False),
        ("git.push", {"pushedBy": "inner"}, True),
        ("git.push", {"pushedBy": "other"}, False),
        ("git.pullrequest.updated", {"notificationType": "ReviewerVoteNotification", "branch": "main"}, True),
        ("git.pullrequest.updated", {"notificationType": "PushNotification"}, False),
    ],
    ids=str,
)
def test_filters_let_through_what_they_name(hooked: Hooked, event: str, filters: Data, passes: bool) -> None:
    state = hooked.server.state
    ids = {"projectId": state.project_id, "repository": state.ids.repo}
    ids["pushedBy"] = lambda key: state.ids.storage_key("group", key)
    hooked.hook(event, filters={name: ids.get(name, str)(value) for name, value in filters.items()})
    hooked.change(rename={"what": "work_item:1", "to": "New"})
    add.push(state, "app", {"a.md": "two"}, by="ben", message="b")
    add.vote(state, "app", 7, "ben", 5)
    assert bool(hooked.told()) == passes


def test_requests_carry_the_credential_and_the_headers_of_the_subscription(hooked: Hooked) -> None:
    credential: Data = {"basicAuthUsername": "hook", "basicAuthPassword": "pa:ss"}
    hooked.hook("workitem.updated", httpHeaders="X-Key: secret\nX-Other:2", **credential)
    hooked.change(rename={"what": "work_item:1", "to": "New"})
    (delivery,) = hooked.take()
    assert hooked.server.hooks.deliver(delivery).status_code == 202
    (got,) = hooked.receiver.received
    assert (got.path, got.headers["x-key"], got.headers["x-other"]) == ("/ado", "secret", "2")
    assert base64.b64decode(got.headers["authorization"].removeprefix("Basic ")) == b"hook:pa:ss"
    assert (got.headers["content-type"], got.body) == ("application/json; charset=utf-8", delivery.body)


def test_a_delivery_is_sent_as_often_and_in_whatever_order_one_likes(hooked: Hooked) -> None:
    hooked.hook("workitem.updated")
    for title in ("One", "Two"):
        hooked.change(rename={"what": "work_item:1", "to": title})
    assert len(hooked.server.hooks.pending()) == 2
    assert hooked.receiver.received == []
    first, second = hooked.take()
    assert hooked.server.hooks.pending() == []
    for delivery in (second, first, second):
        hooked.server.hooks.deliver(delivery)
    assert [got.json()["notificationId"] for got in hooked.receiver.received] == [2, 1, 2]


def test_nothing_is_collected_without_a_subscription_or_after_a_reset(hooked: Hooked) -> None:
    hooked.change(rename={"what": "work_item:1", "to": "One"})
    made = hooked.hook("workitem.updated")
    assert hooked.told() == []
    hooked.change(rename={"what": "work_item:1", "to": "Two"})
    hooked.server.state.reset()
    assert hooked.told() == []
    assert hooked.ado("GET", f"subscriptions/{made['id']}").status_code == 404
    hooked.change(rename={"what": "work_item:1", "to": "Three"})
    assert hooked.told() == []
