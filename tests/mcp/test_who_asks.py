"""Who asks is whoever the request's own token names: no session, no name in the request and no earlier caller."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from query.mcp.tools import tool_names
from tests.mcp.calls import ERAS, Caller, Era, call, expired, is_error, member
from tests.mcp.conftest import TwoPeople
from tests.support.engines import LiveEngine
from tests.support.token_cases import TOKEN_CASES, TokenCase

QUESTION = {"name": "get_context", "arguments": {"question": "what changed at the partner gateway?"}}
METHODS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("server/discover", {}),
    ("tools/list", {}),
    ("tools/call", QUESTION),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("resources/read", {"uri": "ctx://ado/x/work-items/1"}),
    ("nothing/known", {}),
)
NOWHERE = "ctx://ado/x/work-items/1"


def asker_of(answer: dict[str, Any]) -> str:
    """Who a bundle was made for."""
    principal: str = answer["result"]["structuredContent"]["asker"]["principal"]
    return principal


@pytest.mark.parametrize("era", ERAS)
def test_nothing_at_all_is_told_without_a_token(live: LiveEngine, era: Era) -> None:
    for method, params in METHODS:
        answer = call(live, method, params, token=None, era=era)
        assert answer.status_code == 401, method
        assert answer.json()["type"].endswith("missing_token")
        assert "error=" not in answer.headers["www-authenticate"]


@pytest.mark.parametrize("case", TOKEN_CASES, ids=str)
def test_each_token_is_answered_as_over_http(live: LiveEngine, case: TokenCase) -> None:
    """C105 and all others: one validator, one table of tokens, the same answers."""
    sandbox = live.engine.sandbox
    assert sandbox is not None
    authorization = case.authorization(sandbox, member(live))
    sent = {} if authorization is None else {"Authorization": authorization.strip()}
    http = live.client.get("/v1/items", params={"uri": NOWHERE}, headers=sent)
    for era in ERAS:
        answer = call(live, "resources/read", {"uri": NOWHERE}, token=None, era=era, **sent)
        if case.status == 200:
            assert (http.status_code, answer.json()["error"]["code"]) == (404, -32602)
            continue
        if http.headers["content-type"] != "application/problem+json":  # the server reads no head so large
            assert (answer.status_code, answer.text) == (http.status_code, http.text)
            assert case.name == "64 KiB"
            assert http.status_code == 400
            continue
        assert (answer.status_code, answer.json()) == (http.status_code, http.json())
        assert answer.status_code == case.status
        assert answer.json()["type"].rsplit(":")[-1] == case.reason
        assert answer.headers["www-authenticate"] == http.headers["www-authenticate"]
        assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("era", ERAS)
def test_a_bad_token_is_told_nothing_by_any_method(live: LiveEngine, era: Era) -> None:
    for method, params in METHODS:
        answer = call(live, method, params, token=expired(live), era=era)
        assert (answer.status_code, answer.json()["type"].rsplit(":")[-1]) == (401, "expired"), method


def test_a_token_without_the_scope_is_told_which_one_it_lacks(live: LiveEngine) -> None:
    sandbox = live.engine.sandbox
    assert sandbox is not None
    answer = call(live, "tools/list", {}, token=sandbox.token(member(live), scopes=["user.read"]))
    assert answer.status_code == 403
    assert 'error="insufficient_scope"' in answer.headers["www-authenticate"]
    assert 'scope="context.read"' in answer.headers["www-authenticate"]


def test_the_challenge_leads_to_metadata_that_describe_the_address_that_was_called(live: LiveEngine) -> None:
    base = str(live.client.base_url).rstrip("/")
    for answer in (
        call(live, "tools/list", {}, token=None),
        live.client.post("/v1/context", json={"question": "?"}),
    ):
        challenge = answer.headers["www-authenticate"]
        found = re.search(r'resource_metadata="([^"]+)"', challenge)
        assert found is not None
        assert 'scope="context.read"' in challenge
        metadata = live.client.get(found[1])
        assert metadata.status_code == 200
        assert metadata.json()["resource"] == f"{base}/mcp"
        assert metadata.json()["authorization_servers"] == [i.issuer for i in live.engine.settings.issuers]
        assert metadata.json()["scopes_supported"] == ["context.read"]
        assert metadata.json()["bearer_methods_supported"] == ["header"]
    assert live.client.get("/.well-known/oauth-protected-resource").json()["resource"] == f"{base}/mcp"


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("session", ["of-another", "0" * 32, "'; DROP TABLE audit; --"])
def test_a_session_id_of_another_or_of_before_a_restart_means_nothing(two: TwoPeople, era: Era, session: str) -> None:
    """C102, C104: there are no sessions, so each request is its own token's and none is refused for its session."""
    one = Caller(two.live, two.one, era).ask("tools/call", QUESTION, Mcp_Session_Id=session)
    other = Caller(two.live, two.other, era).ask("tools/call", QUESTION, Mcp_Session_Id=session)
    assert asker_of(one.json()) != asker_of(other.json())
    assert "mcp-session-id" not in one.headers
    late = call(two.live, "tools/call", QUESTION, token=expired(two.live), Mcp_Session_Id=session)
    assert late.status_code == 401


