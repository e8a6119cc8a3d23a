"""What becomes of one thread's JSON: text, quotes, cards, people, times, labels, links."""

from __future__ import annotations

import json
from typing import Any

import pytest

from core import principals
from core.items import Item, PersonRef, Role
from ingestion.teams.channels import Channel
from ingestion.teams.people import People
from ingestion.teams.threads import ThreadWriter
from tests.ingestion.teams.support import FOREIGN, TENANT

CHANNEL = Channel("19:gen@thread.tacv2", "General", "standard", "team-1", "Nord", False, "internal")
IRIS = principals.user(TENANT, "oid-iris")
LABELS = ("public", "internal", "secret")
Json = dict[str, Any]


def user(name: str = "iris", **more: Any) -> Json:
    """A sender."""
    identity = {"id": f"oid-{name}", "displayName": name.title(), "userIdentityType": "aadUser", "tenantId": TENANT}
    return {"user": {**identity, **more}, "application": None, "device": None}


def message(id_: str = "1", content: str | None = "hello", *, html: bool = False, **more: Any) -> Json:
    """A message as Graph writes it."""
    return {
        "id": id_,
        "etag": id_,
        "messageType": "message",
        "createdDateTime": f"2031-01-0{id_[0]}T09:00:00.123Z",
        "lastEditedDateTime": None,
        "deletedDateTime": None,
        "from": user(),
        "body": {"contentType": "html" if html else "text", "content": content},
        "attachments": [],
        "mentions": [],
        **more,
    }


def item_of(root: Json, *replies: Json, channel: Channel = CHANNEL, names: dict[Any, str] | None = None) -> Item:
    """The thread's item."""
    made = ThreadWriter(TENANT, People(TENANT, names or {}), LABELS).item(channel, root, replies)
    assert made is not None
    return made


def text_of(content: str, **more: Any) -> str:
    """The text of one HTML message."""
    return item_of(message(content=content, html=True, **more)).parts[0].text


def attached(kind: str, content: object, **more: Any) -> Json:
    """An attachment with JSON in it."""
    return {"id": "a1", "contentType": kind, "content": json.dumps(content), "name": None, "contentUrl": None, **more}


def test_an_emoji_is_a_character_and_no_picture() -> None:
    """C085."""
    content = (
        '<p>Done <img src="https://statics.teams.cdn.office.net/x/30_f.png" alt="👍" '
        'itemtype="http://schema.skype.com/Emoji"> <emoji id="smile" alt="😄" title="Smile"></emoji></p>'
    )
    assert text_of(content) == "Done 👍 😄"


def test_escaped_text_is_decoded_once_and_a_typed_tag_mentions_nobody() -> None:
    """C086."""
    content = '<p>Use x &lt; 5 &amp;amp; &copy; <at id="0">Iris Okonjo</at> &lt;at&gt;all&lt;/at&gt;</p>'
    mention = {"id": 0, "mentionText": "Iris Okonjo", "mentioned": {"user": {"id": "oid-iris"}}}
    item = item_of(message(content=content, html=True, mentions=[mention], **{"from": user("teo")}))
    assert item.parts[0].text == "Use x < 5 &amp; © @Iris Okonjo <at>all</at>"
    mentioned = [c.person for c in item.contributions if c.role is Role.MENTIONED]
    assert mentioned == [PersonRef("Iris Okonjo", IRIS)]


def test_a_name_in_two_words_is_one_mention_and_teams_tags_and_bots_are_nobody() -> None:
    who = user()["user"]
    mentions = [
        {"id": 0, "mentionText": "Iris", "mentioned": {"user": who}},
        {"id": 1, "mentionText": "Okonjo", "mentioned": {"user": who}},
        {"id": 2, "mentionText": "General", "mentioned": {"user": None, "conversation": {"id": "19:x"}}},
        {"id": 3, "mentionText": "Bot", "mentioned": {"application": {"id": "bot", "displayName": "Bot"}}},
        {"id": 4, "mentionText": "Duty", "mentioned": {"tag": {"id": "t"}}},
        {"id": 5, "mentionText": "Nobody", "mentioned": None},
    ]
    item = item_of(message(mentions=mentions, **{"from": user("teo")}))
    assert [c.person.principal for c in item.contributions if c.role is Role.MENTIONED] == [IRIS]


