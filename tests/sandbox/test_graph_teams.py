"""Teams, channels, members and messages as Microsoft Graph serves them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from fixtures.sandbox.access import may_read
from fixtures.sandbox.graph.http import GraphSettings
from fixtures.sandbox.server import SandboxServer
from tests.sandbox import small
from tests.sandbox.begun_again import begun_again
from tests.sandbox.small import Client, Serve, message, walk

pytest_plugins = ["tests.sandbox.live"]

UNKNOWN = {"Prefer": "include-unknown-enum-members"}
LONG_AGO, LATELY = "2025-01-02T03:04:05Z", "2026-02-20T10:00:00Z"
TALK: list[Any] = [
    message("old", "long ago", at=LONG_AGO),
    message(
        "root",
        "Ask @Ben & see <docs>\nthen Ben Baker",
        at=LATELY,
        mentions=["ben", "channel:Red/General"],
        reactions={"like": ["ben", "gil"]},
        replies=[message(f"r{n}", f"reply {n}", by="ben", at=f"2026-02-20T11:0{n}:00Z") for n in range(5)],
    ),
    message("plain", "a < b", at=LATELY, subject="Subject", importance="high", label="Secret", pinned=True),
    message("rich", '<p>Hi <at id="0">Annie</at></p>', at=LATELY, format="html", mentions=["ann"], by="bot"),
    message("file", "see", at=LATELY, attachments=[{"name": "a.docx", "url": "https://x.example/a.docx"}]),
    message("gone", "secret words", at=LATELY, deleted="2026-02-21T10:00:00Z", subject="Gone", mentions=["ann"]),
    message("edited", "now so", at=LATELY, edited="2026-02-22T10:00:00Z"),
]
TEAMS: dict[str, Any] = {
    "Red": {
        "members": ["ann", "gil"],
        "owners": ["ann", "cat"],
        "channels": {
            "General": {"messages": TALK, "description": "All", "label": "Secret"},
            "Quiet": {"messages": []},
            "Private": {"kind": "private", "members": ["ben"], "messages": []},
            "Shared": {"kind": "shared", "members": ["ben"], "shared_with": ["team:Blue"], "messages": []},
        },
    },
    "Blue": {"members": ["ben", "cat", "gil"], "visibility": "public", "channels": {"General": {"messages": []}}},
}
EVENTS = [
    {"id": "reply", "after": "1m", "post": {"channel": "message:Red/General/plain", "message": message("new", "news")}},
    {"id": "edit", "after": "2m", "edit": {"item": "message:Red/General/r0", "by": "ben", "body": "changed"}},
    {"id": "delete", "after": "3m", "delete": {"item": "message:Red/General/old"}},
    {"id": "joins", "after": "4m", "add_member": {"channel": "Red/Private", "who": "group:staff"}},
]


@pytest.fixture(scope="module")
def begin(tmp_path_factory: pytest.TempPathFactory, made_keys: Path) -> Iterator[Callable[[], SandboxServer]]:
    with begun_again(
        *(tmp_path_factory.mktemp("sandbox"), made_keys),
        small.world(teams=TEAMS, events=EVENTS),
        graph=GraphSettings(page=2, messages_page=3),
    ) as made:
        yield made


@pytest.fixture
def server(begin: Callable[[], SandboxServer]) -> SandboxServer:
    return begin()


@pytest.fixture
def client(server: SandboxServer, graph_client: Client) -> httpx.Client:
    return graph_client(server)


def channel(server: SandboxServer, name: str = "General", team: str = "Red") -> str:
    return f"/teams/{server.state.ids.team(team)}/channels/{server.state.channel_id(team, name)}"


def by_key(server: SandboxServer, rows: list[Any]) -> dict[str, Any]:
    ids = {
        server.state.message("Red", "General", key).id: key for key in server.state.lookup.messages["Red", "General"]
    }
    return {ids.get(row["id"], "system"): row for row in rows}


def test_teams_and_channels_come_in_pages(server: SandboxServer, client: httpx.Client) -> None:
    teams = walk(client, "/teams")[0]
    assert [(team["displayName"], team["visibility"]) for team in teams] == [("Blue", "public"), ("Red", "private")]
    rows, _, pages = walk(client, f"/teams/{server.state.ids.team('Red')}/channels")
    assert [row["displayName"] for row in rows] == ["General", "Private", "Quiet", "Shared"]
    assert pages == 2
    assert rows[0]["sensitivityLabel"] == "Secret"
    assert "sensitivityLabel" not in rows[2]


def test_a_shared_channel_is_unknown_to_who_does_not_ask_for_later_enum_members(
    server: SandboxServer, client: httpx.Client
) -> None:
    assert client.get(channel(server, "Shared")).json()["membershipType"] == "unknownFutureValue"
    assert client.get(channel(server, "Shared"), headers=UNKNOWN).json()["membershipType"] == "shared"
    assert client.get(channel(server, "Private")).json()["membershipType"] == "private"


def people(rows: list[Any]) -> list[tuple[str, list[str]]]:
    return [(row["displayName"], row["roles"]) for row in rows]


def test_all_members_of_each_kind_of_channel(server: SandboxServer, client: httpx.Client) -> None:
    standard, _, pages = walk(client, f"{channel(server)}/allMembers?$top=1")
    assert people(standard) == [("Ann Arbor", ["owner"]), ("Gil Guest", ["guest"])]  # cat owns and is no member
    assert pages == 2
    assert people(walk(client, f"{channel(server, 'Private')}/allMembers")[0]) == [("Ben Baker", [])]
    shared = walk(client, f"{channel(server, 'Shared')}/allMembers")[0]
    assert people(shared) == [("Ben Baker", []), ("Ben Baker", []), ("Cat Castle", [])]  # direct, and twice by team
    assert len({row["id"] for row in shared}) == 3
    sources = ["@microsoft.graph.originalSourceMembershipUrl" in row for row in shared]
    assert sources == [False, True, True]
    assert people(walk(client, f"{channel(server, 'Shared')}/members")[0]) == [("Ben Baker", [])]


def test_who_can_read_by_graph_is_who_may_by_the_rules(server: SandboxServer, client: httpx.Client) -> None:
    for team, name in server.state.channel_keys():
        rows = walk(client, f"{channel(server, name, team)}/allMembers")[0]
        listed = {row["userId"] for row in rows}
        public = team == "Blue" and name == "General"
        for key in server.state.people():
            may = may_read(server.state, key, f"channel:{team}/{name}")
            open_to = public and server.state.world.people[key].kind == "member"
            assert ((server.state.oid(key) in listed or open_to) and server.state.enabled(key)) is may


def test_sharing_is_told_from_both_sides(server: SandboxServer, client: httpx.Client) -> None:
    rows = walk(client, f"{channel(server, 'Shared')}/sharedWithTeams")[0]
    assert [(row["displayName"], row["isHostTeam"]) for row in rows] == [("Red", True), ("Blue", False)]
    blue = server.state.ids.team("Blue")
    incoming = walk(client, f"/teams/{blue}/incomingChannels")[0]
    assert [row["displayName"] for row in incoming] == ["Shared"]
    assert f"/tenants/{small.TENANT}/" in incoming[0]["@odata.id"]
    assert [row["displayName"] for row in walk(client, f"/teams/{blue}/allChannels")[0]] == ["General", "Shared"]
    allowed = walk(client, f"{channel(server, 'Shared')}/sharedWithTeams/{blue}/allowedMembers")[0]
    assert people(allowed) == [("Ben Baker", []), ("Cat Castle", [])]
    assert client.get(f"{channel(server)}/sharedWithTeams").status_code == 400


def test_access_of_one_person_can_be_asked(server: SandboxServer, client: httpx.Client) -> None:
    def ask(name: str, person: str) -> bool:
        call = f"doesUserHaveAccess(userId='{server.state.oid(person)}',tenantId='{small.TENANT}')"
        return bool(client.get(f"{channel(server, name)}/{call}").json()["value"])

    assert ask("Private", "ben")
    assert not ask("Private", "ann")


def test_roots_come_newest_first_in_pages_with_the_channels_own_event_at_the_end(
    server: SandboxServer, client: httpx.Client
) -> None:
    rows, _, pages = walk(client, f"{channel(server)}/messages")
    assert pages == 3
    assert len(rows) == 8
    assert all(row["replyToId"] is None for row in rows)
    assert rows[-1]["messageType"] == "unknownFutureValue"
    assert rows[-1]["from"] is None
    assert by_key(server, rows[-2:-1]).keys() == {"old"}
    known = client.get(f"{channel(server)}/messages/{rows[-1]['id']}", headers=UNKNOWN).json()
    assert known["messageType"] == "systemEventMessage"


def test_a_mention_makes_a_text_html_and_is_marked_where_the_text_names_it(
    server: SandboxServer, client: httpx.Client
) -> None:
    rows = by_key(server, walk(client, f"{channel(server)}/messages")[0])
    root = rows["root"]
    assert root["body"] == {
        "contentType": "html",
        "content": 'Ask <at id="0">Ben</at> &amp; see &lt;docs&gt;<br>\nthen Ben Baker <at id="1">General</at>',
    }
    user, conversation = (mention["mentioned"] for mention in root["mentions"])
    assert user["user"]["id"] == server.state.oid("ben")
    assert conversation["conversation"]["conversationIdentityType"] == "channel"
    assert rows["rich"]["mentions"][0]["mentionText"] == "Annie"
    assert rows["rich"]["body"]["content"] == '<p>Hi <at id="0">Annie</at></p>'
    assert rows["plain"]["body"] == {"contentType": "text", "content": "a < b"}


def test_a_message_tells_sender_reactions_attachments_and_marks(server: SandboxServer, client: httpx.Client) -> None:
    rows = by_key(server, walk(client, f"{channel(server)}/messages")[0])
    assert rows["root"]["from"]["user"]["id"] == server.state.oid("ann")
    assert rows["rich"]["from"]["application"]["applicationIdentityType"] == "bot"
    assert [(r["reactionType"], r["user"]["user"]["displayName"]) for r in rows["root"]["reactions"]] == [
        ("like", "Ben Baker"),
        ("like", "Gil Guest"),
    ]
    attachment = rows["file"]["attachments"][0]
    assert (attachment["contentType"], attachment["contentUrl"]) == ("reference", "https://x.example/a.docx")
    assert f'<attachment id="{attachment["id"]}"></attachment>' in rows["file"]["body"]["content"]
    plain = rows["plain"]
    marks = (plain["subject"], plain["importance"], plain["sensitivityLabel"], plain["isPinned"])
    assert marks == ("Subject", "high", "Secret", True)
    assert rows["edited"]["lastEditedDateTime"] == "2026-02-22T10:00:00Z"
    assert rows["edited"]["createdDateTime"] == LATELY


def test_a_deleted_message_keeps_its_place_and_loses_its_words(server: SandboxServer, client: httpx.Client) -> None:
    text = client.get(f"{channel(server)}/messages/{server.state.message('Red', 'General', 'gone').id}").text
    assert "secret words" not in text
    assert "Gone" not in text
    assert '"deletedDateTime":"2026-02-21T10:00:00Z"' in text


def test_replies_are_paged_and_found_one_by_one(server: SandboxServer, client: httpx.Client) -> None:
    root = server.state.message("Red", "General", "root").id
    rows, _, pages = walk(client, f"{channel(server)}/messages/{root}/replies")
    assert (len(rows), pages) == (5, 2)
    assert {row["replyToId"] for row in rows} == {root}
    one = client.get(f"{channel(server)}/messages/{root}/replies/{rows[0]['id']}").json()
    assert one == rows[0]
    assert client.get(f"{channel(server)}/messages/{rows[0]['id']}").status_code == 404  # a reply is no root
    assert client.get(f"{channel(server)}/messages/1/replies").status_code == 404


def test_expanded_replies_are_cut_with_a_link_to_the_rest(serve: Serve, graph_client: Client) -> None:
    server = serve(small.world(teams=TEAMS), graph=GraphSettings(expanded_replies=2))
    client = graph_client(server)
    rows = by_key(server, walk(client, f"{channel(server)}/messages?$expand=replies")[0])
    assert len(rows["root"]["replies"]) == 2
    assert len(walk(client, rows["root"]["replies@odata.nextLink"])[0]) == 5
    assert rows["plain"]["replies"] == []


def test_channel_delta_tells_roots_of_the_last_eight_months_oldest_first(
    server: SandboxServer, client: httpx.Client
) -> None:
    rows, link, _ = walk(client, f"{channel(server)}/messages/delta")
    keys = list(by_key(server, rows))
    assert "old" not in keys  # that takes the plain list
    assert sorted(keys) == ["edited", "file", "gone", "plain", "rich", "root"]
    assert [row["createdDateTime"] for row in rows] == sorted(row["createdDateTime"] for row in rows)
    assert link is not None


def test_a_root_comes_back_when_it_gets_a_reply_an_edit_or_is_deleted(
    server: SandboxServer, client: httpx.Client
) -> None:
    _, link, _ = walk(client, f"{channel(server)}/messages/delta")
    for event, key in (("reply", "plain"), ("edit", "root"), ("delete", "old")):
        server.apply(event)
        rows, link, _ = walk(client, link or "")
        assert list(by_key(server, rows)) == [key]
    assert rows[0]["deletedDateTime"] is not None
    assert walk(client, link or "")[0] == []
    root = server.state.message("Red", "General", "root").id
    bodies = [row["body"]["content"] for row in walk(client, f"{channel(server)}/messages/{root}/replies")[0]]
    assert "changed" in bodies


def test_a_channel_delta_can_be_bounded_by_time(server: SandboxServer, client: httpx.Client) -> None:
    url = f"{channel(server)}/messages/delta?$filter=lastModifiedDateTime gt 2026-02-21T12:00:00Z"
    assert list(by_key(server, walk(client, url)[0])) == ["edited"]
    assert client.get(f"{channel(server)}/messages/delta?$filter=id eq 1").status_code == 400


def test_an_empty_channel_has_its_event_and_no_delta_rows(server: SandboxServer, client: httpx.Client) -> None:
    assert [row["from"] for row in walk(client, f"{channel(server, 'Quiet')}/messages")[0]] == [None]
    rows, link, _ = walk(client, f"{channel(server, 'Quiet')}/messages/delta")
    assert (rows, link is not None) == ([], True)


def test_a_group_in_a_channel_is_served_as_its_people(server: SandboxServer, client: httpx.Client) -> None:
    server.apply("joins")
    rows = walk(client, f"{channel(server, 'Private')}/allMembers")[0]
    assert sorted(name for name, _ in people(rows)) == ["Ann Arbor", "Ben Baker"]


@pytest.mark.parametrize("query", ["$top=51", "$top=0", "$orderby=id", "$filter=x", "$expand=hostedContents"])
def test_the_plain_list_refuses_what_it_does_not_know(server: SandboxServer, client: httpx.Client, query: str) -> None:
    assert client.get(f"{channel(server)}/messages?{query}").status_code == 400


def test_a_team_or_channel_that_is_not_there_is_not_found(server: SandboxServer, client: httpx.Client) -> None:
    assert client.get("/teams/00000000-0000-0000-0000-000000000000/channels").status_code == 404
    assert client.get(f"/teams/{server.state.ids.team('Red')}/channels/19:x@thread.tacv2/messages").status_code == 404
