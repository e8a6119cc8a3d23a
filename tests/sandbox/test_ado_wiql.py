"""Queries: ids only, dates with and without their time, and an error past the size limit."""

from __future__ import annotations

from typing import Any

import pytest
from azure.devops.v7_1.work_item_tracking.models import Wiql
from fastapi import FastAPI
from fastapi.testclient import TestClient

from fixtures.sandbox.azure_devops import Limits, build_route
from fixtures.sandbox.state import SandboxState
from tests.sandbox.ado import Rest, ado_world


def ids(rest: Rest, where: str, project: str = "", **params: Any) -> list[int]:
    body = {"query": f"SELECT [System.Id], [System.Title] FROM WorkItems WHERE {where}"}
    answer = rest.post(f"{project}/_apis/wit/wiql", body, **params)
    assert all(set(row) == {"id", "url"} for row in answer["workItems"])
    return [row["id"] for row in answer["workItems"]]


def refused(rest: Rest, query: str, **params: Any) -> str:
    answer = rest.client.post("/_apis/wit/wiql", json={"query": query}, params={"api-version": "7.1", **params})
    assert answer.status_code == 400, answer.text
    return str(answer.json()["message"])


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("[System.Id] = 1", [1]),
        ("[System.Id] > 2 AND [System.Id] <= 100 ORDER BY [System.Id] DESC", [100, 3]),
        ("[System.Id] IN (1, 3, 9)", [1, 3]),
        ("[System.Id] NOT IN (1) AND NOT ([System.Id] > 3)", [2, 3]),
        ("[System.Title] CONTAINS 'root'", [1]),
        ("[System.Tags] CONTAINS 'tax' OR [System.Id] = 2", [1, 2]),
        ("[System.AreaPath] UNDER 'P\\Sales'", [1, 2]),
        ("[System.AreaPath] = 'P\\Sales'", [1]),
        ("[System.AssignedTo] = 'Ben Baker'", [1]),
        ("[System.AssignedTo] = 'ben@small.example'", [1]),
        ("[System.State] <> 'New' AND [System.TeamProject] = 'P'", [2]),
        ("[System.TeamProject] = 'Tide and time'", [500]),
        ("[Microsoft.VSTS.Common.ClosedDate] IS NOT EMPTY", [2]),
        ("[System.ChangedDate] >= '2026-02-10'", [1, 2]),
        ("[System.ChangedDate] > @today - 15 AND [System.Id] < 100", [2]),
    ],
)
def test_conditions_find_what_they_say(rest: Rest, where: str, found: list[int]) -> None:
    assert ids(rest, where) == found


def test_the_project_of_the_address_is_a_macro_and_no_filter(rest: Rest) -> None:
    assert ids(rest, "[System.Id] = 500", "/P") == [500]
    assert ids(rest, "[System.TeamProject] = @project", "/Tide and time") == [500]
    assert "@project" in refused(rest, "SELECT [System.Id] FROM WorkItems WHERE [System.TeamProject] = @project")


def test_a_time_of_day_needs_time_precision(rest: Rest) -> None:
    query = "[System.ChangedDate] >= '2026-02-10T09:00:01Z' AND [System.Id] < 3"
    assert "date precision" in refused(rest, f"SELECT [System.Id] FROM WorkItems WHERE {query}")
    assert ids(rest, query, timePrecision=True) == [2]
    assert ids(rest, query.replace(":01Z", ":00Z"), timePrecision=True) == [1, 2]


def test_the_past_can_be_asked(rest: Rest) -> None:
    assert ids(rest, "[System.Id] = 9") == []
    assert ids(rest, "[System.Id] = 9 ASOF '2026-02-20T00:00:00Z'") == [9]


def test_the_sdk_asks_too(clients: Any) -> None:
    wit = clients.get_work_item_tracking_client()
    found = wit.query_by_wiql(Wiql(query="SELECT [System.Id] FROM WorkItems WHERE [System.Id] < 4"), top=2)
    assert [row.id for row in found.work_items] == [1, 2]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("SELECT [System.Id] FROM WorkItems WHERE [No.Such] = 1", "TF51005"),
        ("SELECT [System.Id] FROM Elsewhere", "TF51006"),
        ("SELECT [System.Id] FROM WorkItems WHERE", "TF51006"),
        ("SELECT [System.Id] FROM WorkItems WHERE [System.Id] = 'x'", "TF51009"),
        ("SELECT [System.Id] FROM WorkItems WHERE [System.ChangedDate] > 'soon'", "TF51009"),
        ("SELECT [System.Id] FROM WorkItemLinks", "TF51011"),
        ("SELECT [System.Id] FROM WorkItems WHERE [System.Title] = @who", "TF51008"),
        ("SELECT [System.Id] FROM WorkItems WHERE [System.Title] = %", "TF51006"),
    ],
)
def test_a_query_that_is_wrong_says_so(rest: Rest, query: str, code: str) -> None:
    assert refused(rest, query).startswith(code)


def test_more_hits_than_the_limit_are_an_error_and_never_a_shorter_list() -> None:
    app = FastAPI()
    app.router.routes.append(build_route(SandboxState(ado_world()), Limits(wiql=50)))
    with TestClient(app) as client:

        def ask(where: str) -> Any:
            query = {"query": f"SELECT [System.Id] FROM WorkItems WHERE {where}"}
            url = "/ado/Small/_apis/wit/wiql?api-version=7.1"
            return client.post(url, json=query, auth=("", "sandbox-pat"))

        refused = ask("[System.Id] > 0")
        assert (refused.status_code, refused.json()["message"][:8]) == (400, "VS402337")
        assert len(ask("[System.Id] > 100 AND [System.Id] <= 150").json()["workItems"]) == 50
    assert Limits().wiql == 20_000
