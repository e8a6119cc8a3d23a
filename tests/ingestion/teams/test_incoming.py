"""Channels that other teams share into an allowed one: read where they live, once, by their own readers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from core import principals
from core.access import NOBODY
from ingestion.connector import AccessSnapshot, Unlisted
from ingestion.teams.connector import TeamsConnector
from ingestion.teams.rosters import scope_id
from tests.ingestion.teams.small import event, said, small_world
from tests.ingestion.teams.support import FOREIGN, TENANT, Data, Kept, Live, live

TEAMS: Data = {
    "Nord": {"members": ["iris", "gus"], "channels": {"General": {"messages": [said("m1", "berth")]}}},
    "Ost": {"members": ["teo"], "channels": {"General": {"messages": [said("m1", "crane")]}}},
    "Sud": {
        "members": ["mina"],
        "label": "internal",
        "channels": {
            "General": {"messages": [said("m1", "not shared")]},
            "Tug": {
                "kind": "shared",
                "members": ["mina"],
                "shared_with": ["team:Nord", "team:Ost"],
                "messages": [said("m1", "tow at noon", replies=[said("r1", "which tug?")])],
            },
        },
    },
}
EVENTS = [event("off", remove_member={"team": "Nord", "who": "iris"})]


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    people = ("iris", "teo", "mina", "gus?", "pim")
    world = small_world(TEAMS, people=people, events=EVENTS, labels=["internal"])
    with live(world, tmp_path_factory.mktemp("incoming"), teams=("Nord", "Ost")) as running:
        yield running


@pytest.fixture
def port(sandbox: Live) -> Live:
    """The world as it was at first, with a connector that may read Nord and Ost and knows nothing yet."""
    return sandbox.afresh()


def _tug(port: Live) -> str:
    return port.channel_id("Sud", "Tug")


def _members(port: Live, snapshot: AccessSnapshot) -> frozenset[str] | None:
    wanted = principals.channel(_tug(port))
    (found,) = [c.members for c in snapshot.containers if c.principal == wanted]
    return found


def _incoming(port: Live, change: Data) -> None:
    """Let rows of incoming channels arrive otherwise."""

    def rewrite(path: str, data: Data) -> Data | None:
        if not path.endswith("/incomingChannels"):
            return None
        return {**data, "value": [{**row, **change} for row in data["value"]]}

    port.transport.rewrite = rewrite


def test_a_shared_channel_is_read_at_its_own_team_once_and_its_readers_are_its_own(port: Live) -> None:
    kept = Kept()
    snapshot = kept.sync(port.connector)
    assert snapshot.complete
    assert not snapshot.unknown_principals
    assert {s.name: s.label for s in snapshot.scopes} == {
        "Nord/General": None,
        "Ost/General": None,
        "Sud/Tug": "internal",
    }
    assert _members(port, snapshot) == {port.principal(x) for x in ("mina", "iris", "teo")}
    assert kept.texts() == ["berth", "crane", "tow at noon", "which tug?"]
    host = f"GET /graph/v1.0/teams/{port.server.state.ids.team('Sud')}/channels/{_tug(port)}"
    about = {path: n for path, n in port.server.faults.seen.items() if _tug(port) in path}
    assert all(path.startswith(host) for path in about)
    assert about[f"{host}/allMembers"] == 1


def test_whoever_leaves_a_team_that_it_is_shared_into_no_longer_reads_it(port: Live) -> None:
    port.connector.access()
    port.server.apply("off")
    assert _members(port, port.connector.access()) == {port.principal(x) for x in ("mina", "teo")}


def test_a_channel_of_its_own_allowed_team_comes_in_by_that(port: Live) -> None:
    everything = port.settings.model_copy(update={"teams": ("*",)})
    kept = Kept()
    snapshot = kept.sync(TeamsConnector(everything, client=port.client))
    assert sorted(s.name for s in snapshot.scopes) == ["Nord/General", "Ost/General", "Sud/General", "Sud/Tug"]
    assert len(kept.texts()) == 5


@pytest.mark.parametrize(
    "change",
    [
        {"tenantId": FOREIGN},
        {"@odata.id": f"https://graph.example/v1.0/tenants/{FOREIGN}/teams/{TENANT}/channels/19:x"},
        {"tenantId": None, "@odata.id": f"https://graph.example/v1.0/tenants/{FOREIGN}/teams/{TENANT}/channels/19:x"},
    ],
)
def test_one_that_another_tenant_owns_is_not_read_and_told_once(port: Live, change: Data) -> None:
    _incoming(port, change)
    kept = Kept()
    snapshot = kept.sync(port.connector)
    assert snapshot.complete
    assert dict(snapshot.unknown_principals) == {"channel of another tenant": 1}
    assert len([note for note in snapshot.notes if "another tenant" in note]) == 1
    assert kept.texts() == ["berth", "crane"]
    assert not any(_tug(port) in path for path in port.server.faults.seen)


@pytest.mark.parametrize(
    "where",
    [
        None,
        "https://graph.example/v1.0/teams/../users/channels/x",
        f"https://graph.example/v1.0/teams/{FOREIGN}/channels/x",
    ],
)
def test_one_that_does_not_say_where_it_lives_is_not_read_and_told(port: Live, where: str | None) -> None:
    _incoming(port, {"@odata.id": where})
    snapshot = port.connector.access()
    assert dict(snapshot.unknown_principals) == {"incoming channel that does not say where it lives": 2}
    assert {s.name for s in snapshot.scopes} == {"Nord/General", "Ost/General"}


@pytest.mark.parametrize("status", [400, 403, 404])
def test_a_tenant_that_tells_of_none_loses_nothing_of_its_own(port: Live, status: int) -> None:
    port.server.faults.fail(".*/incomingChannels", status=status, times=None)
    kept = Kept()
    snapshot = kept.sync(port.connector)
    assert snapshot.complete
    assert kept.texts() == ["berth", "crane"]
    assert len([note for note in snapshot.notes if "share into" in note]) == 2
    assert not [x for x in port.connector.readers()[0].present() or () if isinstance(x, Unlisted)]


def test_what_is_no_longer_told_is_nobodys_and_withheld_and_not_deleted(port: Live) -> None:
    kept = Kept()
    kept.sync(port.connector)
    port.server.faults.fail(".*/incomingChannels", status=403, times=None)
    snapshot = port.connector.access()
    assert snapshot.complete
    assert scope_id(TENANT, _tug(port)) not in {s.id for s in snapshot.scopes}
    unlisted = {x for x in port.connector.readers()[0].present() or () if isinstance(x, Unlisted)}
    assert all(x.withhold for x in unlisted)
    assert [port.thread("Sud", "Tug", "m1").startswith(x.prefix) for x in unlisted] == [True]


def test_a_list_of_them_that_breaks_off_takes_nothing_as_gone(port: Live) -> None:
    port.connector.access()
    port.server.faults.fail(".*/incomingChannels", status=503, times=None)
    assert not port.connector.access().complete
    unlisted = {x for x in port.connector.readers()[0].present() or () if isinstance(x, Unlisted)}
    assert [(x.withhold, port.thread("Sud", "Tug", "m1").startswith(x.prefix)) for x in unlisted] == [(False, True)]


def test_a_cloud_that_has_no_such_list_is_not_asked_for_it(port: Live) -> None:
    china = port.settings.model_copy(update={"cloud": "china"})
    TeamsConnector(china, client=port.client).access()
    assert not any("incomingChannels" in path for path in port.server.faults.seen)


def test_a_channel_that_becomes_of_an_unknown_kind_is_withheld_and_not_deleted(port: Live) -> None:
    port.connector.access()
    _incoming(port, {"membershipType": "hologram"})
    snapshot = port.connector.access()
    assert {s.acl for s in snapshot.scopes if s.name == "Sud/Tug"} == {NOBODY}
    (unlisted,) = [x for x in port.connector.readers()[0].present() or () if isinstance(x, Unlisted)]
    assert unlisted.withhold
    assert port.thread("Sud", "Tug", "m1").startswith(unlisted.prefix)
