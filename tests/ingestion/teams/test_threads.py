"""What becomes of one thread: order, people, times, label, title and page."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core import principals
from core.items import PersonRef, Role
from ingestion.teams.channels import Channel
from ingestion.teams.people import People
from ingestion.teams.threads import ThreadWriter
from tests.ingestion.teams.graph_messages import CHANNEL, IRIS, LABELS, item_of, message, user
from tests.ingestion.teams.support import FOREIGN, TENANT


def test_a_thread_without_any_text_is_none() -> None:
    root = message(content='<img src="https://graph.microsoft.com/v1.0/hostedContents/2/$value">', html=True)
    assert ThreadWriter(TENANT, People(TENANT, dict), LABELS).item(CHANNEL, root, []) is None


def test_a_root_without_text_lets_its_replies_speak() -> None:
    item = item_of(message(content="", html=True), message("2", "It is crane 4", **{"from": user("teo")}))
    assert item.title == "It is crane 4"
    assert [p.text for p in item.parts] == ["It is crane 4"]
    assert item.author == PersonRef("Iris", IRIS)


def test_a_bot_is_an_author_by_name_and_no_person() -> None:
    """C083."""
    sender = {"user": None, "application": {"id": "oid-iris", "displayName": "Deploy bot"}}
    item = item_of(message(content="build 77 failed", **{"from": sender}))
    assert item.author == PersonRef("Deploy bot")
    assert item.attributes["author_kind"] == "application"
    assert "author_kind" not in item_of(message()).attributes


@pytest.mark.parametrize("kind", ["anonymousGuest", "skypeUser", "phoneUser", "emailUser", "somethingNew"])
def test_an_id_that_is_no_account_is_never_taken_for_one(kind: str) -> None:
    item = item_of(message(**{"from": user(userIdentityType=kind)}))
    assert item.author == PersonRef("Iris")


def test_somebody_of_another_tenant_is_theirs_and_without_a_tenant_nobody() -> None:
    foreign = item_of(message(**{"from": user(userIdentityType="federatedUser", tenantId=FOREIGN)}))
    assert foreign.author == PersonRef("Iris", principals.user(FOREIGN, "oid-iris"))
    unsaid = item_of(message(**{"from": user(userIdentityType="federatedUser", tenantId=None)}))
    assert unsaid.author == PersonRef("Iris")


def test_a_name_that_graph_leaves_out_is_the_directorys() -> None:
    item = item_of(message(**{"from": user(displayName=None)}), names={IRIS: "Iris Okonjo"})
    assert item.author == PersonRef("Iris Okonjo", IRIS)


def test_a_mail_to_the_channel_is_its_senders_by_name() -> None:
    sender = {"user": {"id": "oid-iris", "displayName": "iris@port.example", "userIdentityType": "emailUser"}}
    assert item_of(message(**{"from": sender})).author == PersonRef("iris@port.example")


def test_nobody_wrote_a_message_without_a_sender() -> None:
    item = item_of(message(**{"from": None}))
    assert item.author is None
    assert item.contributions == ()


def test_replies_stand_in_the_order_of_time_each_once_with_its_author() -> None:
    """C081."""
    teo = message("2", "reset breaker 3", **{"from": user("teo")})
    mina = message("3", "thanks", **{"from": user("mina")})
    item = item_of(message(content="Pump alarm?"), mina, teo, teo)
    assert [p.text for p in item.parts] == ["Pump alarm?", "reset breaker 3", "thanks"]
    reply = item.parts[1]
    assert reply.uri == f"{item.uri}/replies/2"
    assert reply.author == PersonRef("Teo", principals.user(TENANT, "oid-teo"))
    assert [(c.person.name, c.role) for c in item.contributions] == [
        *(("Iris", Role.WROTE), ("Teo", Role.ANSWERED), ("Mina", Role.ANSWERED)),
    ]


def test_deleted_blocked_and_system_replies_are_not_in_it() -> None:
    item = item_of(
        message(content="root"),
        message("2", "gone", deletedDateTime="2031-01-05T09:00:00Z"),
        message("3", "blocked", policyViolation={"dlpAction": "notifySender, blockAccess"}),
        message("4", "warned", policyViolation={"dlpAction": "notifySender"}),
        message("5", "<systemEventMessage/>", html=True, messageType="systemEventMessage", **{"from": None}),
        message("6", None, messageType="unknownFutureValue"),
    )
    assert [p.text for p in item.parts] == ["root", "warned"]


def test_the_thread_is_as_old_as_its_last_word_and_a_reaction_is_none() -> None:
    root = message(lastModifiedDateTime="2031-03-09T10:00:00Z")
    assert str(item_of(root).modified_at) == "2031-01-01 09:00:00.123000+00:00"
    edited = message(lastEditedDateTime="2031-02-01T10:00:00Z")
    assert str(item_of(edited, message("2")).modified_at) == "2031-02-01 10:00:00+00:00"
    assert str(item_of(message(), message("4")).modified_at) == "2031-01-04 09:00:00.123000+00:00"
    assert str(item_of(message(), message("4")).created_at) == "2031-01-01 09:00:00.123000+00:00"


def test_a_reaction_is_counted_and_changes_neither_text_nor_time() -> None:
    like = {"reactionType": "like"}
    before = item_of(message(etag="1"), message("2", etag="1"))
    after = item_of(message(etag="2", reactions=[like, like]), message("2", etag="2", reactions=[like]))
    assert before.version != after.version
    assert "reactions" not in before.attributes
    assert after.attributes["reactions"] == "3"
    assert replace(before, version="", attributes={}) == replace(after, version="", attributes={})


def test_a_withdrawn_message_takes_its_reactions_with_it() -> None:
    gone = message("2", reactions=[{"reactionType": "like"}], deletedDateTime="2031-01-05T09:00:00Z")
    assert "reactions" not in item_of(message(), gone).attributes


def test_the_most_sensitive_label_of_a_thread_is_its_label() -> None:
    def label(*labels: str | None, channel: Channel = CHANNEL) -> str | None:
        root, *replies = (message(str(n + 1), sensitivityLabel=x) for n, x in enumerate(labels))
        return item_of(root, *replies, channel=channel).label

    assert label(None) == "internal"
    assert label("secret", "public") == "secret"
    assert label(None, "public") == "internal"
    assert label("public") == "public"
    assert label("secret", "never heard of") == "never heard of"
    unlabelled = Channel("19:x@thread.tacv2", "X", "standard", "t", "T", False, None)
    assert label(None, channel=unlabelled) is None


def test_a_title_is_the_subject_or_the_first_line_cut_at_a_word() -> None:
    assert item_of(message(subject="  Berth\n 7 ", content="closes Friday")).title == "Berth 7"
    assert item_of(message(content="\n\nsee [the **plan**](https://x.example/a) now\nmore")).title == "see the plan now"
    long = item_of(message(content="word " * 60)).title
    assert long.endswith(" …")
    assert len(long) <= 92


def test_a_thread_has_the_page_that_graph_names_or_the_one_that_it_would() -> None:
    assert item_of(message(webUrl="https://teams.microsoft.com/l/message/x")).url.endswith("/x")
    made = item_of(message("1700000000001")).url
    assert made == (
        f"https://teams.microsoft.com/l/message/19%3Agen%40thread.tacv2/1700000000001?groupId=team-1&tenantId={TENANT}"
    )
