"""What becomes of deliveries that fail: tries, probation, the end; and what Graph says of a subscription's life."""

from __future__ import annotations

import json
import threading
from datetime import timedelta
from typing import Any

import httpx
import pytest

from fixtures.sandbox.event_models import Event
from fixtures.sandbox.hooks.delivery import Delivery
from fixtures.sandbox.hooks.sender import GRAPH_RETRIES, PROBES, RETRIES
from fixtures.sandbox.hooks.subscriptions import GraphSubscription, Watched
from fixtures.sandbox.state_events import apply_event
from tests.sandbox import small
from tests.sandbox.hooked import Hooked
from tests.sandbox.small import Serve

pytest_plugins = ["tests.sandbox.live"]


def renamed(hooked: Hooked, title: str = "New") -> None:
    """Make a change that a work item's subscription takes."""
    hooked.change(rename={"what": "work_item:1", "to": title})


def status(hooked: Hooked, made: Any) -> tuple[str, int]:
    """What a subscription says of itself."""
    shown = hooked.ado("GET", f"subscriptions/{made['id']}").json()
    return shown["status"], shown["probationRetries"]


def waiting(hooked: Hooked) -> Delivery:
    """The one delivery that waits."""
    (delivery,) = hooked.take()
    return delivery


# --- by hand


def test_an_error_puts_a_subscription_on_probation_and_what_happens_meanwhile_is_lost(hooked: Hooked) -> None:
    made = hooked.hook("workitem.updated")
    renamed(hooked)
    failed = waiting(hooked)
    hooked.receiver.answers = [500]
    hooked.server.hooks.deliver(failed)
    assert status(hooked, made) == ("onProbation", 0)
    renamed(hooked, "Lost")
    assert hooked.told() == []
    hooked.server.hooks.deliver(failed)  # the probe, and it is taken
    assert status(hooked, made) == ("enabled", 0)
    renamed(hooked, "Seen")
    assert hooked.told() == ["workitem.updated 1"]


def test_the_seventh_probe_that_fails_disables_it(hooked: Hooked) -> None:
    made = hooked.hook("workitem.updated")
    renamed(hooked)
    failed = waiting(hooked)
    hooked.receiver.answers = [429] * (1 + len(PROBES))
    for probes in range(len(PROBES)):
        hooked.server.hooks.deliver(failed)
        assert status(hooked, made) == ("onProbation", probes)
    hooked.server.hooks.deliver(failed)
    assert status(hooked, made)[0] == "disabledBySystem"
    renamed(hooked, "Lost")
    assert hooked.told() == []


def test_gone_disables_it_at_once(hooked: Hooked) -> None:
    made = hooked.hook("workitem.updated")
    renamed(hooked)
    hooked.receiver.answers = [410]
    hooked.server.hooks.deliver(waiting(hooked))
    assert status(hooked, made)[0] == "disabledBySystem"


@pytest.mark.parametrize("answer", [408, 502, 503, 504])
def test_what_may_pass_is_tried_eight_times_more_before_it_counts(hooked: Hooked, answer: int) -> None:
    made = hooked.hook("workitem.updated")
    renamed(hooked)
    failed = waiting(hooked)
    hooked.receiver.answers = [answer] * (1 + len(RETRIES))
    for _ in RETRIES:
        hooked.server.hooks.deliver(failed)
        assert status(hooked, made)[0] == "enabled"
    hooked.server.hooks.deliver(failed)
    assert status(hooked, made)[0] == "onProbation"


def test_a_receiver_that_is_not_there_is_one_that_may_come_back(hooked: Hooked) -> None:
    made = hooked.hook("workitem.updated", url="http://127.0.0.1:9/none")
    renamed(hooked)
    failed = waiting(hooked)
    for _ in range(1 + len(RETRIES)):
        assert status(hooked, made)[0] == "enabled"
        with pytest.raises(httpx.ConnectError):
            hooked.server.hooks.deliver(failed)
    assert status(hooked, made)[0] == "onProbation"


# --- by itself


def test_what_waits_is_sent_with_its_retries_once_that_is_switched_on(hooked: Hooked) -> None:
    hooks = hooked.server.hooks
    made = hooked.hook("workitem.updated")
    hooked.subscribe("/users")
    hooked.receiver.answers = [503, 503]
    renamed(hooked)
    hooked.change(disable_person={"who": "ben"})
    hooks.mode = "send"
    assert hooks.wait_idle()
    paths = [got.path for got in hooked.receiver.received]
    assert (sorted(paths), hooks.mode) == (["/ado", "/ado", "/graph", "/graph"], "send")
    assert status(hooked, made)[0] == "enabled"
    hooks.mode = "hold"
    renamed(hooked, "Later")
    assert len(hooks.pending()) == 1
    assert len(hooked.receiver.received) == 4


def test_a_probe_is_sent_by_itself_and_what_waited_behind_it_is_lost(hooked: Hooked) -> None:
    hooks = hooked.server.hooks
    hooks.settings.pace = 0.00001
    made = hooked.hook("workitem.updated")
    hooked.receiver.answers = [500, 500]
    renamed(hooked, "First")
    renamed(hooked, "Second")
    hooks.mode = "send"
    assert hooks.wait_idle()
    assert [got.json()["notificationId"] for got in hooked.receiver.received] == [1, 1, 1]
    assert status(hooked, made) == ("enabled", 0)


