"""Who may read a channel: its own list, by account and tenant; what can't be read or understood lets nobody in."""

from __future__ import annotations

import pytest

from core import principals
from core.access import NOBODY
from core.errors import SourceAuthError
from fixtures.sandbox import access
from ingestion.connector import AccessSnapshot
from ingestion.teams.rosters import scope_id
from tests.ingestion.teams.conftest import Serve
from tests.ingestion.teams.small import nord, said
from tests.ingestion.teams.support import FOREIGN, TENANT, Data, Kept, Live, closure


def _tug(**channel: Data) -> Data:
    """A team with a standard channel and one that is shared with another team (C001)."""
    return {
        "Nord": {
            "members": ["iris", "teo"],
            "channels": {
                "General": {"messages": [said("m1", "Berth 7 closes Friday")]},
                "Tug": {"kind": "shared", "members": ["iris"], "shared_with": ["team:Sud"], "messages": [said("m2")]},
            },
        },
        "Sud": {"members": ["mina", "gus"], "channels": {"General": {"messages": []}}},
    }


def _readers(live: Live, snapshot: AccessSnapshot, team: str, channel: str) -> set[str]:
    """Who may read a channel by the snapshot."""
    wanted = scope_id(TENANT, live.channel_id(team, channel))
    (rule,) = [s.acl for s in snapshot.scopes if s.id == wanted]
    people = live.server.state.world.people
    return {p for p in people if rule.permits(closure(snapshot, live.principal(p)))}


def _members(live: Live, snapshot: AccessSnapshot, team: str, channel: str) -> frozenset[str] | None:
    wanted = principals.channel(live.channel_id(team, channel))
    (found,) = [c.members for c in snapshot.containers if c.principal == wanted]
    return found


def test_a_standard_channel_is_its_members_and_a_shared_one_those_of_the_other_team_too_but_not_its_guests(
    serve: Serve,
) -> None:
    live = serve(_tug(), people=["iris", "teo", "mina", "gus?", "outsider"])
    snapshot = live.connector.access()
    assert _readers(live, snapshot, "Nord", "General") == {"iris", "teo"}
    assert _readers(live, snapshot, "Nord", "Tug") == {"iris", "mina"}
    # A guest has an account here and is one of its team, though not of what others share into that.
    assert _readers(live, snapshot, "Sud", "General") == {"mina", "gus"}


def test_no_scope_is_open_to_everyone_where_the_setting_is_off_even_in_a_public_team(serve: Serve) -> None:
    teams = nord(said("m1"))
    teams["Nord"]["visibility"] = "public"
    live = serve(teams, public_teams_open=False)
    snapshot = live.connector.access()
    assert _readers(live, snapshot, "Nord", "General") == {"iris", "teo"}
    everyone = {principals.everyone(TENANT), principals.anyone(TENANT)}
    assert not any(scope.acl.mentioned() & everyone for scope in snapshot.scopes)


def test_a_public_team_opens_its_standard_channels_to_members_of_the_tenant_and_no_others(serve: Serve) -> None:
    teams = nord(said("m1"))
    teams["Nord"]["visibility"] = "public"
    teams["Nord"]["channels"]["Closed"] = {"kind": "private", "members": ["teo"], "messages": []}
    live = serve(teams, people=["iris", "teo", "mina", "gus?", "bot!"])
    snapshot = live.connector.access()
    assert _readers(live, snapshot, "Nord", "General") == {"iris", "teo", "mina"}
    assert _readers(live, snapshot, "Nord", "Closed") == {"teo"}


def test_owners_who_are_no_members_read_nothing(serve: Serve) -> None:
    teams = nord(said("m1"), members=["teo"])
    teams["Nord"]["owners"] = ["mina"]
    live = serve(teams)
    assert _readers(live, live.connector.access(), "Nord", "General") == {"teo"}


