"""Users, groups and memberships as Microsoft Graph serves them, in pages and in delta rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from fixtures.sandbox.server import SandboxServer
from tests.sandbox import small
from tests.sandbox.begun_again import begun_again
from tests.sandbox.small import Client, Serve, walk

pytest_plugins = ["tests.sandbox.live"]

TEAMS: dict[str, Any] = {
    "Red": {"members": ["dan", "group:inner"], "owners": ["cat", "ann"], "label": "Secret", "channels": {}},
    "Blue": {"members": ["gil"], "visibility": "public", "channels": {}},
}
EVENTS = [
    {"id": "joins", "after": "1m", "add_member": {"group": "inner", "who": "cat"}},
    {"id": "leaves", "after": "2m", "remove_member": {"team": "Red", "who": "dan"}},
    {"id": "off", "after": "3m", "disable_person": {"who": "ben"}},
    {"id": "gone", "after": "4m", "delete": {"item": "person:gil"}},
    {"id": "team-gone", "after": "5m", "delete": {"item": "team:Blue"}},
]


@pytest.fixture(scope="module")
def begin(tmp_path_factory: pytest.TempPathFactory, made_keys: Path) -> Iterator[Callable[[], SandboxServer]]:
    with begun_again(
        *(tmp_path_factory.mktemp("sandbox"), made_keys),
        small.world(teams=TEAMS, events=EVENTS),
    ) as made:
        yield made


@pytest.fixture
def server(begin: Callable[[], SandboxServer]) -> SandboxServer:
    return begin()


@pytest.fixture
def client(server: SandboxServer, graph_client: Client) -> httpx.Client:
    return graph_client(server)


def names(rows: list[Any]) -> list[str]:
    return sorted(row["displayName"] for row in rows)


def oid(server: SandboxServer, person: str) -> str:
    return server.state.oid(person)


def gid(server: SandboxServer, group: str) -> str:
    return server.state.ids.group(group)


def test_users_come_in_pages_without_service_principals(client: httpx.Client) -> None:
    rows, _, pages = walk(client, "/users")
    assert names(rows) == ["Ann Arbor", "Ben Baker", "Cat Castle", "Dan Dale", "Eve Eastwood", "Gil Guest"]
    assert pages == 2
    assert "accountEnabled" not in rows[0]  # only who selects it gets it
    assert names(walk(client, "/servicePrincipals")[0]) == ["Build Bot"]


def test_select_gives_what_it_names(client: httpx.Client) -> None:
    rows = walk(client, "/users?$select=displayName,accountEnabled,userType")[0]
    seen = {row["displayName"]: (row["accountEnabled"], row["userType"]) for row in rows}
    assert seen["Eve Eastwood"] == (False, "Member")
    assert seen["Gil Guest"] == (True, "Guest")
    assert set(rows[0]) == {"id", "displayName", "accountEnabled", "userType"}


def test_a_user_is_found_by_id_and_upn_and_has_a_manager(server: SandboxServer, client: httpx.Client) -> None:
    by_upn = client.get("/users/ben@small.example").json()
    assert by_upn["id"] == oid(server, "ben")
    assert client.get(f"/users/{by_upn['id']}/manager").json()["displayName"] == "Ann Arbor"
    missing = client.get("/users/nobody")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "Request_ResourceNotFound")


def test_groups_hold_entra_groups_everyone_and_teams_but_no_azure_devops_groups(client: httpx.Client) -> None:
    assert names(walk(client, "/groups")[0]) == ["Blue", "Everyone", "Inner", "Red", "Staff"]
    teams = walk(
        client, "/groups?$filter=resourceProvisioningOptions/Any(x:x eq 'Team')&$select=displayName,assignedLabels"
    )[0]
    assert {team["displayName"]: [x["displayName"] for x in team["assignedLabels"]] for team in teams} == {
        "Blue": [],
        "Red": ["Secret"],
    }
    assert client.get("/groups?$filter=startswith(displayName,'R')").status_code == 400


def test_members_are_direct_and_transitive_members_are_all_in_spite_of_a_cycle(
    server: SandboxServer, client: httpx.Client
) -> None:
    staff = gid(server, "staff")
    assert names(walk(client, f"/groups/{staff}/members")[0]) == ["Ann Arbor", "Inner"]
    assert names(walk(client, f"/groups/{staff}/transitiveMembers")[0]) == ["Ann Arbor", "Ben Baker", "Inner"]
    people = walk(client, f"/groups/{staff}/transitiveMembers/microsoft.graph.user")[0]
    assert names(people) == ["Ann Arbor", "Ben Baker"]


def test_everyone_is_members_of_the_tenant_only(server: SandboxServer, client: httpx.Client) -> None:
    rows = walk(client, f"/groups/{gid(server, 'everyone')}/members")[0]
    assert names(rows) == ["Ann Arbor", "Ben Baker", "Cat Castle", "Dan Dale", "Eve Eastwood"]


def test_a_team_is_a_group_of_people_whose_owners_are_no_members(server: SandboxServer, client: httpx.Client) -> None:
    red = server.state.ids.team("Red")
    assert names(walk(client, f"/groups/{red}/members")[0]) == ["Ann Arbor", "Ben Baker", "Dan Dale"]
    assert names(walk(client, f"/groups/{red}/owners")[0]) == ["Ann Arbor", "Cat Castle"]


def test_what_a_person_is_in(server: SandboxServer, client: httpx.Client) -> None:
    rows = walk(client, f"/users/{oid(server, 'ben')}/transitiveMemberOf")[0]
    assert names(rows) == ["Everyone", "Inner", "Red", "Staff"]
    ids = client.post(f"/users/{oid(server, 'ben')}/getMemberGroups", json={"securityEnabledOnly": False}).json()[
        "value"
    ]
    assert sorted(ids) == sorted(row["id"] for row in rows)
    secure = client.post(f"/users/{oid(server, 'ben')}/getMemberGroups", json={"securityEnabledOnly": True}).json()
    assert server.state.ids.team("Red") not in secure["value"]


def test_an_azure_devops_group_in_an_entra_group_is_served_as_its_members(serve: Serve, graph_client: Client) -> None:
    groups = small.GROUPS | {"mixed": {"name": "Mixed", "members": ["group:ops"]}}
    events = [{"id": "e", "after": "1m", "add_member": {"group": "ops", "who": "gil"}}]
    server = serve(small.world(groups=groups, events=events))
    client = graph_client(server)
    assert names(walk(client, f"/groups/{gid(server, 'mixed')}/members")[0]) == ["Cat Castle", "Inner"]
    _, link, _ = walk(client, "/groups/delta")
    server.apply("e")
    rows = walk(client, link or "")[0]
    assert [(row["displayName"], row["members@delta"]) for row in rows] == [
        ("Mixed", [{"@odata.type": "#microsoft.graph.user", "id": oid(server, "gil")}])
    ]


def test_a_first_delta_round_tells_everything_and_may_begin_with_an_empty_page(client: httpx.Client) -> None:
    first = client.get("/users/delta").json()
    assert first["value"] == []
    assert "@odata.nextLink" in first
    rows, link, _ = walk(client, "/users/delta?$select=displayName,accountEnabled")
    assert len(rows) == 6
    assert link is not None
    again, second, _ = walk(client, link)
    assert again == []
    assert second is not None


def test_user_delta_tells_disabled_and_deleted_people(server: SandboxServer, client: httpx.Client) -> None:
    _, link, _ = walk(client, "/users/delta?$select=accountEnabled")
    server.apply("gone")
    rows = walk(client, link or "")[0]
    assert {"id": oid(server, "ben"), "accountEnabled": False} in rows
    assert {"id": oid(server, "gil"), "@removed": {"reason": "changed"}} in rows
    assert names(walk(client, "/directory/deletedItems/microsoft.graph.user")[0]) == ["Gil Guest"]


def test_group_delta_tells_direct_members_that_came_and_went(server: SandboxServer, client: httpx.Client) -> None:
    rows, link, _ = walk(client, "/groups/delta?$select=displayName,members")
    members: dict[str, set[str]] = {}
    for row in rows:  # a long list comes in parts
        members.setdefault(row["displayName"], set()).update(m["id"] for m in row.get("members@delta", []))
    assert members["Staff"] == {oid(server, "ann"), gid(server, "inner")}
    assert len(members["Everyone"]) == 5
    server.apply("team-gone")
    changed = walk(client, link or "")[0]
    by_name = {row.get("displayName"): row for row in changed}
    assert by_name["Inner"]["members@delta"] == [{"@odata.type": "#microsoft.graph.user", "id": oid(server, "cat")}]
    red = {m["id"]: "@removed" in m for m in by_name["Red"]["members@delta"]}
    assert red == {oid(server, "cat"): False, oid(server, "dan"): True}  # the first through inner, which it holds
    assert {"id": server.state.ids.team("Blue"), "@removed": {"reason": "changed"}} in changed


def test_a_delta_round_from_now_on_is_empty(client: httpx.Client) -> None:
    rows, link, _ = walk(client, "/users/delta?$deltatoken=latest")
    assert rows == []
    assert link is not None


def test_an_expired_delta_link_is_gone_and_says_where_to_begin(server: SandboxServer, client: httpx.Client) -> None:
    _, link, _ = walk(client, "/users/delta")
    server.faults.expire_delta_links()
    answer = client.get(link or "")
    assert (answer.status_code, answer.json()["error"]["code"]) == (410, "syncStateNotFound")
    assert answer.headers["location"].endswith("/users/delta?$deltatoken=")
    assert len(walk(client, "/users/delta")[0]) == 6


@pytest.mark.parametrize("query", ["$skiptoken=nonsense", "$deltatoken=e30", "$deltatoken=W10"])
def test_a_token_that_was_never_given_is_a_bad_request(client: httpx.Client, query: str) -> None:
    assert client.get(f"/users/delta?{query}").status_code == 400


@pytest.mark.parametrize("option", ["$top=5", "$expand=members", "$orderby=id", "$filter=x"])
def test_a_delta_query_refuses_options_that_it_does_not_know(client: httpx.Client, option: str) -> None:
    assert client.get(f"/groups/delta?{option}").status_code == 400


@pytest.mark.parametrize(
    ("odd", "status"),
    [
        ({"audience": "api://context-engine"}, 401),
        ({"audience": "https://graph.microsoft.com", "expires_in": -60}, 401),
        ({"audience": "https://graph.microsoft.com", "signing": "none"}, 401),
        ({"audience": "https://graph.microsoft.com", "signing": "foreign_key"}, 401),
        ({"audience": "https://graph.microsoft.com"}, 403),
    ],
)
def test_graph_refuses_a_bad_token_and_one_without_rights(server: SandboxServer, odd: Any, status: int) -> None:
    token = server.token("ann", **odd)
    answer = httpx.get(f"{server.graph_url}/users", headers={"Authorization": f"Bearer {token}"}, trust_env=False)
    assert answer.status_code == status
    assert (
        answer.json()["error"]["code"]
        == {401: "InvalidAuthenticationToken", 403: "Authorization_RequestDenied"}[status]
    )


def test_graph_refuses_a_request_without_a_token(server: SandboxServer) -> None:
    assert httpx.get(f"{server.graph_url}/users", trust_env=False).status_code == 401
