"""Projects, credentials, versions and refusals, as the SDK and plain REST meet them."""

from __future__ import annotations

import base64
from typing import Any

import httpx
import pytest

from fixtures.sandbox.server import SandboxServer
from tests.sandbox.ado import Rest


def test_projects_come_in_pages_and_all_of_them_come(rest: Rest) -> None:
    pages = rest.header_pages("/_apis/projects")
    assert len(pages) > 1
    names = [row["name"] for rows in pages for row in rows]
    assert names == ["P", "Quay", "Rock", "Salt", "Tide and time"]
    assert {row["name"]: row["visibility"] for rows in pages for row in rows} == {
        "P": "private", "Quay": "organization", "Rock": "public", "Salt": "private", "Tide and time": "private",
    }  # fmt: skip


def test_asking_for_more_rows_than_the_server_gives_does_not_help(rest: Rest) -> None:
    assert len(rest.get("/_apis/projects", **{"$top": 100})["value"]) == 2


def test_the_sdk_reads_projects_their_properties_and_teams(clients: Any) -> None:
    core = clients.get_core_client()
    projects = core.get_projects()
    assert [p.name for p in projects] == ["P", "Quay"]
    project = core.get_project("P")
    assert project.id == projects[0].id
    properties = {p.name: p.value for p in core.get_project_properties(project.id)}
    assert properties["System.SensitivityLabel"] == "Public"
    teams = core.get_teams(project.id)
    assert [t.name for t in teams] == ["P Team"]
    assert core.get_team(project.id, teams[0].id).name == "P Team"
    assert len(core.get_all_teams()) == 5
    assert core.get_team_members_with_extended_properties(project.id, teams[0].id) == []


def test_a_project_carries_its_own_label_and_no_other(rest: Rest) -> None:
    assert rest.get("/_apis/projects/P")["sensitivityLabel"] == "Public"
    assert "sensitivityLabel" not in rest.get("/_apis/projects/Salt")


def test_connection_data_names_the_connector_and_nobody_of_the_world(clients: Any, rest: Rest) -> None:
    assert rest.get("/_apis/connectionData")["authenticatedUser"]["providerDisplayName"] == "Context Engine Connector"
    assert rest.get("/_apis/ResourceAreas/4e080c62-fa21-4fbc-8fef-2a10a2b38049")["name"] == "git"


def test_every_area_is_at_the_one_address(ado: SandboxServer, rest: Rest) -> None:
    rows = rest.get("/_apis/ResourceAreas")["value"]
    assert {row["locationUrl"] for row in rows} == {ado.ado_url + "/"}


def test_options_announces_resources_with_templates_and_versions(rest: Rest) -> None:
    answer = rest.client.options("/_apis")
    rows = {row["id"]: row for row in answer.json()["value"]}
    assert answer.status_code == 200
    revisions = rows["f828fe59-dd87-495d-a17c-7a8d6211ca6c"]
    assert revisions["routeTemplate"] == "{project}/_apis/{area}/reporting/{resource}"
    assert rows["608aac0a-32e1-4493-a863-b9cf4566d257"]["releasedVersion"] == "0.0"
    git = rest.client.options("/_apis/git").json()["value"]
    assert {row["area"] for row in git} == {"git"}


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("password", ["wrong", ""])
def test_a_wrong_credential_looks_like_success_with_a_sign_in_page(
    ado: SandboxServer, method: str, password: str
) -> None:
    answer = httpx.request(method, f"{ado.ado_url}/_apis/projects", auth=("", password), trust_env=False)
    assert answer.status_code == 203
    assert answer.headers["content-type"].startswith("text/html")
    assert "Sign In" in answer.text


def test_no_credential_at_all_gets_the_sign_in_page_too(ado: SandboxServer) -> None:
    assert httpx.get(f"{ado.ado_url}/_apis/projects", trust_env=False).status_code == 203


def test_a_wrong_credential_on_a_change_and_one_that_is_no_base64_are_401(ado: SandboxServer) -> None:
    url = f"{ado.ado_url}/_apis/projects"
    patched = httpx.patch(url, auth=("", "wrong"), json={}, trust_env=False)
    assert (patched.status_code, patched.json()["typeKey"]) == (401, "UnauthorizedRequestException")
    assert patched.json()["message"].startswith("TF400813")
    stray = base64.b64encode(b":sandbox-pat").decode().rstrip("=") + "==="
    assert httpx.get(url, headers={"Authorization": f"Basic {stray}"}, trust_env=False).status_code == 401


