"""Subscriptions to changes in Graph: the handshake, how long they live, and what is refused in which words."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest

from tests.sandbox.hooked import NOW, Hooked
from tests.sandbox.small import Data

MESSAGES = "/teams/getAllMessages"


def refused(hooked: Hooked, resource: str = MESSAGES, **body: Any) -> tuple[int, str]:
    """Status and message of a refusal."""
    answer = hooked.graph("POST", "/subscriptions", hooked.body(resource, **body))
    return answer.status_code, answer.json()["error"]["message"]


def team(hooked: Hooked, key: str = "Web") -> str:
    """A team's id."""
    return hooked.server.state.ids.team(key)


def test_one_is_made_read_renewed_and_taken_back(hooked: Hooked) -> None:
    made = hooked.subscribe(MESSAGES)
    assert made["expirationDateTime"] == "2026-03-03T09:00:00Z"
    assert (made["applicationId"], made["clientState"]) == ("context-engine-connector", "a secret")
    path = f"/subscriptions/{made['id']}"
    assert hooked.graph("GET", path).json()["resource"] == MESSAGES
    assert [row["id"] for row in hooked.graph("GET", "/subscriptions").json()["value"]] == [made["id"]]
    later = hooked.graph("PATCH", path, {"expirationDateTime": "2026-03-04T09:00:00Z"})
    assert (later.status_code, later.json()["expirationDateTime"]) == (200, "2026-03-04T09:00:00Z")
    assert hooked.graph("POST", f"{path}/reauthorize").status_code == 204
    assert hooked.graph("DELETE", path).status_code == 204
    assert hooked.graph("GET", path).status_code == 404
    assert hooked.graph("GET", "/subscriptions").json()["value"] == []


def test_both_addresses_are_asked_to_say_a_token_back(hooked: Hooked) -> None:
    hooked.subscribe(MESSAGES, notificationUrl=hooked.receiver.url + "/graph?src=1")
    asked = hooked.receiver.handshakes
    assert [one.path for one in asked] == ["/graph", "/life"]
    assert asked[0].query["src"] == ["1"]
    assert asked[0].headers["content-type"].startswith("text/plain")
    assert " " in asked[0].query["validationToken"][0]  # it must be decoded to be right


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ((403, "text/plain", "no"), "HTTP status code is 'Forbidden'"),
        ((202, "text/plain", ""), "must respond with 200 OK"),
        ((200, "text/plain", "another token"), "must exactly match"),
        ((200, "text/html", ""), "must exactly match"),
    ],
)
def test_a_receiver_that_answers_otherwise_gets_no_subscription(
    hooked: Hooked, answer: tuple[int, str, str], told: str
) -> None:
    hooked.receiver.handshake = answer
    status, message = refused(hooked)
    assert (status, told in message) == (400, True)
    assert hooked.graph("GET", "/subscriptions").json()["value"] == []


def test_a_receiver_that_takes_too_long_or_is_not_there_gets_none_either(hooked: Hooked) -> None:
    hooked.server.hooks.settings.handshake_timeout = 0.05
    hooked.receiver.lingers = threading.Event()
    try:
        assert refused(hooked) == (400, "Subscription validation request timed out.")
    finally:
        hooked.receiver.lingers.set()
    assert "must respond with 200 OK" in refused(hooked, notificationUrl="http://127.0.0.1:9/none")[1]


def test_nothing_of_the_state_is_held_while_a_receiver_is_asked(hooked: Hooked) -> None:
    hooked.receiver.lingers = threading.Event()
    answers: list[int] = []

    def subscribe() -> None:
        answers.append(hooked.graph("POST", "/subscriptions", hooked.body(MESSAGES)).status_code)

    thread = threading.Thread(target=subscribe)
    thread.start()
    assert hooked.receiver.asked.wait(5)
    hooked.change(disable_person={"who": "ben"})  # would wait for ever
    assert hooked.graph("GET", "/users").status_code == 200
    hooked.receiver.lingers.set()
    thread.join(5)
    assert answers == [201]


@pytest.mark.parametrize(
    ("resource", "minutes"),
    [(MESSAGES, 4320), ("/teams/getAllChannels", 4320), ("teams", 4320), ("users", 41760), ("/groups", 41760)],
)
def test_none_lives_longer_than_its_resource_allows(hooked: Hooked, resource: str, minutes: int) -> None:
    most = NOW + timedelta(minutes=minutes)
    status, message = refused(hooked, resource, expirationDateTime=(most + timedelta(seconds=1)).isoformat())
    assert status == 400
    assert "beyond allowed max '3 days" in message or "can only be 41760 minutes" in message
    made = hooked.subscribe(resource, expirationDateTime=most.isoformat())
    beyond = {"expirationDateTime": (most + timedelta(seconds=1)).isoformat()}
    assert hooked.graph("PATCH", f"/subscriptions/{made['id']}", beyond).status_code == 400


