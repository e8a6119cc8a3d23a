"""The directory: accounts, and groups in groups, over as many pages as it takes."""

from __future__ import annotations

from core import principals
from ingestion.connector import PersonKind
from tests.ingestion.teams.conftest import Serve
from tests.ingestion.teams.small import nord, said
from tests.ingestion.teams.support import TENANT, Data, Live, closure


def _group(live: Live, key: str) -> principals.Principal:
    return principals.group(TENANT, live.server.state.ids.group(key))


def test_nested_groups_cycles_and_the_second_page_are_all_followed(serve: Serve) -> None:
    """C015: three nested groups that end in a cycle, and 250 direct ones, at 100 a page."""
    groups: Data = {f"extra{n}": {"name": "Extra", "members": ["iris"]} for n in range(250)}
    groups |= {
        "l1": {"name": "L1", "members": ["iris", "group:l3"]},
        "l2": {"name": "L2", "members": ["group:l1"]},
        "l3": {"name": "L3", "members": ["group:l2"]},
    }
    live = serve(nord(said("m1")), groups=groups, page=100)
    mine = closure(live.connector.access(), live.principal("iris"))
    found = {p for p in mine if principals.kind_of(p) == "group"}
    everyone, team = _group(live, "everyone"), principals.group(TENANT, live.server.state.ids.team("Nord"))
    assert found == {_group(live, key) for key in groups} | {everyone, team}
    assert len(found) == 253 + 2


def test_groups_of_one_name_are_two_groups_and_a_rename_changes_no_membership(serve: Serve) -> None:
    groups = {
        "a": {"name": "Contributors", "members": ["iris"]},
        "b": {"name": "Contributors", "members": ["teo"]},
    }
    events = [{"id": "named", "after": "1m", "rename": {"what": "group:a", "to": "Readers"}}]
    live = serve(nord(said("m1")), groups=groups, events=events)
    for _ in range(2):
        snapshot = live.connector.access()
        assert _group(live, "a") in closure(snapshot, live.principal("iris"))
        assert _group(live, "a") not in closure(snapshot, live.principal("teo"))
        live.server.apply("named")


def test_where_the_delta_is_refused_groups_are_read_one_by_one_and_one_that_fails_is_unread_alone(serve: Serve) -> None:
    groups = {"a": {"name": "A", "members": ["iris"]}, "b": {"name": "B", "members": ["teo"]}}
    live = serve(nord(said("m1")), groups=groups)
    live.server.faults.fail(".*/groups/delta", status=403, times=None)
    live.server.faults.fail(f".*/groups/{live.server.state.ids.group('a')}/members", status=403, times=None)
    snapshot = live.connector.access()
    members = {c.principal: c.members for c in snapshot.containers}
    assert members[_group(live, "a")] is None
    assert members[_group(live, "b")] == {live.principal("teo")}
    assert not snapshot.complete


def test_a_null_list_of_members_is_an_empty_group(serve: Serve) -> None:
    """C022."""
    groups = {"a": {"name": "A", "members": ["iris"]}, "b": {"name": "B", "members": ["teo"]}}
    live = serve(nord(said("m1")), groups=groups)
    group_a = live.server.state.ids.group("a")

    def null(path: str, data: Data) -> Data | None:
        rows = [{**row, "members@delta": None} if row["id"] == group_a else row for row in data["value"]]
        return {**data, "value": rows} if path == "/groups/delta" else None

    live.transport.rewrite = null
    snapshot = live.connector.access()
    assert snapshot.complete
    members = {c.principal: c.members for c in snapshot.containers}
    assert (members[_group(live, "a")], members[_group(live, "b")]) == (frozenset(), {live.principal("teo")})


def test_guests_services_and_accounts_that_are_off_are_not_everyone(serve: Serve) -> None:
    events = [{"id": "off", "after": "1m", "disable_person": {"who": "mina"}}]
    live = serve(nord(said("m1")), people=["iris", "teo", "mina", "gus?", "bot!"], events=events)
    live.server.apply("off")
    snapshot = live.connector.access()
    members = {c.principal: c.members for c in snapshot.containers}
    assert members[principals.everyone(TENANT)] == {live.principal("iris"), live.principal("teo")}
    assert members[principals.anyone(TENANT)] == {live.principal(x) for x in ("iris", "teo", "gus")}
    people = {p.principal: p for p in snapshot.people}
    assert not people[live.principal("mina")].enabled
    assert people[live.principal("bot")].kind is PersonKind.SERVICE


def test_an_account_that_graph_does_not_call_enabled_is_not(serve: Serve) -> None:
    def silent(path: str, data: Data) -> Data | None:
        if path not in ("/users", "/servicePrincipals"):
            return None
        return {**data, "value": [{k: v for k, v in row.items() if k != "accountEnabled"} for row in data["value"]]}

    live = serve(nord(said("m1")), people=["iris", "teo", "bot!"], rewrite=silent)
    assert not any(p.enabled for p in live.connector.access().people)


def test_a_member_of_an_unknown_kind_is_nobody_and_counted(serve: Serve) -> None:
    odd: Data = {
        "everyone": {"id": "1", "@odata.type": "#microsoft.graph.device"},
        "a": {"@odata.type": "#microsoft.graph.user"},
        "b": {"id": "2", "@odata.type": "#microsoft.graph.hologram"},
    }

    def with_odd(path: str, data: Data) -> Data | None:
        if path != "/groups/delta":
            return None
        added = {live.server.state.ids.group(key): member for key, member in odd.items()}
        rows = [
            {**row, "members@delta": [*row.get("members@delta", ()), added[row["id"]]]} if row["id"] in added else row
            for row in data["value"]
        ]
        return {**data, "value": rows}

    live = serve(nord(said("m1")), groups={key: {"name": key, "members": ["iris"]} for key in "ab"})
    live.transport.rewrite = with_odd
    snapshot = live.connector.access()
    assert snapshot.complete
    assert dict(snapshot.unknown_principals) == {"device": 1, "member without an id": 1, "hologram": 1}
    half = {c.name: c.half_known for c in snapshot.containers if c.kind == "group"}
    # A device asks nothing; of the others nobody can tell whom a deny of the group would mean.
    assert half == {"Everyone": False, "a": True, "b": True, "Nord": False}


def test_a_tenant_that_does_not_show_its_service_principals_is_read_without_them(serve: Serve) -> None:
    live = serve(nord(said("m1")), people=["iris", "teo", "bot!"])
    live.server.faults.fail(".*/servicePrincipals", status=403, times=None)
    snapshot = live.connector.access()
    assert snapshot.complete
    assert {p.principal for p in snapshot.people} == {live.principal("iris"), live.principal("teo")}
    assert any("service principals" in note for note in snapshot.notes)
