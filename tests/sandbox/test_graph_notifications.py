"""What Graph notifies of a change, to whom, and which changes it says nothing of."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from fixtures.sandbox.hooks.delivery import Delivery
from tests.sandbox import small
from tests.sandbox.hooked import Hooked
from tests.sandbox.small import Data


def items(deliveries: list[Delivery]) -> list[Any]:
    """Each item of each batch."""
    return [item for delivery in deliveries for item in json.loads(delivery.body)["value"]]


def short(hooked: Hooked) -> list[tuple[str, str]]:
    """What is told: the kind of each change, and the thing with names in place of ids."""
    state = hooked.server.state
    names = {state.ids.team(key): key for key in state.world.teams}
    names |= {state.channel_id(*pair): pair[1] for pair in state.lookup.channels}
    names |= {state.oid(key): key for key in state.world.people}
    names |= {state.ids.group(key): key for key in state.world.groups}
    for (team, channel), messages in state.lookup.messages.items():
        names |= {state.message(team, channel, key).id: key for key in messages}
    found = []
    for item in items(hooked.take()):
        text = item["resource"]
        for id, name in names.items():
            text = text.replace(id, name)
        found.append((item["changeType"], text.partition("embers('")[0]))
    return found


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (
            {"post": {"channel": "channel:Web/General", "message": small.message("m2")}},
            [("created", "teams('Web')/channels('General')/messages('m2')")],
        ),
        (
            {"post": {"channel": "message:Web/General/m1", "message": small.message("r2")}},
            [("created", "teams('Web')/channels('General')/messages('m1')/replies('r2')")],
        ),
        (
            {
                "post": {
                    "channel": "channel:Web/General",
                    "message": small.message("m2", replies=[small.message("r2")]),
                }
            },
            [
                ("created", "teams('Web')/channels('General')/messages('m2')"),
                ("created", "teams('Web')/channels('General')/messages('m2')/replies('r2')"),
            ],
        ),
        (
            {"edit": {"item": "message:Web/General/r1", "by": "ann", "body": "new"}},
            [("updated", "teams('Web')/channels('General')/messages('m1')/replies('r1')")],
        ),
        (
            {"delete": {"item": "message:Web/General/m1"}},
            [("deleted", "teams('Web')/channels('General')/messages('m1')")],
        ),
        ({"rename": {"what": "channel:Web/Board", "to": "Web/New"}}, [("updated", "teams('Web')/channels('Board')")]),
        ({"label": {"on": "channel:Web/Board", "label": "Secret"}}, [("updated", "teams('Web')/channels('Board')")]),
        ({"delete": {"item": "channel:Web/Board"}}, [("deleted", "teams('Web')/channels('Board')")]),
        ({"rename": {"what": "team:Web", "to": "New"}}, [("updated", "teams('Web')"), ("updated", "Groups/Web")]),
        ({"label": {"on": "team:Web", "label": "Secret"}}, [("updated", "Groups/Web")]),
        ({"delete": {"item": "team:Ops"}}, [("deleted", "teams('Ops')"), ("updated", "Groups/Ops")]),
        ({"add_member": {"team": "Web", "who": "dan"}}, [("updated", "Groups/Web"), ("created", "teams('Web')/m")]),
        ({"remove_member": {"team": "Web", "who": "ben"}}, [("updated", "Groups/Web"), ("deleted", "teams('Web')/m")]),
        ({"add_member": {"channel": "Web/Board", "who": "ben"}}, [("created", "teams('Web')/channels('Board')/m")]),
        ({"remove_member": {"channel": "Web/Board", "who": "ann"}}, [("deleted", "teams('Web')/channels('Board')/m")]),
        ({"add_member": {"group": "staff", "who": "dan"}}, [("updated", "Groups/staff")]),
        ({"rename": {"what": "group:staff", "to": "All"}}, [("updated", "Groups/staff")]),
        ({"delete": {"item": "group:staff"}}, [("updated", "Groups/staff")]),
        ({"rename": {"what": "person:ben", "to": "Ben B."}}, [("updated", "Users/ben")]),
        ({"edit": {"item": "person:ben", "by": "ann", "fields": {"title": "Lead"}}}, [("updated", "Users/ben")]),
        ({"disable_person": {"who": "ben"}}, [("updated", "Users/ben")]),
        ({"delete": {"item": "person:ben"}}, [("updated", "Users/ben")]),
    ],
    ids=lambda given: str(given)[:60],
)
def test_each_change_is_told_once(hooked: Hooked, event: Data, told: list[tuple[str, str]]) -> None:
    hooked.every_resource()
    hooked.change(**event)
    assert short(hooked) == told


@pytest.mark.parametrize(
    "event",
    [
        {"set_access_level": {"who": "ben", "access_level": "none"}},
        {"set_acl": {"on": "project:P", "acl": []}},
        {"add_member": {"group": "ops", "who": "dan"}},
        {"remove_member": {"team": "Web", "who": "dan"}},
        {"add_member": {"team": "Web", "who": "ann"}},
        {"rename": {"what": "group:ops", "to": "Operations"}},
        {"disable_person": {"who": "bot"}},
        {"edit": {"item": "work_item:1", "by": "ann", "fields": {"title": "x"}}},
        {"edit": {"item": "wiki:W/Home", "by": "ann", "content": "new"}},
        {"label": {"on": "project:P", "label": "Secret"}},
    ],
    ids=str,
)
def test_what_is_not_of_graph_or_changes_nothing_is_not_told(hooked: Hooked, event: Data) -> None:
    hooked.every_resource()
    hooked.change(**event)
    assert short(hooked) == []


def test_an_item_is_as_documented(hooked: Hooked) -> None:
    made = hooked.subscribe("/teams/getAllMessages")
    hooked.change(post={"channel": "message:Web/General/m1", "message": small.message("r2")})
    (delivery,) = hooked.take()
    state = hooked.server.state
    now = state.message("Web", "General", "r2")
    path = (
        f"teams('{state.ids.team('Web')}')/channels('{state.channel_id('Web', 'General')}')"
        f"/messages('{now.root_id}')/replies('{now.id}')"
    )
    assert json.loads(delivery.body) == {
        "value": [
            {
                "subscriptionId": made["id"],
                "subscriptionExpirationDateTime": "2026-03-03T09:00:00Z",
                "changeType": "created",
                "tenantId": state.tenant_id,
                "clientState": "a secret",
                "resource": path,
                "resourceData": {"id": now.id, "@odata.type": "#Microsoft.Graph.chatMessage", "@odata.id": path},
            }
        ]
    }
    assert (delivery.url, delivery.source) == (hooked.receiver.url + "/graph", "graph")
    assert hooked.server.hooks.deliver(delivery).status_code == 202
    assert hooked.receiver.received[0].body == delivery.body


def test_a_change_of_a_group_names_who_came_and_who_left(hooked: Hooked) -> None:
    state = hooked.server.state
    hooked.subscribe("/groups")
    group = state.ids.group("staff")
    hooked.subscribe(f"/groups/{group}/members")
    hooked.change(add_member={"group": "staff", "who": "dan"})
    hooked.change(remove_member={"group": "staff", "who": "ann"})
    came, left = hooked.take()
    one, two = items([came])  # both subscriptions have one address: a batch
    assert one["resource"] == two["resource"] == f"Groups/{group}"
    assert one["resourceData"]["members@delta"] == [{"id": state.oid("dan")}]
    assert items([left])[0]["resourceData"]["members@delta"] == [{"id": state.oid("ann"), "@removed": "deleted"}]


def test_members_have_the_ids_by_which_they_are_listed(hooked: Hooked) -> None:
    state = hooked.server.state
    team, channel = state.ids.team("Web"), state.channel_id("Web", "Board")
    hooked.subscribe("/teams/getAllMembers")
    hooked.subscribe(f"/teams/{team}/channels/getAllMembers")
    hooked.change(add_member={"team": "Web", "who": "dan"})
    hooked.change(add_member={"channel": "Web/Board", "who": "ben"})
    one, two = items(hooked.take())
    listed = hooked.graph("GET", f"/teams/{team}/members?$top=99").json()["value"]
    assert one["resourceData"]["id"] in [row["id"] for row in listed if row["userId"] == state.oid("dan")]
    listed = hooked.graph("GET", f"/teams/{team}/channels/{channel}/members").json()["value"]
    assert two["resourceData"]["id"] in [row["id"] for row in listed if row["userId"] == state.oid("ben")]
    assert two["resourceData"]["@odata.type"] == "#Microsoft.Graph.aadUserConversationMember"


def test_who_reaches_a_shared_channel_through_a_team_is_told_only_where_asked_for(hooked: Hooked) -> None:
    team = hooked.server.state.ids.team("Web")
    hooked.subscribe(f"/teams/{team}/channels/getAllMembers")
    hooked.change(add_member={"team": "Ops", "who": "dan"})
    assert short(hooked) == []
    hooked.subscribe(f"/teams/{team}/channels/getAllMembers?notifyOnIndirectMembershipUpdate=true")
    hooked.change(remove_member={"team": "Ops", "who": "dan"})
    assert short(hooked) == [("deleted", "teams('Web')/channels('Partners')/allM")]


def test_a_member_of_a_nested_group_joins_everything_that_holds_it(hooked: Hooked) -> None:
    hooked.change(add_member={"team": "Ops", "who": "group:inner"})
    hooked.subscribe("/teams/getAllMembers")
    hooked.subscribe("/groups")
    hooked.change(add_member={"group": "inner", "who": "dan"})
    told = short(hooked)
    assert ("created", "teams('Ops')/m") in told
    assert {("updated", "Groups/inner"), ("updated", "Groups/Ops")} <= set(told)


def test_a_group_that_graph_does_not_have_shows_in_those_that_are_served_with_its_members(hooked: Hooked) -> None:
    state = hooked.server.state
    hooked.change(add_member={"group": "staff", "who": "group:ops"})
    hooked.subscribe("/groups")
    hooked.change(add_member={"group": "ops", "who": "dan"})
    (item,) = items(hooked.take())
    assert item["resource"] == f"Groups/{state.ids.group('staff')}"
    assert item["resourceData"]["members@delta"] == [{"id": state.oid("dan")}]


def test_who_was_deleted_left_without_a_word_and_is_not_told_with_the_next_change(hooked: Hooked) -> None:
    hooked.subscribe("/teams/getAllMembers")
    hooked.change(delete={"item": "person:ben"})
    assert short(hooked) == []
    hooked.change(add_member={"team": "Web", "who": "dan"})
    assert short(hooked) == [("created", "teams('Web')/m")]


def test_a_subscription_to_one_place_hears_of_that_place_alone(hooked: Hooked) -> None:
    state = hooked.server.state
    team, channel = state.ids.team("Web"), state.channel_id("Web", "Board")
    hooked.subscribe(f"/teams/{team}/channels/{channel}/messages")
    hooked.subscribe(f"/teams/{team}/members")
    hooked.subscribe(f"/teams/{team}/channels")
    for place in ("Web/General", "Web/Board", "Ops/General"):
        hooked.change(post={"channel": f"channel:{place}", "message": small.message("new")})
        hooked.change(rename={"what": f"channel:{place}", "to": f"{place} now"})
    hooked.change(add_member={"team": "Ops", "who": "dan"})
    assert short(hooked) == [
        ("updated", "teams('Web')/channels('General')"),
        ("created", "teams('Web')/channels('Board')/messages('new')"),
        ("updated", "teams('Web')/channels('Board')"),
    ]


def test_only_the_kinds_of_change_that_were_asked_for_are_told(hooked: Hooked) -> None:
    hooked.subscribe("/teams/getAllMessages", changeType="deleted")
    hooked.subscribe("/users", changeType="created,deleted")  # a user is never more than updated
    hooked.change(edit={"item": "message:Web/General/m1", "by": "ann", "body": "new"})
    hooked.change(delete={"item": "person:ben"})
    hooked.change(delete={"item": "message:Web/General/m1"})
    assert short(hooked) == [("deleted", "teams('Web')/channels('General')/messages('m1')")]


def test_one_that_has_lapsed_sends_nothing(hooked: Hooked) -> None:
    first = hooked.subscribe("/users")
    hooked.server.hooks.expire(first["id"])
    hooked.change(disable_person={"who": "ben"})
    hooked.subscribe("/users")
    hooked.clock.advance(timedelta(days=2))
    hooked.change(rename={"what": "person:ben", "to": "B"})
    assert hooked.told() == []


def test_a_reset_takes_subscriptions_along(hooked: Hooked) -> None:
    hooked.subscribe("/users")
    hooked.client.post(f"{hooked.server.base_url}/_sandbox/reset")
    assert hooked.graph("GET", "/subscriptions").json()["value"] == []
    hooked.change(disable_person={"who": "ben"})
    assert hooked.told() == []