def test_any_user_part_goes_with_the_pat(ado: SandboxServer) -> None:
    answer = httpx.get(f"{ado.ado_url}/_apis/projects", auth=("whoever", "sandbox-pat"), trust_env=False)
    assert answer.headers["content-type"].startswith("application/json")


def test_a_redirect_to_the_sign_in_page_and_throttling_can_be_set(ado: SandboxServer, rest: Rest) -> None:
    path = "/ado/Small/_apis/projects"
    ado.faults.fail(path, status=302)
    assert rest.client.get("/_apis/projects").headers["location"].endswith("/_signin")
    ado.faults.throttle(path, retry_after=7)
    throttled = rest.client.get("/_apis/projects")
    assert (throttled.status_code, throttled.headers["retry-after"]) == (429, "7")
    assert throttled.json()["message"].startswith("TF400733")
    assert rest.client.get("/_apis/projects").status_code == 200


def test_what_is_missing_is_refused_with_a_type_and_a_code(rest: Rest) -> None:
    assert rest.refused("/_apis/projects/Nowhere")[:2] == (404, "ProjectDoesNotExistWithNameException")
    status, key, message = rest.refused("/P/_apis/git/repositories/nowhere")
    assert (status, key, message[:8]) == (404, "GitRepositoryNotFoundException", "TF401019")
    status, _, message = rest.refused("/_apis/wit/workitems/77777")
    assert (status, message[:8]) == (404, "TF401232")
    assert rest.refused("/_apis/nothing/here")[0] == 404


def test_another_organization_is_not_served(ado: SandboxServer) -> None:
    answer = httpx.get(f"{ado.base_url}/ado/other/_apis/projects", auth=("", "sandbox-pat"), trust_env=False)
    assert (answer.status_code, answer.json()["typeKey"]) == (404, "AccountNotFoundException")


def test_names_of_organization_paths_and_parameters_ignore_case(ado: SandboxServer, rest: Rest) -> None:
    url = f"{ado.base_url}/ado/SMALL/p/_APIS/WIT/workitems/1"
    answer = httpx.get(url, params={"$EXPAND": "all", "API-Version": "7.1"}, auth=("", "sandbox-pat"), trust_env=False)
    assert "relations" in answer.json()


@pytest.mark.parametrize(
    ("path", "version", "key"),
    [
        ("/P/_apis/wit/workItems/1/comments", "7.1", "VssInvalidPreviewVersionException"),
        ("/P/_apis/wit/workItems/1/comments", None, "VssVersionNotSpecifiedException"),
        ("/_apis/projects", "9.0", "VssVersionOutOfRangeException"),
        ("/_apis/projects", "new", "VssVersionFormatException"),
    ],
)
def test_versions_are_checked_as_by_the_real_service(rest: Rest, path: str, version: str | None, key: str) -> None:
    answer = rest.client.get(path, params={"api-version": version} if version else {})
    assert (answer.status_code, answer.json()["typeKey"]) == (400, key)


def test_a_version_may_stand_in_the_accept_header(rest: Rest) -> None:
    headers = {"Accept": "application/json;api-version=7.1-preview.4"}
    assert rest.client.get("/P/_apis/wit/workItems/1/comments", headers=headers).status_code == 200


def test_a_method_that_a_resource_does_not_have_is_405(rest: Rest) -> None:
    assert rest.client.delete("/_apis/projects/P").status_code == 405


def test_hooks_have_event_types_and_no_subscriptions(clients: Any, rest: Rest) -> None:
    hooks = clients.get_service_hooks_client()
    events = {event.id for event in hooks.list_event_types("tfs")}
    assert {"workitem.deleted", "git.push", "git.pullrequest.updated"} <= events
    assert not any("permission" in event or "acl" in event for event in events)
    assert hooks.list_subscriptions() == []
    assert [p.id for p in hooks.list_publishers()] == ["tfs"]