def test_a_member_row_that_does_not_say_who_is_skipped_and_counted(serve: Serve) -> None:
    def odd(path: str, data: Data) -> Data | None:
        if not path.endswith("/allMembers") or "@odata.nextLink" in data:
            return None
        rows = [
            {"id": "a", "userId": None, "tenantId": FOREIGN},
            {"id": "b", "userId": "11111111-2222-4333-8444-555555555555", "tenantId": None},
            {"id": "c", "userId": "+31 20 123", "tenantId": TENANT, "@odata.type": "#microsoft.graph.phoneMember"},
        ]
        return {"value": data["value"] + rows}

    live = serve(nord(said("m1")), rewrite=odd)
    snapshot = live.connector.access()
    assert snapshot.complete
    assert _readers(live, snapshot, "Nord", "General") == {"iris", "teo"}
    assert _members(live, snapshot, "Nord", "General") == {live.principal("iris"), live.principal("teo")}
    assert dict(snapshot.unknown_principals) == {
        "member without an id": 1,
        "member without a tenant": 1,
        "member:phoneMember": 1,
    }


def test_a_person_of_another_tenant_is_one_of_that_tenant_only(serve: Serve) -> None:
    def abroad(path: str, data: Data) -> Data | None:
        if not path.endswith("/allMembers"):
            return None
        # The same object id as mina's, in another directory; no name or address, as real rows of others have none.
        row = {"id": "x", "userId": live.server.state.oid("mina").upper(), "tenantId": FOREIGN.upper()}
        return {"value": [*data["value"], {**row, "displayName": None, "email": None}]}

    live = serve(_tug(), people=["iris", "teo", "mina", "gus?"])
    live.transport.rewrite = abroad
    snapshot = live.connector.access()
    foreign = principals.user(FOREIGN, live.server.state.oid("mina"))
    assert foreign in (_members(live, snapshot, "Nord", "General") or ())
    assert _readers(live, snapshot, "Nord", "General") == {"iris", "teo"}


def test_a_person_who_comes_by_two_ways_keeps_access_when_one_ends(serve: Serve) -> None:
    teams = _tug()
    teams["Nord"]["channels"]["Tug"]["members"] = ["iris", "mina"]
    happens = {"id": "off", "after": "1m", "remove_member": {"channel": "Nord/Tug", "who": "mina"}}
    live = serve(teams, people=["iris", "teo", "mina", "gus?"], events=[happens])
    assert _readers(live, live.connector.access(), "Nord", "Tug") == {"iris", "mina"}
    live.server.apply("off")
    assert _readers(live, live.connector.access(), "Nord", "Tug") == {"iris", "mina"}


@pytest.mark.parametrize("kind", ["unknownFutureValue", "hologram", None])
def test_a_channel_of_an_unknown_kind_is_nobodys_and_told(serve: Serve, kind: str | None) -> None:
    def new_kind(path: str, data: Data) -> Data | None:
        if not path.endswith("/channels"):
            return None
        return {**data, "value": [{**row, "membershipType": kind} for row in data["value"]]}

    live = serve(nord(said("m1")), rewrite=new_kind)
    kept = Kept()
    snapshot = kept.sync(live.connector)
    (scope,) = snapshot.scopes
    assert scope.acl == NOBODY
    assert snapshot.unknown_principals == {f"channel:{kind or 'unknown'}": 1, "no channel to read": 1}
    assert not kept.items
    assert any("Nord/General is of an unknown kind" in note for note in snapshot.notes)


def test_a_shared_channel_is_known_as_one_because_new_kinds_are_asked_for(serve: Serve) -> None:
    live = serve(_tug(), people=["iris", "teo", "mina", "gus?"])
    assert {s.kind for s in live.connector.access().scopes} == {"standard channel", "shared channel"}


def test_a_channel_of_another_tenant_is_not_read_and_told(serve: Serve) -> None:
    def foreign(path: str, data: Data) -> Data | None:
        if not path.endswith("/channels"):
            return None
        return {**data, "value": [{**row, "tenantId": FOREIGN} for row in data["value"]]}

    live = serve(nord(said("m1")), rewrite=foreign)
    kept = Kept()
    snapshot = kept.sync(live.connector)
    assert (snapshot.scopes, kept.items) == ((), {})
    assert snapshot.unknown_principals == {"channel of another tenant": 1, "no channel to read": 1}


