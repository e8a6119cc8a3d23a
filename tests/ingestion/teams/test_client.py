"""How Graph is asked: pages, waits, tokens, and what each kind of trouble is taken for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest

from core.errors import (
    SourceAuthError,
    SourceError,
    SourceGoneError,
    SourceNotFoundError,
    SourceThrottledError,
)
from core.settings import GraphSettings
from ingestion.teams.client import GraphClient, SourceRefusedError
from ingestion.teams.retry import seconds
from tests.ingestion.teams.conftest import Serve
from tests.ingestion.teams.small import nord, said
from tests.ingestion.teams.support import TENANT, Live

USERS = "/graph/v1.0/users"


@pytest.fixture
def graph(serve: Serve) -> Live:
    return serve(nord(said("m1")), people=[f"person{n}" for n in range(7)] + ["iris", "teo"], page=2)


def _scripted(*answers: httpx.Response | Exception, waits: list[float] | None = None) -> GraphClient:
    """A client whose requests for data get these answers in turn; the last one for ever."""
    left = list(answers)

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/token"):
            return httpx.Response(200, json={"access_token": "t", "expires_in": 3600})
        given = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(given, Exception):
            raise given
        return given

    settings = GraphSettings(
        base_url="https://graph.example/v1.0",
        token_url="https://graph.example/token",
        tenant=TENANT,
        client_id="c",
        client_secret="s",  # type: ignore[arg-type]
    )
    kept = waits if waits is not None else []
    return GraphClient(settings, sleep=kept.append, jitter=lambda: 0.0, transport=httpx.MockTransport(answer))


def test_every_page_is_read_however_small(graph: Live) -> None:
    assert len(list(graph.client.pages("/users"))) == 5
    assert len({row["id"] for row in graph.client.rows("/users")}) == 9


def test_an_empty_page_in_the_middle_does_not_end_a_list() -> None:
    client = _scripted(
        httpx.Response(200, json={"value": [], "@odata.nextLink": "https://graph.example/v1.0/x?p=2"}),
        httpx.Response(200, json={"value": [{"id": "1"}]}),
    )
    assert list(client.rows("/x")) == [{"id": "1"}]


def test_a_throttled_request_waits_as_long_as_it_was_asked_to(graph: Live) -> None:
    graph.server.faults.throttle(USERS, times=2, retry_after=7)
    assert len(list(graph.client.rows("/users"))) == 9
    assert graph.waits == [7.0, 7.0]


def test_a_wait_that_is_longer_than_a_run_is_told_at_once(graph: Live) -> None:
    graph.server.faults.throttle(USERS, retry_after=3600)
    with pytest.raises(SourceThrottledError) as told:
        list(graph.client.rows("/users"))
    assert told.value.retry_after == 3600
    assert graph.waits == []


def test_a_server_fault_is_tried_again_ever_more_slowly(graph: Live) -> None:
    graph.server.faults.fail(USERS, status=503, times=3)
    assert len(list(graph.client.rows("/users"))) == 9
    assert graph.waits == [0.5, 1.0, 2.0]


def test_a_server_that_stays_down_is_given_up(graph: Live) -> None:
    graph.server.faults.fail(USERS, status=502, times=None)
    with pytest.raises(SourceError, match="HTTP 502 after 5 tries"):
        list(graph.client.rows("/users"))
    assert graph.server.faults.seen[f"GET {USERS}"] == 5


def test_a_web_page_instead_of_data_is_tried_again_and_never_taken_for_an_empty_list(graph: Live) -> None:
    graph.server.faults.fail(USERS, status=200, times=1)
    assert len(list(graph.client.rows("/users"))) == 9
    graph.server.faults.fail(USERS, status=200, times=None)
    with pytest.raises(SourceError, match="no JSON"):
        list(graph.client.rows("/users"))


def test_a_token_that_is_refused_once_is_fetched_anew(graph: Live) -> None:
    token = f"POST /oidc/{TENANT}/oauth2/v2.0/token"
    list(graph.client.rows("/users"))
    assert graph.server.faults.seen[token] == 1
    graph.server.faults.fail(USERS, status=401, times=1)
    assert len(list(graph.client.rows("/users"))) == 9
    assert graph.server.faults.seen[token] == 2
    assert graph.waits == []


def test_a_token_that_is_refused_twice_ends_it(graph: Live) -> None:
    graph.server.faults.fail(USERS, status=401, times=None)
    with pytest.raises(SourceAuthError):
        list(graph.client.rows("/users"))
    assert graph.server.faults.seen[f"GET {USERS}"] == 2


def test_a_token_that_ends_while_the_server_is_struggling_is_renewed(graph: Live) -> None:
    graph.server.faults.fail(USERS, status=503, times=1)
    graph.server.faults.fail(USERS, status=401, times=1)
    assert len(list(graph.client.rows("/users"))) == 9


def test_a_token_endpoint_that_is_busy_is_asked_again(graph: Live) -> None:
    graph.server.faults.throttle("/oidc", times=1, retry_after=3)
    assert len(list(graph.client.rows("/users"))) == 9
    assert graph.waits == [3.0]


def test_a_wrong_secret_is_a_refusal_that_names_the_reason_and_not_the_secret(graph: Live) -> None:
    settings = graph.settings.model_copy(update={"client_secret": "wrong-secret-value"})
    settings = GraphSettings.model_validate(settings.model_dump())
    client = GraphClient(settings, sleep=graph.waits.append)
    with pytest.raises(SourceAuthError) as told:
        client.get("/users")
    assert "wrong-secret-value" not in str(told.value)
    client.close()


@pytest.mark.parametrize("status", [403, 404])
def test_missing_and_forbidden_are_the_same(graph: Live, status: int) -> None:
    graph.server.faults.fail(USERS, status=status, times=1)
    with pytest.raises(SourceNotFoundError):
        graph.client.get("/users")


@pytest.mark.parametrize(
    "link",
    [
        "https://elsewhere.example/v1.0/users?$skiptoken=x",
        "https://graph.example@elsewhere.example/v1.0/users",
        "https://graph.example:8443/v1.0/users",
        "http://graph.example/v1.0/users",
    ],
)
def test_a_page_link_to_another_host_is_not_followed(link: str) -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.host)
        if request.url.path.endswith("/token"):
            return httpx.Response(200, json={"access_token": "t"})
        return httpx.Response(200, json={"value": [{"id": "1"}], "@odata.nextLink": link})

    client = _scripted(httpx.Response(200, json={}))
    client._http = httpx.Client(transport=httpx.MockTransport(answer))
    with pytest.raises(SourceError, match="another host"):
        list(client.rows("/users"))
    assert set(asked) == {"graph.example"}


def test_page_links_that_go_round_in_a_circle_end() -> None:
    link = "https://graph.example/v1.0/x?p=2"
    client = _scripted(httpx.Response(200, json={"value": [], "@odata.nextLink": link}))
    with pytest.raises(SourceError, match="circle"):
        list(client.rows("/x"))


def test_a_redirect_does_not_carry_the_token_away() -> None:
    client = _scripted(httpx.Response(302, headers={"Location": "https://elsewhere.example/"}))
    with pytest.raises(SourceError, match="302"):
        client.get("/x")


def test_a_delta_link_is_lost_whatever_status_says_so() -> None:
    lost = {"error": {"code": "syncStateNotFound", "message": "…"}}
    for answer in (httpx.Response(410, json={}), httpx.Response(404, json=lost), httpx.Response(400, json=lost)):
        with pytest.raises(SourceGoneError):
            _scripted(answer).get("/x")


def test_a_request_that_graph_does_not_take_is_not_tried_again() -> None:
    waits: list[float] = []
    with pytest.raises(SourceRefusedError, match="BadRequest"):
        _scripted(httpx.Response(400, json={"error": {"code": "BadRequest"}}), waits=waits).get("/x")
    assert waits == []


def test_a_broken_connection_and_a_cut_off_answer_are_tried_again() -> None:
    cut_off = httpx.Response(200, headers={"content-type": "application/json"}, content=b'{"value": [')
    client = _scripted(httpx.ConnectError("refused"), cut_off, httpx.Response(200, json={"value": [{"id": "1"}]}))
    assert list(client.rows("/x")) == [{"id": "1"}]


def test_a_null_list_is_empty_and_a_missing_or_odd_one_is_an_error() -> None:
    assert list(_scripted(httpx.Response(200, json={"value": None})).rows("/x")) == []
    for odd in ({}, {"value": "many"}, {"value": ["one"]}):
        with pytest.raises(SourceError):
            list(_scripted(httpx.Response(200, json=odd)).rows("/x"))


def test_messages_show_no_tokens_of_links() -> None:
    with pytest.raises(SourceError) as told:
        _scripted(httpx.Response(500)).get("https://graph.example/v1.0/x?$deltatoken=secret")
    assert "secret" not in str(told.value)
    assert "/v1.0/x" in str(told.value)


def test_retry_after_is_seconds_or_a_date_and_anything_else_is_no_wait_at_all() -> None:
    assert seconds("12") == 12.0
    assert seconds("-3") == 0.0
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    assert 80 < (seconds(later) or 0) <= 90
    assert seconds("Thu, 01 Jan 1970 00:00:00 GMT") == 0.0
    for nonsense in (None, "soon", "nan", "inf", ""):
        assert seconds(nonsense) is None