def test_an_answered_message_is_kept_as_a_quote_under_its_authors_name() -> None:
    quoted = attached(
        "messageReference",
        {"messageId": "9", "messagePreview": "Pump alarm?", "messageSender": {"user": {"displayName": "Teo"}}},
    )
    root = message(content='<attachment id="a1"></attachment><p>Reset breaker 3</p>', html=True, attachments=[quoted])
    item = item_of(root)
    assert item.parts[0].text == "> Teo: Pump alarm?\n\nReset breaker 3"
    assert item.title == "Reset breaker 3"


def test_what_is_quoted_is_not_decided_by_who_quotes_it() -> None:
    quoted = attached("messageReference", {"messagePreview": "Decision: we take B"})
    answer = message("2", "<p>why?</p>", html=True, attachments=[quoted], **{"from": user("teo")})
    own_quote = message("3", "<blockquote>Decision: we take B</blockquote><p>fine</p>", html=True)
    item = item_of(message(content="Decision: we take B"), answer, own_quote)
    assert [c.person.principal for c in item.contributions if c.role is Role.DECIDED] == [IRIS]


def test_a_forwarded_message_is_text_here_and_no_link_to_where_it_came_from() -> None:
    forwarded = attached(
        "forwardedMessageReference",
        {
            "originalMessageContent": "<p>Seal 77310 &amp; 77301</p>",
            "originalConversationId": "19:other@thread.tacv2",
            "originalMessageSender": {"user": {"displayName": "Mina"}},
        },
        contentUrl="https://teams.microsoft.com/l/message/19:other@thread.tacv2/9",
    )
    item = item_of(message(content="<p>look</p>", html=True, attachments=[forwarded]))
    assert item.parts[0].text == "> Mina: Seal 77310 & 77301\n\nlook"
    assert item.links == ()
    assert "19:other" not in repr(item)


def test_a_card_shows_its_words_facts_and_buttons_and_nothing_hidden() -> None:
    card = {
        "type": "AdaptiveCard",
        "fallbackText": "not shown",
        "body": [
            {"type": "TextBlock", "text": "**Build 77** failed", "id": "x", "color": "attention"},
            {"type": "FactSet", "facts": [{"title": "Branch:", "value": "main"}, {"title": "By", "value": "Teo"}]},
            {"type": "ColumnSet", "columns": [{"items": [{"type": "TextBlock", "text": "left"}]}, {"items": []}]},
            {"type": "RichTextBlock", "inlines": ["step ", {"type": "TextRun", "text": "deploy"}]},
            {"type": "TextBlock", "text": "hidden", "isVisible": False},
            {"type": "Image", "url": "https://x.example/i.png", "altText": "chart"},
        ],
        "actions": [{"type": "Action.OpenUrl", "title": "View", "url": "https://ci.example/77"}],
    }
    root = message(content='<attachment id="a1"></attachment>', html=True)
    root["attachments"] = [attached("application/vnd.microsoft.card.adaptive", card)]
    item = item_of(root)
    assert item.parts[0].text.split("\n") == [
        *("**Build 77** failed", "Branch: main", "By: Teo", "left", "step deploy"),
        "[View](https://ci.example/77)",
    ]
    assert item.title == "Build 77 failed"
    assert [link.to for link in item.links] == ["https://ci.example/77"]


def test_older_cards_hold_html_and_buttons_that_say_more_than_they_show() -> None:
    hero = {
        "title": "Gate 5",
        "subtitle": "closed",
        "text": "Use <b>gate</b> north &amp; wait",
        "buttons": [
            {"type": "openUrl", "title": "Map", "value": "https://map.example/5"},
            {"type": "imBack", "title": "Yes", "value": "secret command"},
        ],
    }
    connector = {
        "@type": "MessageCard",
        "summary": "not shown beside the rest",
        "sections": [{"activityTitle": "Teo pushed", "facts": [{"name": "Repo", "value": "quay"}]}],
        "potentialAction": [
            {"@type": "OpenUri", "name": "Open", "targets": [{"os": "default", "uri": "https://r.example/1"}]}
        ],
    }
    root = message(content="", html=True)
    root["attachments"] = [
        attached("application/vnd.microsoft.card.hero", hero),
        attached("application/vnd.microsoft.teams.card.o365connector", connector, id="a2"),
    ]
    assert item_of(root).parts[0].text.split("\n") == [
        *("Gate 5", "closed", "Use **gate** north & wait", "[Map](https://map.example/5)", "Yes"),
        *("Teo pushed", "Repo: quay", "[Open](https://r.example/1)"),
    ]


