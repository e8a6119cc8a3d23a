"""Service hooks are made, read, replaced and taken back as the real service has it, by its SDK too."""

from __future__ import annotations

from typing import Any

import pytest
from azure.devops.v7_1.service_hooks.models import Subscription

from tests.sandbox.ado import sdk
from tests.sandbox.hooked import Hooked, hook_body


def test_the_sdk_makes_lists_replaces_and_deletes_one(hooked: Hooked) -> None:
    hooks = sdk(hooked.server).get_service_hooks_client()
    asked = Subscription(
        publisher_id="tfs",
        event_type="git.push",
        resource_version="1.0",
        consumer_id="webHooks",
        consumer_action_id="httpRequest",
        publisher_inputs={"projectId": hooked.server.state.project_id("P")},
        consumer_inputs={"url": hooked.receiver.url},
    )
    made = hooks.create_subscription(asked)
    assert (made.status, made.event_type) == ("enabled", "git.push")
    assert [one.id for one in hooks.list_subscriptions(event_type="git.push")] == [made.id]
    assert hooks.list_subscriptions(event_type="workitem.created") == []
    asked.event_type = "workitem.created"
    assert hooks.replace_subscription(asked, made.id).event_type == "workitem.created"
    assert hooks.get_subscription(made.id).event_type == "workitem.created"
    hooks.delete_subscription(made.id)
    assert hooks.list_subscriptions() == []


def test_secrets_are_masked_and_a_mask_that_is_sent_back_is_the_secret_then(hooked: Hooked) -> None:
    made = hooked.hook("workitem.updated", httpHeaders="X-Key:secret", basicAuthUsername="u", basicAuthPassword="p")
    shown = hooked.ado("GET", f"subscriptions/{made['id']}").json()
    assert shown["consumerInputs"]["httpHeaders"] == shown["consumerInputs"]["basicAuthPassword"] == "********"
    assert shown["consumerInputs"]["basicAuthUsername"] == "u"
    assert hooked.ado("PUT", f"subscriptions/{made['id']}", shown).status_code == 200
    hooked.change(rename={"what": "work_item:1", "to": "New"})
    (delivery,) = hooked.take()
    assert "X-Key" not in delivery.headers


@pytest.mark.parametrize(
    "wrong",
    [
        {"publisherId": "rm"},
        {"eventType": "acl.changed"},
        {"consumerId": "slack"},
        {"consumerActionId": "mail"},
        {"resourceVersion": "9.0"},
        {"publisherInputs": {"colour": "red"}},
        {"publisherInputs": ["projectId"]},
        {"consumerInputs": {}},
        {"consumerInputs": {"url": "ftp://example.org"}},
        {"consumerInputs": {"url": "https://example.org", "resourceDetailsToSend": "some"}},
        {"consumerInputs": {"url": "https://example.org", "password": "p"}},
    ],
    ids=str,
)
def test_a_subscription_that_makes_no_sense_is_refused(hooked: Hooked, wrong: dict[str, Any]) -> None:
    body = hook_body("workitem.updated", {}, {"url": "https://example.org"}) | wrong
    answer = hooked.ado("POST", "subscriptions", body)
    assert (answer.status_code, answer.json()["typeKey"]) == (400, "SubscriptionInputException")


def test_a_project_that_is_not_there_is_told(hooked: Hooked) -> None:
    body = hook_body("workitem.updated", {"projectId": "nowhere"}, {"url": "https://example.org"})
    assert hooked.ado("POST", "subscriptions", body).status_code == 404


def test_one_that_is_disabled_gets_nothing_until_it_is_enabled(hooked: Hooked) -> None:
    made = hooked.hook("workitem.updated")
    body = hook_body("workitem.updated", {}, {"url": hooked.receiver.url})
    off = hooked.ado("PUT", f"subscriptions/{made['id']}", body | {"status": "disabledByUser"})
    assert off.json()["status"] == "disabledByUser"
    hooked.change(rename={"what": "work_item:1", "to": "One"})
    assert hooked.told() == []
    assert hooked.ado("PUT", f"subscriptions/{made['id']}", body | {"status": "enabled"}).json()["status"] == "enabled"
    hooked.change(rename={"what": "work_item:1", "to": "Two"})
    assert hooked.told() == ["workitem.updated 1"]


def test_none_that_is_unknown_is_read_replaced_or_deleted(hooked: Hooked) -> None:
    body = hook_body("workitem.updated", {}, {"url": "https://example.org"})
    for method in ("GET", "PUT", "DELETE"):
        answer = hooked.ado(method, "subscriptions/00000000-0000-0000-0000-000000000000", body)
        assert (answer.status_code, answer.json()["typeKey"]) == (404, "SubscriptionNotFoundException")
