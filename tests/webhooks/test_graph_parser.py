"""What notifications of Graph are hints for, and that each item of a batch proves itself."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from core import uris
from core.hints import Hint, HintKind
from ingestion.webhooks.client_state import client_state
from ingestion.webhooks.graph import MOST_ITEMS, GraphParser, Notifications
from ingestion.webhooks.outcomes import Outcome, Refused
from tests.webhooks.envelopes import (
    CHANNEL,
    KEY,
    NOW,
    SUBSCRIPTION,
    TEAM,
    TENANT,
    Row,
    graph,
    lifecycle,
    message,
    notice,
)

CHANNEL_PLACE = uris.channel(TENANT, CHANNEL)
TEAM_PLACE = uris.team(TENANT, TEAM)
DIRECTORY = uris.directory(TENANT)
USER = "7a3f2c51-0000-4000-8000-0000000000aa"


def parser(known: dict[str, str] | None = None, **more: Any) -> GraphParser:
    given: dict[str, Any] = {"tokens": None, "keys": None} | more
    return GraphParser(
        tenant=TENANT,
        key=KEY,
        max_age=timedelta(days=1),
        resources_of=lambda ids: {i: r for i, r in (known or {}).items() if i in ids},
        **given,
    )


def read(*items: Row, known: dict[str, str] | None = None) -> Notifications:
    return parser(known).read(graph(*items), NOW)


def hints(*items: Row) -> list[Hint]:
    found = read(*items)
    assert not found.refused
    return [h for a in found.arrivals for h in a.hints]


def told(found: Sequence[Hint]) -> list[tuple[str, str | None, bool]]:
    return [(h.kind.value, h.uri or h.place or h.reader, h.gone) for h in found]


def outcomes(*items: Row, known: dict[str, str] | None = None) -> list[Outcome]:
    found = read(*items, known=known)
    assert not found.arrivals
    return [r.outcome for r in found.refused]


@pytest.mark.parametrize("change", ["created", "updated", "deleted"])
def test_a_message_is_a_hint_for_its_thread(change: str) -> None:
    thread = uris.thread(TENANT, CHANNEL, "1700000000001")
    assert told(hints(notice(message("1700000000001"), change))) == [("item", thread, change == "deleted")]


@pytest.mark.parametrize("change", ["created", "updated", "deleted"])
def test_a_reply_is_a_hint_for_its_thread_which_stays(change: str) -> None:
    thread = uris.thread(TENANT, CHANNEL, "1700000000001")
    assert told(hints(notice(message("1700000000001", "1700000000002"), change))) == [("item", thread, False)]


@pytest.mark.parametrize(
    ("resource", "watched", "expected"),
    [
        (
            f"teams('{TEAM}')/channels('{CHANNEL}')",
            "/teams/getAllChannels",
            [("access", TEAM_PLACE, False), ("reader", "teams", False)],
        ),
        (
            f"teams/{TEAM}/channels/19%3Ageneral%40thread.tacv2",
            f"/teams/{TEAM.upper()}/channels",
            [("access", TEAM_PLACE, False), ("reader", "teams", False)],
        ),
        (f"teams('{TEAM}')", "/teams", [("access", TEAM_PLACE, False), ("reader", "teams", False)]),
        (f"teams('{TEAM}')/members('MCM=')", "/teams/getAllMembers", [("access", TEAM_PLACE, False)]),
        (
            f"teams('{TEAM}')/channels('{CHANNEL}')/members('MCM=')",
            f"/teams/{TEAM}/channels/getAllMembers?notifyOnIndirectMembershipUpdate=true",
            [("access", CHANNEL_PLACE, False)],
        ),
        (
            f"teams('{TEAM}')/channels('{CHANNEL}')/allMembers('MCM=')",
            f"/teams/{TEAM}/channels/getAllMembers",
            [("access", CHANNEL_PLACE, False)],
        ),
        (f"Users/{USER}", "/users", [("access", DIRECTORY, False)]),
        (
            f"Groups/{TEAM}",
            "/groups",
            [("access", DIRECTORY, False), ("access", TEAM_PLACE, False), ("reader", "teams", False)],
        ),
    ],
)
def test_other_changes_are_hints_for_places(
    resource: str, watched: str, expected: list[tuple[str, str | None, bool]]
) -> None:
    assert told(hints(notice(resource, watched=watched))) == expected


def test_a_change_of_members_of_a_group_reads_no_content() -> None:
    item = notice(f"Groups/{TEAM}", watched="/groups", resourceData={"id": TEAM, "members@delta": [{"id": USER}]})
    assert told(hints(item)) == [("access", DIRECTORY, False), ("access", TEAM_PLACE, False)]


def test_each_item_of_a_batch_proves_itself() -> None:
    good = notice(message("1"))
    found = read(
        good,
        notice(message("2"), clientState="guessed"),
        notice(message("3"), tenantId=USER),
        notice(f"chats('19:x')/messages('{1}')"),
        notice(message("5"), subscriptionExpirationDateTime="2031-03-05T00:00:00Z"),
        {"subscriptionId": 5},
    )
    assert [h.uri for a in found.arrivals for h in a.hints] == [uris.thread(TENANT, CHANNEL, "1")]
    assert found.subscriptions == {SUBSCRIPTION}
    assert [r.outcome for r in found.refused] == [
        Outcome.FORGED,
        Outcome.WRONG_TENANT,
        Outcome.UNKNOWN,
        Outcome.STALE,
        Outcome.MALFORMED,
    ]


@pytest.mark.parametrize("given", [None, "", "x", client_state("another key", "/teams/getAllMessages")])
def test_without_the_secret_nothing_is_taken(given: str | None) -> None:
    item = notice(message("1"), clientState=given)
    if given is None:
        del item["clientState"]
    assert outcomes(item) == [Outcome.FORGED]


def test_the_secret_of_one_subscription_tells_of_nothing_that_it_does_not_watch() -> None:
    assert outcomes(notice(message("1"), "deleted", watched="/users")) == [Outcome.FORGED]
    elsewhere = f"/teams/{USER}/channels/{CHANNEL}/messages"
    assert outcomes(notice(message("1"), "deleted", watched=elsewhere)) == [Outcome.FORGED]
    here = f"/teams/{TEAM}/channels/{CHANNEL}/messages"
    assert len(hints(notice(message("1"), watched=here))) == 1


@pytest.mark.parametrize(
    "resource",
    [
        "",
        "teams",
        f"teams('{TEAM}')/channels('19:../../x')/messages('1')",
        f"teams('{TEAM}')/channels('{CHANNEL}')/messages('1/../2')",
        f"teams('not a guid')/channels('{CHANNEL}')/messages('1')",
        f"teams('{TEAM}')/channels('{CHANNEL}')/messages('1')/hostedContents('2')",
        "x" * 1000,
        f"teams('{TEAM}",
    ],
)
def test_a_resource_of_another_shape_is_unknown(resource: str) -> None:
    assert outcomes(notice(resource)) == [Outcome.UNKNOWN]


def test_a_request_that_holds_no_list_or_too_long_a_one_is_none() -> None:
    for body, outcome in (
        ({"value": "x"}, Outcome.MALFORMED),
        ({}, Outcome.MALFORMED),
        ({"value": [{}] * (MOST_ITEMS + 1)}, Outcome.OVERSIZED),
    ):
        with pytest.raises(Refused) as caught:
            parser().read(body, NOW)
        assert caught.value.outcome == outcome


def test_copies_are_known_where_a_notification_has_an_id_and_two_edits_are_no_copies() -> None:
    def keys(**more: Any) -> set[str]:
        return {a.key for _ in range(2) for a in read(notice(message("1"), **more)).arrivals}

    assert len(keys(id="lsgTZMr9KwAAA")) == 1
    assert len(keys(resourceData={"@odata.etag": 'W/"1"'})) == 1
    assert len(keys()) == 2


@pytest.mark.parametrize("event", ["reauthorizationRequired", "subscriptionRemoved", "missed"])
def test_a_lifecycle_event_is_a_hint_for_its_subscription(event: str) -> None:
    known = {SUBSCRIPTION: "/users"}
    found = read(lifecycle(event, "/users"), known=known)
    ((hint,),) = [a.hints for a in found.arrivals]
    assert (hint.kind, hint.place, hint.note) == (HintKind.SUBSCRIPTION, SUBSCRIPTION, event)


def test_a_lifecycle_event_proves_itself_too() -> None:
    known = {SUBSCRIPTION: "/users"}
    assert outcomes(lifecycle("missed", "/groups"), known=known) == [Outcome.FORGED]
    assert outcomes(lifecycle("missed", "/users")) == [Outcome.UNKNOWN]
    assert outcomes(lifecycle("exploded", "/users"), known=known) == [Outcome.UNKNOWN]
    assert outcomes(lifecycle("missed", "/users") | {"tenantId": USER}, known=known) == [Outcome.WRONG_TENANT]


def test_whoever_has_proved_nothing_costs_the_record_one_question_a_request() -> None:
    asked: list[object] = []
    taken = parser()
    taken._resources_of = lambda ids: asked.append(ids) or {}  # type: ignore[method-assign,assignment,func-returns-value]
    found = taken.read(graph(*[lifecycle("missed", "/users", str(n)) for n in range(MOST_ITEMS)]), NOW)
    assert {r.outcome for r in found.refused} == {Outcome.UNKNOWN}
    assert len(asked) == 1
