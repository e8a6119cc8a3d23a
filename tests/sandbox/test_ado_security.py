"""Permissions: a world's entries as masks on tokens, and what the caller may do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fixtures.sandbox.server import SandboxServer
from tests.sandbox.ado import CSS, GIT, PROJECT, P, Rest, ado_world


@pytest.fixture(scope="module")
def security(clients: Any) -> Any:
    return clients.get_security_client()


def names(rest: Rest, namespace: str, **params: Any) -> dict[str, dict[str, tuple[int, int]]]:
    """Masks by token and by the display name of whom they are for."""
    found: dict[str, dict[str, tuple[int, int]]] = {}
    for row in rest.get(f"/_apis/accesscontrollists/{namespace}", **params)["value"]:
        entries = found.setdefault(row["token"], {})
        for descriptor, ace in row["acesDictionary"].items():
            who = rest.get("/_apis/identities", descriptors=descriptor)["value"][0]["providerDisplayName"]
            entries[who] = (ace["allow"], ace["deny"])
    return found


def area_token(rest: Rest, *path: str) -> str:
    node = rest.get("/P/_apis/wit/classificationnodes/Areas", **{"$depth": 9})
    chain = [node]
    for name in path:
        node = next(child for child in node["children"] if child["name"] == name)
        chain.append(node)
    return ":".join(f"vstfs:///Classification/Node/{one['identifier']}" for one in chain)


def test_namespaces_declare_the_bits_of_reading(security: Any) -> None:
    found = {str(n.namespace_id): n for n in security.query_security_namespaces()}
    bits = {key: {action.name: action.bit for action in found[key].actions} for key in (GIT, CSS, PROJECT)}
    assert bits[GIT]["GenericRead"] == 2
    assert bits[CSS]["WORK_ITEM_READ"] == 16
    assert bits[PROJECT]["GENERIC_READ"] == 1
    assert [found[GIT].separator_value, found[CSS].separator_value] == ["/", ":"]
    assert security.query_security_namespaces(GIT)[0].name == "Git Repositories"


def test_a_project_list_stands_on_its_token_alone(rest: Rest) -> None:
    project = rest.get("/_apis/projects/P")["id"]
    token = f"$PROJECT:vstfs:///Classification/TeamProject/{project}"
    assert names(rest, PROJECT, token=token) == {
        token: {"[TEAM FOUNDATION]\\Staff": (3, 0), "[Small]\\Ops": (1, 0)},
    }
    assert names(rest, GIT, token=f"repoV2/{project}") == {}
    assert names(rest, CSS, token=area_token(rest)) == {}


def test_reading_and_other_rights_are_different_bits(rest: Rest) -> None:
    project, repo = rest.get("/_apis/projects/P")["id"], rest.get("/P/_apis/git/repositories/app")["id"]
    token = f"repoV2/{project}/{repo}"
    assert names(rest, GIT, token=token) == {token: {"[Small]\\Ops": (4, 8), "Cat Castle": (0, 2)}}


def test_a_node_that_cuts_inheritance_says_so_even_without_entries(security: Any, rest: Rest) -> None:
    rows = {row.token: row for row in security.query_access_control_lists(CSS, token=area_token(rest), recurse=True)}
    sales, europe = area_token(rest, "Sales"), area_token(rest, "Sales", "EU")
    assert set(rows) == {sales, europe}
    assert (rows[sales].inherit_permissions, rows[europe].inherit_permissions) == (True, False)
    assert rows[europe].aces_dictionary == {}
    assert [ace.deny for ace in rows[sales].aces_dictionary.values()] == [16]
    assert area_token(rest, "Empty") not in rows


def test_a_branch_list_never_gives_reading(rest: Rest) -> None:
    project, repo = rest.get("/_apis/projects/P")["id"], rest.get("/P/_apis/git/repositories/app")["id"]
    token = f"repoV2/{project}/{repo}/refs/heads/6d00610069006e00"
    assert names(rest, GIT, token=token) == {token: {"Ben Baker": (0, 8)}}


def test_a_project_wikis_list_stands_on_its_hidden_repository(rest: Rest) -> None:
    project, wiki = rest.get("/_apis/projects/P")["id"], rest.get("/P/_apis/wiki/wikis/P.wiki")["id"]
    token = f"repoV2/{project}/{wiki}"
    assert names(rest, GIT, token=token.upper() + "/") == {token: {"Gil Guest": (2, 0)}}


def test_recursion_stays_below_the_token_and_no_token_gives_all(security: Any, rest: Rest) -> None:
    project = rest.get("/_apis/projects/P")["id"]
    below = security.query_access_control_lists(GIT, token=f"repoV2/{project}", recurse=True)
    assert len(below) == 3
    assert len(security.query_access_control_lists(GIT)) == 3
    assert len(security.query_access_control_lists(PROJECT)) == 3
    assert security.query_access_control_lists(GIT, token="repoV2", recurse=False) == []


def test_a_query_can_name_descriptors_and_ask_for_effective_masks(rest: Rest) -> None:
    every = rest.get(f"/_apis/accesscontrollists/{GIT}", includeExtendedInfo=True)["value"]
    repo = next(row for row in every if "/refs/" not in row["token"] and len(row["acesDictionary"]) == 2)
    ops = next(ace for ace in repo["acesDictionary"].values() if ace["allow"])
    assert ops["extendedInfo"] == {"effectiveAllow": 4, "effectiveDeny": 8}
    only = rest.get(f"/_apis/accesscontrollists/{GIT}", token=repo["token"], descriptors=ops["descriptor"])["value"]
    assert list(only[0]["acesDictionary"]) == [ops["descriptor"]]


def test_the_caller_reads_what_is_there_and_may_do_nothing_else(security: Any, rest: Rest) -> None:
    project, repo = rest.get("/_apis/projects/P")["id"], rest.get("/P/_apis/git/repositories/app")["id"]
    tokens = f"repoV2/{project}/{repo},repoV2/{project}/nothing"
    assert security.has_permissions(GIT, permissions=2, tokens=tokens) == [True, False]
    assert security.has_permissions(GIT, permissions=4, tokens=f"repoV2/{project}/{repo}") == [False]
    body = {"evaluations": [{"securityNamespaceId": CSS, "token": area_token(rest, "Sales"), "permissions": 16}]}
    assert rest.post("/_apis/security/permissionevaluationbatch", body)["evaluations"][0]["value"] is True
    assert rest.refused("/_apis/accesscontrollists/00000000-0000-0000-0000-000000000000")[0] == 404


def test_a_changed_list_is_served_at_once(tmp_path: Path) -> None:
    acl = [{"to": "ann", "allow": ["read"]}, {"to": "ann", "deny": ["delete"]}]
    events = [{"id": "shut", "after": "1m", "set_acl": {"on": "area:P/Empty", "acl": acl, "inherit": False}}]
    with SandboxServer(ado_world({"P": P, "Salt": {}}, events=events), tmp_path, remember=False) as server:
        rest = Rest(server)
        token = area_token(rest, "Empty")
        assert names(rest, CSS, token=token) == {}
        server.apply("shut")
        assert names(rest, CSS, token=token) == {token: {"Ann Arbor": (16, 8)}}
        assert rest.get(f"/_apis/accesscontrollists/{CSS}", token=token)["value"][0]["inheritPermissions"] is False