def test_a_roster_that_breaks_off_is_no_roster_and_stops_no_other(serve: Serve) -> None:
    live = serve(_tug(), people=["iris", "teo", "mina", "gus?"], page=1)
    tug = live.channel_id("Nord", "Tug")
    live.server.faults.fail(f".*/{tug}/allMembers", status=403, times=None)
    snapshot = live.connector.access()
    assert not snapshot.complete
    assert _members(live, snapshot, "Nord", "Tug") is None
    assert _readers(live, snapshot, "Nord", "General") == {"iris", "teo"}
    assert any("Nord/Tug" in note for note in snapshot.notes)


def test_half_a_roster_is_not_kept(serve: Serve) -> None:
    seen: list[str] = []

    def second_page_fails(path: str, data: Data) -> Data | None:
        if not path.endswith("/allMembers"):
            return None
        seen.append(path)
        return data if len(seen) == 1 else {"error": "half"}

    live = serve(nord(said("m1")), page=1, rewrite=second_page_fails)
    snapshot = live.connector.access()
    assert len(seen) == 2
    assert _members(live, snapshot, "Nord", "General") is None
    assert not snapshot.complete


def test_an_empty_roster_is_written_as_one(serve: Serve) -> None:
    def nobody(path: str, data: Data) -> Data | None:
        return {"value": None} if path.endswith("/allMembers") else None

    live = serve(nord(said("m1")), rewrite=nobody)
    snapshot = live.connector.access()
    assert snapshot.complete
    assert _members(live, snapshot, "Nord", "General") == frozenset()
    assert _readers(live, snapshot, "Nord", "General") == set()


def test_a_list_of_channels_that_is_empty_for_a_moment_is_asked_for_again(serve: Serve) -> None:
    answers: list[str] = []

    def forgetful(path: str, data: Data) -> Data | None:
        if not path.endswith("/channels"):
            return None
        answers.append(path)
        return {"value": []} if len(answers) == 1 else None

    live = serve(nord(said("m1")), rewrite=forgetful)
    assert len(live.connector.access().scopes) == 1
    assert len(answers) == 2


def test_only_teams_on_the_allowlist_are_read_by_id_or_name_and_a_missing_one_is_told(serve: Serve) -> None:
    people = ["iris", "teo", "mina", "gus?"]
    live = serve(_tug(), people=people, teams=("Sud", "Nowhere"))
    snapshot = live.connector.access()
    assert {s.name for s in snapshot.scopes} == {"Sud/General", "Nord/Tug"}
    assert snapshot.unknown_principals["allowed team that is not there"] == 1
    by_id = live.settings.model_copy(update={"teams": (live.server.state.ids.team("Nord").upper(),)})
    again = type(live.connector)(by_id, client=live.client)
    assert {s.name for s in again.access().scopes} == {"Nord/General", "Nord/Tug"}


def test_a_refused_token_ends_the_pass_and_is_not_taken_for_unreadable_lists(serve: Serve) -> None:
    live = serve(nord(said("m1")))
    live.server.faults.fail(".*/allMembers", status=401, times=None)
    with pytest.raises(SourceAuthError):
        live.connector.access()


def test_renaming_team_channel_or_group_changes_no_access(serve: Serve) -> None:
    events = [
        {"id": "a", "after": "1m", "rename": {"what": "team:Nord", "to": "Sud"}},
        {"id": "b", "after": "2m", "rename": {"what": "channel:Nord/Tug", "to": "General"}},
    ]
    live = serve(_tug(), people=["iris", "teo", "mina", "gus?"], events=events)
    before = {s.id: s.acl.allowed_principals() for s in live.connector.access().scopes}
    live.server.apply("b")
    snapshot = live.connector.access()
    assert {s.id: s.acl.allowed_principals() for s in snapshot.scopes} == before
    state = live.server.state
    for person in state.world.people:
        for channel in ("General", "Tug"):
            may = access.may_read(state, person, f"channel:Nord/{channel}")
            assert (person in _readers(live, snapshot, "Nord", channel)) == may


def test_a_channel_takes_its_teams_label_unless_it_has_its_own(serve: Serve) -> None:
    teams = _tug()
    teams["Nord"]["label"] = "internal"
    teams["Nord"]["channels"]["Tug"]["label"] = "secret"
    live = serve(teams, people=["iris", "teo", "mina", "gus?"], labels=["internal", "secret"])
    labels = {s.name: s.label for s in live.connector.access().scopes}
    assert labels == {"Nord/General": "internal", "Nord/Tug": "secret", "Sud/General": None}
