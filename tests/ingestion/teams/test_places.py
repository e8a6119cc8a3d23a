"""Reading again what a hint names: this channel, this team, the directory, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from core import principals, uris
from core.access import NOBODY
from core.clock import FixedClock
from ingestion.connector import AccessSnapshot
from ingestion.teams.connector import TeamsConnector
from tests.ingestion.teams.small import happen, said, small_world
from tests.ingestion.teams.stores import START
from tests.ingestion.teams.support import FOREIGN, TENANT, Data, Kept, Live
from tests.ingestion.teams.support import live as served

DIRECTORY = uris.directory(TENANT)


def _teams() -> Data:
    return {
        "Nord": {
            "members": ["iris", "teo"],
            "channels": {
                "General": {"messages": [said("m1", "Berth 7")]},
                "Customs": {"kind": "private", "members": ["teo"], "messages": [said("m1", "Seal")]},
            },
        },
        "Sud": {
            "members": ["mina"],
            "channels": {
                "General": {"messages": []},
                "Tug": {"kind": "shared", "members": ["mina"], "shared_with": ["team:Nord"], "messages": []},
            },
        },
    }


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    world = small_world(_teams(), groups={"tug": {"name": "Tug", "members": ["mina"]}})
    with served(world, tmp_path_factory.mktemp("places")) as running:
        yield running


@pytest.fixture
def live(sandbox: Live) -> Live:
    """The world as it was at first, and a process that knows nothing of it."""
    return sandbox.afresh()


def _channel(live: Live, team: str, channel: str) -> str:
    return uris.channel(TENANT, live.channel_id(team, channel))


def _team(live: Live, team: str) -> str:
    return uris.team(TENANT, live.server.state.ids.team(team))


def _read(live: Live, *places: str) -> tuple[AccessSnapshot, list[str]]:
    """What was read, and what was asked for it."""
    live.server.faults.seen.clear()
    snapshot = live.connector.access_of(places)
    assert snapshot is not None
    return snapshot, [path.removeprefix("GET /graph/v1.0") for path in live.server.faults.seen]


def test_a_channel_is_one_request_and_says_nothing_of_the_others(live: Live) -> None:
    live.connector.access()
    happen(live, remove_member={"channel": "Nord/Customs", "who": "teo"})
    snapshot, asked = _read(live, _channel(live, "Nord", "Customs"))
    assert len(asked) == 1
    assert asked[0].endswith("/allMembers")
    assert not snapshot.complete
    assert [c.members for c in snapshot.containers] == [frozenset()]
    assert [s.name for s in snapshot.scopes] == ["Nord/Customs"]
    assert (snapshot.people, snapshot.notes) == ((), ())


def test_a_process_that_knows_no_channel_yet_lists_them_and_no_rosters_but_the_one(live: Live) -> None:
    snapshot, asked = _read(live, _channel(live, "Sud", "Tug"))
    assert [s.name for s in snapshot.scopes] == ["Sud/Tug"]
    (roster,) = snapshot.containers
    assert roster.members == {live.principal(x) for x in ("mina", "iris", "teo")}
    assert sum(path.endswith("/allMembers") for path in asked) == 1
    # One that is not there may have been there before: that is for a whole reading to say.
    assert live.again().access_of([uris.channel(TENANT, "19:gone@thread.tacv2")]) is None


def test_a_process_that_knows_a_team_as_public_opens_nothing_that_another_has_shut_meanwhile(live: Live) -> None:
    def visibility(value: str) -> None:
        live.transport.rewrite = lambda path, data: (
            {**data, "value": [{**r, "visibility": value} for r in data["value"]]} if path.endswith("/groups") else None
        )

    everyone = principals.everyone(TENANT)
    visibility("Public")
    assert any(everyone in s.acl.allowed_principals() for s in live.connector.access().scopes)
    visibility("Private")
    snapshot, _ = _read(live, _channel(live, "Nord", "General"))
    (scope,) = snapshot.scopes
    assert scope.acl.allowed_principals() == {principals.channel(live.channel_id("Nord", "General"))}


def test_a_channel_that_is_no_longer_shared_into_an_allowed_team_is_nobodys(live: Live) -> None:
    settings = live.settings.model_copy(update={"teams": ("Nord",)})
    connector = TeamsConnector(settings, client=live.client)
    assert "Sud/Tug" in {s.name for s in connector.access().scopes}
    live.transport.rewrite = lambda path, data: {**data, "value": []} if path.endswith("/incomingChannels") else None
    snapshot = connector.access_of([_channel(live, "Sud", "Tug")])
    assert snapshot is not None
    assert {s.name: s.acl for s in snapshot.scopes} == {"Sud/Tug": NOBODY}
    assert snapshot.containers == ()


def test_a_channel_that_came_meanwhile_is_found_and_one_of_nobodys_is_passed_over(live: Live) -> None:
    hidden = live.channel_id("Nord", "Customs")
    live.transport.rewrite = lambda path, data: (
        {**data, "value": [r for r in data["value"] if r["id"] != hidden]} if path.endswith("/channels") else None
    )
    live.connector.access()
    nothing, _ = _read(live, _channel(live, "Nord", "Customs"))
    assert (nothing.scopes, nothing.containers) == ((), ())
    live.transport.rewrite = lambda path, data: None
    snapshot, _ = _read(live, _channel(live, "Nord", "Customs"))
    assert [c.members for c in snapshot.containers] == [{live.principal("teo")}]


def test_a_team_is_all_its_channels_and_those_that_are_shared_into_it(live: Live) -> None:
    live.connector.access()
    snapshot, asked = _read(live, _team(live, "Nord"))
    assert {s.name for s in snapshot.scopes} == {"Nord/General", "Nord/Customs", "Sud/Tug"}
    assert not any("/users" in path for path in asked)
    happen(live, delete={"item": "channel:Nord/Customs"})
    snapshot, _ = _read(live, _team(live, "Nord"))
    rules = {s.name: s.acl for s in snapshot.scopes}
    assert rules["Nord/Customs"] == NOBODY
    assert rules["Nord/General"] != NOBODY
    kept = Kept()
    (reader,) = live.connector.readers()
    kept.read(reader)
    assert kept.texts() == ["Berth 7"]


def test_the_channels_of_a_team_that_is_gone_are_nobodys(live: Live) -> None:
    live.connector.access()
    happen(live, delete={"item": "team:Nord"})
    snapshot, _ = _read(live, _team(live, "Nord"))
    assert {s.name: s.acl for s in snapshot.scopes} == dict.fromkeys(("Nord/General", "Nord/Customs"), NOBODY)
    assert live.again().access_of([_team(live, "Nord")]) is None


def test_the_directory_alone_is_memberships_and_beside_a_channel_it_tells_who_is_gone(live: Live) -> None:
    live.connector.access()
    happen(live, delete={"item": "person:mina"})
    happen(live, delete={"item": "group:tug"})
    snapshot, _ = _read(live, DIRECTORY, _channel(live, "Nord", "Customs"))
    assert not snapshot.complete
    # Who is not listed is gone; of channels that are not, nothing is said.
    assert snapshot.whole == {"people", "group", "everyone", "anyone"}
    assert live.principal("mina") not in {p.principal for p in snapshot.people}
    assert principals.group(TENANT, live.server.state.ids.group("tug")) not in {
        c.principal for c in snapshot.containers
    }
    assert len(snapshot.scopes) == 1
    alone, _ = _read(live, DIRECTORY)
    assert (alone.memberships_only, alone.complete, alone.scopes) == (True, True, ())
    assert live.principal("mina") not in {p.principal for p in alone.people}


@pytest.mark.parametrize(
    "place",
    [
        "ctx://ado/contoso/work-items/4711",
        f"ctx://teams/{FOREIGN}/directory",
        f"ctx://teams/{TENANT}/channels/19:x/messages/1",
        "",
    ],
)
def test_what_is_no_place_of_this_tenant_has_the_whole_read(live: Live, place: str) -> None:
    live.connector.access()
    assert live.connector.access_of([DIRECTORY, place]) is None


def test_a_roster_that_cannot_be_read_is_told_and_one_that_may_be_gone_is_for_the_whole_to_say(live: Live) -> None:
    live.connector.access()
    live.server.faults.fail(".*/allMembers", status=503, times=None)
    snapshot, _ = _read(live, _channel(live, "Nord", "Customs"))
    assert [c.members for c in snapshot.containers] == [None]
    assert any("Nord/Customs" in note for note in snapshot.notes)
    live.server.faults.clear()
    live.server.faults.fail(".*/allMembers", status=404, times=None)
    assert live.connector.access_of([_channel(live, "Nord", "Customs")]) is None


def test_a_reader_in_a_process_without_an_access_pass_lists_channels_itself_and_again_when_that_is_old(
    live: Live,
) -> None:
    clock = FixedClock(START)
    connector = TeamsConnector(live.settings, client=live.client, clock=clock)
    kept = Kept()
    (reader,) = connector.readers()
    live.server.faults.seen.clear()
    kept.read(reader)
    assert kept.texts() == ["Berth 7", "Seal"]
    assert not any("/allMembers" in path or "/users" in path for path in live.server.faults.seen)
    happen(live, delete={"item": "channel:Nord/Customs"})
    live.server.faults.seen.clear()
    assert live.thread("Nord", "Customs", "m1") in set(kept.items)
    assert live.thread("Nord", "General", "m1") in set(reader.present() or ())
    assert not any(path.endswith("/channels") for path in live.server.faults.seen)
    clock.advance(timedelta(minutes=3))
    assert set(reader.present() or ()) == {live.thread("Nord", "General", "m1")}
