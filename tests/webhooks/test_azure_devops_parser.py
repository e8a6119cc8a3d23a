"""What deliveries of Azure DevOps are hints for: ids only, of the organization that is read."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from core import uris
from core.hints import HintKind
from ingestion.webhooks.azure_devops import AzureDevOpsParser, names_organization
from ingestion.webhooks.outcomes import Outcome, Refused
from tests.webhooks.envelopes import BASE, NOW, ORGANIZATION, REPO, Row, ado, pull_request, push, update, work_item

PARSER = AzureDevOpsParser("Fjordline", max_age=timedelta(days=1))


def hints(body: Row) -> list[tuple[HintKind, str | None, str | None, bool, str | None]]:
    return [(h.kind, h.reader, h.uri, h.gone, h.version) for h in PARSER.read(body, NOW).hints]


def refusal(body: Row) -> Outcome:
    with pytest.raises(Refused) as caught:
        PARSER.read(body, NOW)
    return caught.value.outcome


@pytest.mark.parametrize("event", ["created", "restored", "commented", "deleted"])
def test_a_work_item_is_to_be_read_again(event: str) -> None:
    uri = uris.work_item(ORGANIZATION, 4103)
    found = hints(ado(f"workitem.{event}", work_item(4103, 9)))
    assert found[0] == (HintKind.ITEM, "work_items", uri, event == "deleted", "9")
    # What it is linked with changes as well, of which nothing is told.
    links = [(HintKind.READER, "work_items", None, False, None)] if event in ("deleted", "restored") else []
    assert found[1:] == links


def test_an_update_is_of_the_work_item_and_not_of_the_number_of_the_update() -> None:
    uri = uris.work_item(ORGANIZATION, 4105)
    assert hints(ado("workitem.updated", update(4105, 8))) == [(HintKind.ITEM, "work_items", uri, False, "8")]
    by_address = {"id": 8, "url": update(4105, 8)["url"]}
    assert hints(ado("workitem.updated", by_address)) == [(HintKind.ITEM, "work_items", uri, False, None)]
    assert refusal(ado("workitem.updated", {"id": 8})) == Outcome.MALFORMED


def test_what_is_sent_with_minimal_details_is_known_by_its_address() -> None:
    gone = {"id": 7, "url": f"{BASE}_apis/wit/recycleBin/7"}
    assert hints(ado("workitem.deleted", gone))[0] == (
        HintKind.ITEM,
        "work_items",
        uris.work_item(ORGANIZATION, 7),
        True,
        None,
    )
    pull = {"pullRequestId": 3, "url": f"{BASE}_apis/git/repositories/{REPO}/pullRequests/3"}
    assert hints(ado("git.pullrequest.updated", pull)) == [
        (HintKind.ITEM, "pull_requests", uris.pull_request(ORGANIZATION, REPO, 3), False, None)
    ]
    comment = ado("ms.vss-code.git-pullrequest-comment-event", {})
    assert hints(comment) == [(HintKind.READER, "pull_requests", None, False, None)]
    assert [h[1] for h in hints(ado("git.push", {"pushId": 88}))] == ["code", "wikis", "pull_requests"]


@pytest.mark.parametrize("event", ["created", "updated", "merged"])
def test_a_pull_request_is_to_be_read_again(event: str) -> None:
    uri = uris.pull_request(ORGANIZATION, REPO, 12)
    expected = [(HintKind.ITEM, "pull_requests", uri, False, None)]
    assert hints(ado(f"git.pullrequest.{event}", pull_request(12))) == expected
    comment = ado("ms.vss-code.git-pullrequest-comment-event", {"comment": {}, "pullRequest": pull_request(12)})
    assert hints(comment) == expected


@pytest.mark.parametrize(
    ("branches", "readers"),
    [
        (["refs/heads/main"], ["code", "wikis"]),
        (["refs/heads/topic"], ["wikis", "pull_requests"]),
        (["refs/heads/main", "refs/heads/topic"], ["code", "wikis", "pull_requests"]),
        (["refs/tags/v1"], []),
    ],
)
def test_a_push_is_a_hint_for_what_reads_that_branch(branches: list[str], readers: list[str]) -> None:
    assert [h[1] for h in hints(ado("git.push", push(*branches)))] == readers


def test_where_the_default_branch_is_not_told_any_may_be_it() -> None:
    found = hints(ado("git.push", push("refs/heads/topic", default=None)))
    assert [h[1] for h in found] == ["code", "wikis", "pull_requests"]


def test_no_text_of_a_delivery_gets_into_a_hint() -> None:
    for body in (ado("workitem.created", work_item(1, 1)), ado("git.pullrequest.created", pull_request(1))):
        assert "nowhere" not in str(PARSER.read(body, NOW))


def test_another_copy_of_a_notification_has_the_same_key_and_another_notification_has_not() -> None:
    first = PARSER.read(ado("workitem.created", work_item(1, 1)), NOW)
    assert first.key == PARSER.read(ado("workitem.updated", update(1, 2)), NOW).key
    assert first.key != PARSER.read(ado("workitem.created", work_item(1, 1), number=18), NOW).key


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        (ado("build.complete", {}), Outcome.UNKNOWN),
        (ado("workitem.moved", work_item(1, 1)), Outcome.UNKNOWN),
        (ado("workitem.created", work_item(1, 1), publisherId="rm"), Outcome.UNKNOWN),
        (ado("workitem.created", {}), Outcome.MALFORMED),
        (ado("workitem.created", None), Outcome.MALFORMED),
        (ado("workitem.created", work_item(0, 1)), Outcome.MALFORMED),
        (ado("workitem.created", work_item(2**31, 1) | {"url": None}), Outcome.MALFORMED),
        (ado("workitem.created", {"id": "1; DROP TABLE inbox"}), Outcome.MALFORMED),
        (ado("workitem.created", {"id": True}), Outcome.MALFORMED),
        (ado("git.push", push() | {"repository": {"id": "../../x"}}), Outcome.MALFORMED),
        (ado("git.push", {"refUpdates": [{"name": "x"}] * 1001}), Outcome.MALFORMED),
        (ado("workitem.created", work_item(1, 1), subscriptionId="x"), Outcome.MALFORMED),
        (ado("workitem.created", work_item(1, 1), number=-1), Outcome.MALFORMED),
        (ado("workitem.created", work_item(1, 1), createdDate="yesterday"), Outcome.MALFORMED),
        (ado("workitem.created", work_item(1, 1), createdDate="2031-03-07T12:00:00"), Outcome.MALFORMED),
        (ado("workitem.created", work_item(1, 1), createdDate="2031-03-06T11:59:59Z"), Outcome.STALE),
        (ado("workitem.created", work_item(1, 1), createdDate="2031-03-07T12:10:01Z"), Outcome.STALE),
        ({}, Outcome.MALFORMED),
    ],
)
def test_what_is_no_use_is_refused(body: Row, outcome: Outcome) -> None:
    assert refusal(body) == outcome


def test_a_refusal_says_what_is_wrong_and_nothing_of_what_was_sent() -> None:
    body: dict[str, Any] = ado("workitem.created", work_item(1, 1), subscriptionId="a secret", message={"secret": 1})
    with pytest.raises(Refused, match="subscriptionId") as caught:
        PARSER.read(body, NOW)
    assert "a secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "ours"),
    [
        ("https://dev.azure.com/fjordline/p/_apis/wit/workItems/1", True),
        ("https://dev.azure.com/FjordLine/", True),
        ("https://dev.azure.com/other/fjordline", False),
        ("https://fjordline.visualstudio.com/DefaultCollection/_apis", True),
        ("https://other.visualstudio.com/fjordline", False),
        ("https://tfs.example/tfs/Fjordline/_apis", True),
        ("https://tfs.example/tfs/Other/_apis", False),
        ("https://dev.azure.com.evil.example/other", False),
        ("", False),
    ],
)
def test_an_address_names_the_organization_or_another_one(url: str, ours: bool) -> None:
    assert names_organization(url, "Fjordline") is ours


def test_a_delivery_of_another_organization_is_refused_wherever_it_says_so() -> None:
    other = "https://dev.azure.com/other/"
    in_resource = work_item(1, 1) | {"url": f"{other}_apis/wit/workItems/1"}
    assert refusal(ado("workitem.deleted", in_resource)) == Outcome.WRONG_ORGANIZATION
    containers = {"project": {"id": SUBSCRIPTION_ID, "baseUrl": other}}
    assert refusal(ado("workitem.deleted", work_item(1, 1), resourceContainers=containers)) == (
        Outcome.WRONG_ORGANIZATION
    )


SUBSCRIPTION_ID = "7a3f2c51-0000-4000-8000-0000000000ff"


@pytest.mark.parametrize("url", ["http://[x", "https://dev.azure.com]/Fjordline", "http://\u2100/Fjordline"])
@pytest.mark.parametrize("where", ["resource", "pull request", "container"])
def test_an_address_that_is_none_is_no_error_of_ours(url: str, where: str) -> None:
    """It would be told to come again, which puts the hook on probation."""
    comment = "ms.vss-code.git-pullrequest-comment-event"
    body = {
        "resource": ado("workitem.updated", {"id": 8, "url": url}),
        "pull request": ado(comment, {"pullRequest": {"pullRequestId": 3, "url": url}}),
        "container": ado("workitem.created", work_item(1, 1)) | {"resourceContainers": {"account": {"baseUrl": url}}},
    }[where]
    assert refusal(body) == Outcome.MALFORMED
