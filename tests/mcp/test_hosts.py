"""A web page that makes a browser call the engine under another name, or from elsewhere, is turned away first."""

from __future__ import annotations

import http.client
import json

import pytest

from core.errors import ForbiddenError, NotFoundError
from query.oauth import ProtectedResource
from tests.mcp.calls import Caller, call
from tests.mcp.conftest import TwoPeople
from tests.support.engines import LiveEngine

PUBLIC = ProtectedResource(
    issuers=("https://issuer.example",),
    scopes=("api://engine/context.read",),
    public_url="https://Context.example.com/engine/",
    hosts=("engine.internal", "gateway:8443"),
    origins=("https://agents.example.com",),
)
LOCAL = ProtectedResource(issuers=("https://issuer.example",), scopes=("context.read",))


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "evil.example@127.0.0.1", ""]
)
def test_a_foreign_host_is_turned_away_before_its_token_is_looked_at(live: LiveEngine, host: str) -> None:
    for token in (None, "not.a.token", live.token("stephan")):
        for path in ("/mcp", "/mcp/", "/.well-known/oauth-protected-resource/mcp"):
            assert status_under(live, host, path, token) == 421, (path, token)


def status_under(live: LiveEngine, host: str, path: str, token: str | None) -> int:
    """The status of a request whose Host header is `host`, which clients would not send by themselves."""
    url = live.client.base_url
    connection = http.client.HTTPConnection(str(url.host), url.port)
    try:
        connection.putrequest("GET" if "well-known" in path else "POST", path, skip_host=True)
        connection.putheader("Host", host)
        if token is not None:
            connection.putheader("Authorization", f"Bearer {token}")
        connection.putheader("Content-Length", "2")
        connection.endheaders(b"{}")
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1.evil.example", "file://", "https://[", "chrome://x"]
)
def test_pages_of_a_foreign_origin_may_not_ask(two: TwoPeople, origin: str) -> None:
    answer = Caller(two.live, two.one).ask("tools/list", {}, Origin=origin)
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers
    assert call(two.live, "tools/list", {}, token=None, Origin=origin).status_code == 403


def test_pages_of_this_machine_may_ask_and_read_the_answer(two: TwoPeople) -> None:
    origin = "http://localhost:6274"
    asked = {"Origin": origin, "Access-Control-Request-Method": "POST"}
    before = two.live.client.options("/mcp", headers=asked)
    assert (before.status_code, before.headers["access-control-allow-origin"]) == (204, origin)
    assert "Authorization" in before.headers["access-control-allow-headers"]
    answer = Caller(two.live, two.one).ask("tools/list", {}, Origin=origin)
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, origin)
    assert "WWW-Authenticate" in answer.headers["access-control-expose-headers"]


def test_pages_may_look_for_the_metadata(live: LiveEngine) -> None:
    path = "/.well-known/oauth-protected-resource/mcp"
    asked = {"Origin": "https://any.example", "Access-Control-Request-Headers": "mcp-protocol-version"}
    before = live.client.options(path, headers=asked)
    assert (before.status_code, before.headers["access-control-allow-origin"]) == (204, "*")
    assert before.headers["access-control-allow-headers"] == "MCP-Protocol-Version"
    assert live.client.get(path, headers={"Origin": "https://any.example"}).status_code == 200


def test_a_body_that_is_too_large_is_refused_however_it_is_sent(two: TwoPeople) -> None:
    headers = {
        "Authorization": f"Bearer {two.live.token(two.one)}",
        "Accept": "application/json",
        "Content-Type": "application/json",
    }
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"x": "y" * 70_000}}).encode()
    assert two.live.client.post("/mcp", content=body, headers=headers).status_code == 413
    pieces = (body[n : n + 1000] for n in range(0, len(body), 1000))
    assert two.live.client.post("/mcp", content=pieces, headers=headers).status_code == 413


def test_known_names_are_those_of_this_machine_and_those_that_were_declared() -> None:
    for resource in (PUBLIC, LOCAL):
        for host in ("127.0.0.1", "127.0.0.1:8321", "LOCALHOST:1", "[::1]:8321"):
            assert resource.knows_host(host), host
        for host in ("evil.example", "[::2]", "[::1", "localhost.", "127.0.0.1:x", "10.0.0.1"):
            assert not resource.knows_host(host), host
    for host in ("context.example.com", "CONTEXT.example.com:443", "engine.internal", "engine.internal:1"):
        assert PUBLIC.knows_host(host), host
        assert not LOCAL.knows_host(host), host
    assert PUBLIC.knows_host("gateway:8443")
    assert not PUBLIC.knows_host("gateway:8444")
    assert not ProtectedResource(issuers=(), scopes=(), hosts=("0.0.0.0",)).knows_host("0.0.0.0")


def test_known_origins_are_those_of_this_machine_and_those_that_were_declared() -> None:
    for origin in ("http://localhost:6274", "http://127.0.0.1", "http://[::1]:3000"):
        assert LOCAL.knows_origin(origin)
    for origin in ("https://context.example.com", "https://agents.example.com"):
        assert PUBLIC.knows_origin(origin), origin
        assert not LOCAL.knows_origin(origin), origin
    for origin in ("http://context.example.com", "https://context.example.com:8443", "https://agents.example.com.evil"):
        assert not PUBLIC.knows_origin(origin), origin


def test_metadata_stand_below_the_root_at_the_path_of_what_they_describe() -> None:
    base = PUBLIC.base({"host": "engine.internal"}, "http")
    assert base == "https://context.example.com/engine"
    assert PUBLIC.metadata(base)["resource"] == "https://context.example.com/engine/mcp"
    assert "/.well-known/oauth-protected-resource/engine/mcp" in PUBLIC.metadata_paths()
    assert "/.well-known/oauth-protected-resource" in PUBLIC.metadata_paths()
    assert LOCAL.base({"host": "evil.example"}, "http") is None
    assert LOCAL.base({"host": "LocalHost:1"}, "http") == "http://localhost:1"


def test_a_challenge_names_every_scope_that_is_wanted_as_the_issuer_spells_it() -> None:
    lacking = ForbiddenError("the token lacks the scope context.admin", scope="context.admin")
    told = PUBLIC.challenge(lacking, "https://context.example.com/engine")
    assert told == (
        'Bearer error="insufficient_scope", resource_metadata="https://context.example.com/.well-known/'
        'oauth-protected-resource/engine/mcp", scope="api://engine/context.read api://engine/context.admin"'
    )
    assert LOCAL.challenge(lacking, None) == 'Bearer error="insufficient_scope", scope="context.read context.admin"'
    assert LOCAL.challenge(NotFoundError("no such item"), None) is None