def test_graph_tries_for_hours_and_forgets_then(hooked: Hooked) -> None:
    hooks = hooked.server.hooks
    hooks.settings.pace = 0.000001
    hooked.subscribe("/users")
    hooked.receiver.answers = [400] * 99
    hooked.change(disable_person={"who": "ben"})
    hooks.mode = "send"
    assert hooks.wait_idle()
    assert len(hooked.receiver.received) == 1 + len(GRAPH_RETRIES)
    assert sum(GRAPH_RETRIES) <= 4 * 3600
    hooked.receiver.answers = []
    hooked.change(rename={"what": "person:ben", "to": "B"})
    assert hooks.wait_idle()
    assert len(hooked.receiver.received) == 2 + len(GRAPH_RETRIES)


# --- a subscription's life


def test_a_right_that_must_be_renewed_is_told_of_and_then_missed(hooked: Hooked) -> None:
    hooks = hooked.server.hooks
    made = hooked.subscribe("/users")
    told = hooks.lifecycle("reauthorizationRequired", made["id"])
    assert told is not None
    assert hooked.take() == [told]
    assert (told.url, json.loads(told.body)) == (
        hooked.receiver.url + "/life",
        {
            "value": [
                {
                    "subscriptionId": made["id"],
                    "subscriptionExpirationDateTime": "2026-03-03T09:00:00Z",
                    "tenantId": hooked.server.state.tenant_id,
                    "clientState": "a secret",
                    "lifecycleEvent": "reauthorizationRequired",
                }
            ]
        },
    )
    hooked.change(rename={"what": "person:ben", "to": "One"})
    assert len(hooked.told()) == 1  # there is some time yet
    hooked.clock.advance(timedelta(hours=1))
    hooked.change(rename={"what": "person:ben", "to": "Two"})
    assert hooked.told() == []
    hooked.graph("POST", f"/subscriptions/{made['id']}/reauthorize")
    hooked.change(rename={"what": "person:ben", "to": "Three"})
    assert len(hooked.told()) == 1


def test_one_that_graph_removes_is_gone_and_told_of(hooked: Hooked) -> None:
    made = hooked.subscribe("/users")
    told = hooked.server.hooks.lifecycle("subscriptionRemoved", made["id"])
    assert told is not None
    hooked.server.hooks.deliver(told)
    assert hooked.receiver.received[0].json()["value"][0]["lifecycleEvent"] == "subscriptionRemoved"
    assert hooked.graph("GET", f"/subscriptions/{made['id']}").status_code == 404
    with pytest.raises(KeyError, match="there is no Graph subscription"):
        hooked.server.hooks.lifecycle("missed", made["id"])


def test_without_an_address_for_its_life_nothing_is_told(hooked: Hooked) -> None:
    made = hooked.subscribe("/users", lifecycleNotificationUrl=None)
    assert hooked.server.hooks.lifecycle("missed", made["id"]) is None
    assert hooked.told() == []


def test_all_this_can_be_asked_for_over_http(hooked: Hooked) -> None:
    control = f"{hooked.server.base_url}/_sandbox/hooks"
    made = hooked.subscribe("/users")
    hooked.hook("workitem.updated")
    asked = {"event": "missed", "subscription_id": made["id"]}
    assert hooked.client.post(f"{control}/lifecycle", json=asked).json()["pending"]["about"] == "missed"
    renamed(hooked)
    told = hooked.client.get(control).json()
    assert (told["mode"], [row["about"] for row in told["pending"]]) == ("hold", ["missed", "workitem.updated 1"])
    assert [(row["source"], row["of"]) for row in told["subscriptions"]] == [
        ("azure_devops", "workitem.updated"),
        ("graph", "/users"),
    ]
    assert hooked.client.post(control, json={"mode": "send"}).json() == {"mode": "send"}
    assert hooked.server.hooks.wait_idle()
    assert [got.path for got in hooked.receiver.received] == ["/life", "/ado"]
    assert hooked.client.post(control, json={"mode": "hold"}).json() == {"mode": "hold"}
    assert hooked.client.post(control, json={"mode": "later"}).status_code == 422
    asked["subscription_id"] = "none"
    assert hooked.client.post(f"{control}/lifecycle", json=asked).status_code == 404


def test_what_is_taken_while_it_is_in_flight_is_not_tried_again(hooked: Hooked) -> None:
    hooks = hooked.server.hooks
    hooked.subscribe("/users")
    hooked.receiver.answers = [500]
    hooked.receiver.lingers_at = threading.Event()
    hooked.receiver.asked.clear()
    hooked.change(disable_person={"who": "ben"})
    hooks.mode = "send"
    assert hooked.receiver.asked.wait(5)
    assert hooks.take() == []
    hooked.receiver.lingers_at.set()
    hooks.mode = "hold"
    assert hooks.pending() == []
    assert len(hooked.receiver.received) == 1


def test_subscriptions_outlive_a_stop(serve: Serve) -> None:
    server = serve(small.world(), remember=False)
    book, now = server.hooks.book, server.hooks.book.now()
    everything = frozenset({"updated"})
    kept = GraphSubscription(
        *("id", "app", "app", "/users", Watched("user"), everything, "http://127.0.0.1:9"),
        *(None, None, now + timedelta(hours=1)),
    )
    with server.state.lock:
        book.keep(kept)
    server.stop()
    server.start()
    small_change = Event.model_validate({"id": "e", "after": "1m", "disable_person": {"who": "ben"}})
    with server.state.lock:
        apply_event(server.state, small_change)
    assert [one.about for one in server.hooks.take()] == [f"updated Users/{server.state.oid('ben')}"]