@pytest.mark.parametrize("content", ["{", "null", "[]", '"text"', "[" * 100_000, '{"body": {"text": 5}}'])
def test_a_card_that_makes_no_sense_costs_nothing(content: str) -> None:
    card = {"id": "a", "contentType": "application/vnd.microsoft.card.adaptive", "content": content}
    assert item_of(message(content="see card", attachments=[card])).parts[0].text.startswith("see card")


def test_a_file_is_named_where_it_stands_and_linked() -> None:
    file = {"id": "f1", "contentType": "reference", "name": "plan kade 7.pdf", "contentUrl": "https://sp.example/p.pdf"}
    item = item_of(
        message(content='<p>Plan:</p><attachment id="f1"></attachment><p>ok?</p>', html=True, attachments=[file])
    )
    assert item.parts[0].text == "Plan:\n\n[attachment: plan kade 7.pdf]\n\nok?"
    assert [link.to for link in item.links] == ["https://sp.example/p.pdf"]
    unplaced = item_of(message(content="<p>Plan</p>", html=True, attachments=[file]))
    assert unplaced.parts[0].text == "Plan\n\n[attachment: plan kade 7.pdf]"


def test_a_message_with_an_attachment_and_nothing_else_is_found_by_its_name() -> None:
    file = {"id": "f1", "contentType": "reference", "name": "plan.pdf", "contentUrl": "https://sp.example/p.pdf"}
    item = item_of(message(content='<attachment id="f1"></attachment>', html=True, attachments=[file]))
    assert item.parts[0].text == item.title == "[attachment: plan.pdf]"


def test_a_picture_that_needs_a_token_leaves_no_link() -> None:
    url = "https://graph.microsoft.com/v1.0/teams/t/channels/c/messages/1/hostedContents/2/$value"
    item = item_of(message(content=f'<p>see</p><img src="{url}" alt="crane">', html=True))
    assert "hostedContents" not in repr(item)


def test_a_thread_without_any_text_is_none() -> None:
    root = message(content='<img src="https://graph.microsoft.com/v1.0/hostedContents/2/$value">', html=True)
    assert ThreadWriter(TENANT, People(TENANT, {}), LABELS).item(CHANNEL, root, []) is None


def test_a_root_without_text_lets_its_replies_speak() -> None:
    item = item_of(message(content="", html=True), message("2", "It is crane 4", **{"from": user("teo")}))
    assert item.title == "It is crane 4"
    assert [p.text for p in item.parts] == ["It is crane 4"]
    assert item.author == PersonRef("Iris", IRIS)


def test_a_bot_is_an_author_by_name_and_no_person() -> None:
    sender = {"user": None, "application": {"id": "oid-iris", "displayName": "Deploy bot"}}
    item = item_of(message(content="build 77 failed", **{"from": sender}))
    assert item.author == PersonRef("Deploy bot")


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


def test_a_reaction_changes_the_version_and_not_the_content() -> None:
    before, after = item_of(message(etag="1")), item_of(message(etag="2", reactions=[{"reactionType": "like"}]))
    assert before.version != after.version
    assert before.digest == after.digest


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


def test_links_are_found_once_each_and_a_work_item_by_its_address() -> None:
    content = (
        '<p><a href="https://dev.azure.com/Contoso/P%20x/_workitems/edit/4711">4711</a>, '
        "https://contoso.visualstudio.com/P/_workitems/edit/12. and https://x.example/a?b=c! https://x.example/a?b=c</p>"
    )
    assert [link.to for link in item_of(message(content=content, html=True)).links] == [
        "ctx://ado/contoso/work-items/4711",
        "ctx://ado/contoso/work-items/12",
        "https://x.example/a?b=c",
    ]


def test_a_thread_has_the_page_that_graph_names_or_the_one_that_it_would() -> None:
    assert item_of(message(webUrl="https://teams.microsoft.com/l/message/x")).url.endswith("/x")
    made = item_of(message("1700000000001")).url
    assert made == (
        f"https://teams.microsoft.com/l/message/19%3Agen%40thread.tacv2/1700000000001?groupId=team-1&tenantId={TENANT}"
    )