def test_one_of_teams_that_lives_longer_than_an_hour_needs_an_address_for_its_life(hooked: Hooked) -> None:
    status, message = refused(hooked, lifecycleNotificationUrl=None)
    assert status == 400
    assert message.startswith("lifecycleNotificationUrl is a required property")
    hour = (NOW + timedelta(hours=1)).isoformat()
    hooked.subscribe(MESSAGES, lifecycleNotificationUrl=None, expirationDateTime=hour)
    hooked.subscribe("/users", lifecycleNotificationUrl=None)


def test_one_that_lapses_is_gone_and_another_can_be_made(hooked: Hooked) -> None:
    made = hooked.subscribe(MESSAGES)
    hooked.clock.advance(timedelta(days=1))
    path = f"/subscriptions/{made['id']}"
    assert hooked.graph("GET", path).status_code == 404
    assert hooked.graph("PATCH", path, {"expirationDateTime": "2026-03-05T09:00:00Z"}).status_code == 404
    assert hooked.subscribe(MESSAGES)["id"] != made["id"]


def test_a_second_of_the_same_application_to_the_same_resource_is_refused(hooked: Hooked) -> None:
    made = hooked.subscribe(MESSAGES)
    assert refused(hooked, "teams/getAllMessages/") == (
        409,
        f"Subscription Id {made['id']} already exists for the requested combination",
    )
    other = {"Authorization": "Bearer " + hooked.server.token("bot", audience="https://graph.microsoft.com")}
    url = f"{hooked.server.graph_url}/subscriptions"
    assert hooked.client.post(url, json=hooked.body(MESSAGES), headers=other).status_code == 201
    assert len(hooked.client.get(url, headers=other).json()["value"]) == 1
    assert len(hooked.graph("GET", "/subscriptions").json()["value"]) == 1


def test_every_resource_that_is_read_can_be_watched(hooked: Hooked) -> None:
    state = hooked.server.state
    here, channel = team(hooked), state.channel_id("Web", "Board")
    indirect = "notifyOnIndirectMembershipUpdate=true&suppressNotificationWhenSharedUnsharedWithTeam=true"
    for resource in (
        f"/teams/{here}/channels/{channel}/messages",
        f"/teams/{here}/channels",
        f"teams/{here}",
        "/teams/getAllMembers",
        f"/teams('{here}')/members",
        f"/teams/{here}/channels/getAllMembers",
        f"/teams/{here}/channels/getAllMembers?{indirect}",
        f"/groups/{state.ids.group('staff')}/members",
    ):
        hooked.subscribe(resource)


@pytest.mark.parametrize(
    ("resource", "status"),
    [
        ("/teams/00000000-0000-0000-0000-000000000000/channels", 404),
        ("/groups/00000000-0000-0000-0000-000000000000/members", 404),
        ("/teams/TEAM/channels/19:none@thread.tacv2/messages", 404),
        ("/chats/getAllMessages", 400),
        ("/teams/getAllMembers?notifyOnIndirectMembershipUpdate=true", 400),
        ("/teams/TEAM/channels/getAllMembers?other=true", 400),
    ],
)
def test_what_is_not_there_or_not_read_can_not(hooked: Hooked, resource: str, status: int) -> None:
    assert refused(hooked, resource.replace("TEAM", team(hooked)))[0] == status


@pytest.mark.parametrize(
    "wrong",
    [
        {"clientState": "x" * 129},
        {"changeType": "created,moved"},
        {"changeType": ""},
        {"notificationUrl": "http://example.org/hook"},
        {"notificationUrl": None},
        {"expirationDateTime": "tomorrow"},
        {"expirationDateTime": "2026-03-02T08:59:59Z"},
        {"resource": 7},
        {"includeResourceData": True},
        {"includeResourceData": True, "encryptionCertificate": "AAAA", "encryptionCertificateId": "one"},
    ],
    ids=str,
)
def test_a_subscription_that_makes_no_sense_is_refused(hooked: Hooked, wrong: Data) -> None:
    answer = hooked.graph("POST", "/subscriptions", hooked.body(MESSAGES) | wrong)
    assert answer.status_code == 400
    assert hooked.receiver.handshakes == []


def test_an_update_changes_the_end_and_the_address_alone(hooked: Hooked) -> None:
    path = f"/subscriptions/{hooked.subscribe(MESSAGES)['id']}"
    assert hooked.graph("PATCH", path, {"lifecycleNotificationUrl": hooked.receiver.url}).status_code == 400
    moved = hooked.graph("PATCH", path, {"notificationUrl": hooked.receiver.url + "/moved"})
    assert moved.json()["notificationUrl"].endswith("/moved")
    assert hooked.receiver.handshakes[-1].path == "/moved"
    hooked.receiver.handshake = (500, "text/plain", "")
    assert hooked.graph("PATCH", path, {"notificationUrl": hooked.receiver.url + "/bad"}).status_code == 400


def test_nobody_subscribes_without_a_token(hooked: Hooked) -> None:
    url = f"{hooked.server.graph_url}/subscriptions"
    assert hooked.client.post(url, json=hooked.body(MESSAGES)).status_code == 401
    assert hooked.graph("POST", "/subscriptions").status_code == 400