def test_a_handshake_with_a_stale_session_begins_anew_and_takes_no_id_from_the_client(two: TwoPeople) -> None:
    start = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    answer = Caller(two.live, two.one, "2025-11-25").ask("initialize", start, Mcp_Session_Id="stale")
    assert answer.status_code == 200
    assert answer.json()["result"]["protocolVersion"] == "2025-11-25"
    assert "mcp-session-id" not in answer.headers


def test_there_is_no_stream_to_join_and_no_session_to_end(two: TwoPeople) -> None:
    headers = {"Authorization": f"Bearer {two.live.token(two.one)}", "Accept": "text/event-stream"}
    for method in ("GET", "DELETE", "PUT", "PATCH"):
        answer = two.live.client.request(method, "/mcp", headers=headers)
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize("era", ERAS)
def test_nobody_can_be_named_in_a_request(two: TwoPeople, era: Era) -> None:
    sandbox = two.live.engine.sandbox
    assert sandbox is not None
    caller, oid = Caller(two.live, two.one, era), sandbox.state.oid(two.other)
    plain = caller.ask("tools/call", QUESTION).json()["result"]["structuredContent"]
    named = {"user": oid, "x-user": oid, "principal": f"user:{sandbox.state.tenant_id}/{oid}", "token": "x.y.z"}
    headers = {"X_Forwarded_User": oid, "X_Ms_Client_Principal_Id": oid, "On_Behalf_Of": oid, "Cookie": f"user={oid}"}
    answer = caller.ask("tools/call", {**QUESTION, "_meta": named}, **headers)
    assert answer.json()["result"]["structuredContent"]["digest"] == plain["digest"]
    read = caller.ask("resources/read", {"uri": two.hidden, "_meta": named}, **headers).json()
    assert "result" in read
    stranger = Caller(two.live, two.other, era)
    mine = {"user": sandbox.state.oid(two.one)}
    assert "error" in stranger.ask("resources/read", {"uri": two.hidden, "_meta": mine}).json()


def test_a_token_in_the_address_is_no_token(two: TwoPeople) -> None:
    answer = two.live.client.post(
        "/mcp",
        params={"access_token": two.live.token(two.one)},
        json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
        headers={"Accept": "application/json"},
    )
    assert answer.status_code == 401


def test_two_people_who_ask_at_the_same_time_are_never_mixed(two: TwoPeople) -> None:
    sandbox = two.live.engine.sandbox
    assert sandbox is not None
    tokens = {person: two.live.token(person) for person in (two.one, two.other)}
    turns = [((two.one, two.other)[n % 2], ERAS[n // 2 % 2], n) for n in range(50)]

    def ask(turn: tuple[str, Era, int]) -> None:
        person, era, n = turn
        if n % 5:
            arguments = {"id": two.hidden}
            params = {"name": "expand_context", "arguments": arguments}
            result = call(two.live, "tools/call", params, token=tokens[person], era=era).json()["result"]
            assert is_error(result) == (person == two.other), turn
        else:
            params = {"name": "define", "arguments": {"term": "CSR"}}
            answer = call(two.live, "tools/call", params, token=tokens[person], era=era).json()
            assert asker_of(answer).endswith(sandbox.state.oid(person)), turn

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, turns))


@pytest.mark.parametrize("era", ERAS)
def test_each_use_of_a_tool_or_resource_stands_in_the_audit_with_its_asker(two: TwoPeople, era: Era) -> None:
    sandbox = two.live.engine.sandbox
    assert sandbox is not None
    caller = Caller(two.live, two.one, era)

    def entries() -> list[dict[str, Any]]:
        with two.live.engine.database.connection() as connection:
            rows = connection.execute("SELECT * FROM audit ORDER BY at").fetchall()
        who = sandbox.state.oid(two.one)  # type: ignore[union-attr]
        return [dict(r) for r in rows if str(r["asker"]).endswith(who)]

    before = len(entries())
    caller.tool("get_context", question="what is CSR?")
    caller.tool("expand_context", id=two.shared)
    caller.tool("who_knows", topic="partner gateway")
    caller.tool("define", term="CSR")
    caller.read(two.shared)
    caller.read(two.hidden + "0")
    new = entries()[before:]
    assert len(new) == len(tool_names()) + 2
    assert [e["outcome"] for e in new] == ["ok"] * 5 + ["not_found"]
    assert all(e["agent"] for e in new)
    assert two.live.token(two.one).split(".")[2] not in json.dumps(new, default=str)
