"""The words of a message: emoji, mentions, quotes, cards, files and links."""

from __future__ import annotations

import pytest

from core.items import PersonRef, Role
from tests.ingestion.teams.graph_messages import IRIS, attached, item_of, message, text_of, user


def test_an_emoji_is_a_character_and_no_picture() -> None:
    """C085."""
    content = (
        '<p>Done <img src="https://statics.teams.cdn.office.net/x/30_f.png" alt="👍" '
        'itemtype="http://schema.skype.com/Emoji"> <emoji id="smile" alt="😄" title="Smile"></emoji></p>'
    )
    item = item_of(message(content=content, html=True))
    assert item.parts[0].text == "Done 👍 😄"
    assert item.links == ()


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


def test_an_announcement_says_its_title_and_its_text() -> None:
    card = attached("application/vnd.microsoft.card.announcement", {"title": "Gate 5 closes", "cardImageType": "color"})
    item = item_of(message(content='<attachment id="a1"></attachment><p>until May</p>', html=True, attachments=[card]))
    assert item.parts[0].text == "until May\n\nGate 5 closes"


def test_a_loop_component_is_a_link_to_where_its_own_readers_are() -> None:
    url = "https://port-my.sharepoint.example/:fl:/g/personal/iris/x?e=1"
    loop = attached("application/vnd.microsoft.card.fluidEmbedCard", {"componentUrl": url, "sourceType": "Compose"})
    placeholder = attached("application/vnd.microsoft.card.codesnippet", {}, id="placeholderCard")
    content = '<p>plan</p><attachment id="placeholderCard"></attachment>'
    item = item_of(message(content=content, html=True, attachments=[loop, placeholder]))
    assert item.parts[0].text == f"plan\n\n[Loop component]({url})"
    assert [link.to for link in item.links] == [url]


def test_a_meeting_and_a_tab_are_named_and_linked() -> None:
    tab = {"id": "tab::1", "contentType": "tabReference", "name": "Berths", "contentUrl": "https://tabs.example/1"}
    meeting = {"id": "m", "contentType": "meetingReference", "name": "Tides", "contentUrl": "https://meet.example/2"}
    item = item_of(message(content="see", attachments=[tab, meeting]))
    assert item.parts[0].text == "see\n\n[attachment: Berths]\n[attachment: Tides]"
    assert [link.to for link in item.links] == ["https://tabs.example/1", "https://meet.example/2"]


def test_code_tables_and_custom_emoji_keep_their_shape() -> None:
    content = (
        '<codeblock class="Sql"><code>SELECT&nbsp;1<br>FROM quay</code></codeblock>'
        "<table><tr><td>berth</td><td>7</td></tr><tr><td>draught</td><td>9 | 10</td></tr></table>"
        '<p><customemoji id="x" alt="shipit" source="https://graph/x"></customemoji></p>'
    )
    assert text_of(content) == (
        "```sql\nSELECT 1\nFROM quay\n```\n\n| berth | 7 |\n| --- | --- |\n| draught | 9 \\| 10 |\n\nshipit"
    )


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
