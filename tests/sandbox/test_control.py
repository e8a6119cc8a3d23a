"""The control paths, the faults, and the life of the server."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

from core.errors import ConfigError
from fixtures.sandbox.__main__ import main
from fixtures.sandbox.server import SandboxServer
from tests.sandbox import small
from tests.sandbox.small import Client, Serve

pytest_plugins = ["tests.sandbox.live"]

EVENTS = [
    {"id": "one", "after": "10m", "disable_person": {"who": "ann"}},
    {"id": "two", "after": "20m", "disable_person": {"who": "ben"}},
]


@pytest.fixture
def server(serve: Serve) -> SandboxServer:
    return serve(small.world({"acl": small.allow("ann")}, events=EVENTS))


@pytest.fixture
def control(server: SandboxServer) -> httpx.Client:
    return httpx.Client(base_url=f"{server.base_url}/_sandbox", trust_env=False)


@pytest.fixture
def graph(server: SandboxServer, graph_client: Client) -> httpx.Client:
    return graph_client(server)


def test_events_are_listed_applied_and_taken_back(server: SandboxServer, control: httpx.Client) -> None:
    assert control.get("/now").json()["now"] == "2026-03-02T09:00:00+00:00"
    assert control.post("/events/two").json() == {"applied": ["one", "two"], "now": "2026-03-02T09:20:00+00:00"}
    assert control.post("/events/one").json()["applied"] == []
    assert [event["applied"] for event in control.get("/events").json()["events"]] == [True, True]
    missing = control.post("/events/three")
    assert missing.status_code == 404
    assert "one, two" in missing.json()["detail"]
    assert control.post("/reset").json()["now"] == "2026-03-02T09:00:00+00:00"
    assert server.state.enabled("ann")


def test_throttling_says_when_to_come_back_and_ends(control: httpx.Client, graph: httpx.Client) -> None:
    control.post("/throttle", json={"path": "/graph/v1.0/users", "times": 2, "retry_after": 7})
    assert graph.get("/groups").status_code == 200
    for _ in range(2):
        answer = graph.get("/users")
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")
        assert answer.json()["error"]["code"] == "TooManyRequests"
    assert graph.get("/users").status_code == 200


def test_failures_are_worded_as_each_service_words_them(
    server: SandboxServer, control: httpx.Client, graph: httpx.Client
) -> None:
    control.post("/fail", json={"path": ".*/(users|projects)$", "status": 503, "times": None})
    assert graph.get("/users").json()["error"]["code"] == "ServiceUnavailable"
    answer = httpx.get(f"{server.ado_url}/_apis/projects", auth=("x", "sandbox-pat"), trust_env=False)
    assert (answer.status_code, "typeKey" in answer.json()) == (503, True)
    control.post("/reset")
    assert graph.get("/users").status_code == 200


def test_a_sign_in_page_can_stand_in_for_an_answer(server: SandboxServer, control: httpx.Client) -> None:
    control.post("/fail", json={"path": "/ado/", "status": 203})
    answer = httpx.get(f"{server.ado_url}/_apis/projects", auth=("x", "sandbox-pat"), trust_env=False)
    assert (answer.status_code, answer.headers["content-type"]) == (203, "text/html; charset=utf-8")


def test_both_services_stand_behind_one_address(server: SandboxServer, graph: httpx.Client) -> None:
    projects = httpx.get(
        f"{server.ado_url}/_apis/projects", params={"api-version": "7.1"}, auth=("x", "sandbox-pat"), trust_env=False
    )
    assert [project["name"] for project in projects.json()["value"]] == ["P"]
    assert graph.get("/teams").json()["value"] == []


def test_slowness_is_at_least_what_was_asked_for(server: SandboxServer, control: httpx.Client) -> None:
    control.post("/slow", json={"ms": 30, "path": "/graph", "times": 1})
    assert server.faults.take("GET", "/graph/v1.0/users")[0] == 30
    assert server.faults.take("GET", "/graph/v1.0/users")[0] == 0


def test_answers_can_tell_of_the_caller_s_allowance_and_stay_what_they_are(
    control: httpx.Client, graph: httpx.Client
) -> None:
    ask = {"path": "/graph", "remaining": 3, "reset_in": 60, "delay": 2, "retry_after": 4, "times": 1}
    assert control.post("/rate-limit", json=ask).status_code == 200
    told, plain = graph.get("/users"), graph.get("/users")
    assert told.status_code == plain.status_code == 200
    assert told.json() == plain.json()
    assert (told.headers["x-ratelimit-remaining"], told.headers["x-ratelimit-limit"]) == ("3", "200")
    assert (told.headers["x-ratelimit-delay"], told.headers["retry-after"]) == ("2", "4")
    assert "x-ratelimit-remaining" not in plain.headers


def test_a_fault_stands_before_what_is_told_of_the_allowance(control: httpx.Client, graph: httpx.Client) -> None:
    control.post("/rate-limit", json={"path": "/graph", "remaining": 3, "reset_in": 60})
    control.post("/fail", json={"path": "/graph", "status": 503})
    assert graph.get("/users").status_code == 503
    assert graph.get("/users").headers["x-ratelimit-remaining"] == "3"


def test_requests_are_counted_by_path(control: httpx.Client, graph: httpx.Client) -> None:
    graph.get("/users")
    graph.get("/users?$top=1")
    assert control.get("/stats").json()["requests"]["GET /graph/v1.0/users"] == 2
    control.delete("/stats")
    assert control.get("/stats").json() == {"requests": {}, "total": 0}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/fail", {"path": "("}),
        ("/fail", {"path": "/", "status": 42}),
        ("/slow", {"ms": -1}),
        ("/rate-limit", {"path": "(", "remaining": 1, "reset_in": 1}),
        ("/rate-limit", {"remaining": -1, "reset_in": 1}),
        ("/throttle", {"path": "/", "times": 0}),
        ("/throttle", {"prefix": "/"}),
    ],
)
def test_a_fault_that_makes_no_sense_is_refused(control: httpx.Client, path: str, body: Any) -> None:
    assert control.post(path, json=body).status_code == 422


def test_applied_events_are_remembered_by_the_next_run_and_old_delta_links_hold(
    tmp_path: Path, graph_client: Client
) -> None:
    world = small.world(events=EVENTS)
    with SandboxServer(world, tmp_path) as first:
        first.apply("one")
        link = small.walk(graph_client(first), "/users/delta")[1]
        now = first.state.now
    with SandboxServer(world, tmp_path) as second:
        assert (second.state.applied, second.state.now) == (["one"], now)
        second.apply("two")
        rows = small.walk(graph_client(second), link or "")[0]
        assert [row["id"] for row in rows] == [second.state.oid("ben")]
    with SandboxServer(world, tmp_path, remember=False) as third:
        assert third.state.applied == []


def test_a_delta_link_of_another_world_is_gone(tmp_path: Path, graph_client: Client) -> None:
    with SandboxServer(small.world(), tmp_path) as first:
        link = small.walk(graph_client(first), "/users/delta")[1]
    with SandboxServer(small.world(people=small.PEOPLE | {"new": small.person("New")}), tmp_path) as second:
        assert graph_client(second).get(link or "").status_code == 410


def test_the_port_is_kept_and_a_second_sandbox_of_the_world_takes_another(tmp_path: Path) -> None:
    with SandboxServer(small.world(), tmp_path) as first:
        with SandboxServer(small.world(), tmp_path) as second:
            assert second.port != first.port
        port = first.port
    with SandboxServer(small.world(), tmp_path) as third:
        assert third.port == port


def test_a_kept_port_that_a_stranger_has_taken_is_given_up(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        (tmp_path / "sandbox").mkdir()
        (tmp_path / "sandbox/port").write_text(str(stranger.getsockname()[1]))
        with SandboxServer(small.world(), tmp_path) as server:
            assert int((tmp_path / "sandbox/port").read_text()) == server.port != stranger.getsockname()[1]


def test_a_wanted_port_that_is_taken_is_an_error_that_says_so(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port} can't be used"):
            SandboxServer(small.world(), tmp_path, port).start()


def test_a_stopped_server_answers_no_more_and_can_be_started_again(tmp_path: Path) -> None:
    server = SandboxServer(small.world(), tmp_path)
    server.start()
    server.stop()
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{server.base_url}/_sandbox/now", trust_env=False)
    with server:
        assert httpx.get(f"{server.base_url}/_sandbox/now", trust_env=False).status_code == 200


def test_the_command_tells_a_bad_world_without_a_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "nowhere")]) == 2
    assert "no such folder" in capsys.readouterr().err
