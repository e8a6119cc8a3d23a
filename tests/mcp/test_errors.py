"""What goes wrong is told by its class and how to mend it; what was asked and what broke is told to nobody else."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest

from context_engine.http_server import LoopbackServer
from core.errors import RateLimitedError, StoreUnavailableError, UnresolvedIdentityError
from core.principals import VerifiedAsker
from query.api import create_app
from query.mcp.answers import ServiceAnswers
from query.mcp.server import build_server
from tests.mcp.calls import ERAS, Caller, Era, is_error, text_of
from tests.mcp.conftest import TwoPeople
from tests.support.engines import LiveEngine

CANARY = "zyxquarkcanary"


class Breaking:
    """A limiter that ends every request with `error`."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def take(self, asker: VerifiedAsker) -> None:
        """Raise it."""
        raise self._error


@contextmanager
def broken(live: LiveEngine, error: Exception) -> Iterator[LiveEngine]:
    """The same engine behind an API where every request ends with `error`."""
    service = replace(live.engine.services.service, limiter=Breaking(error))
    app = create_app(replace(live.engine.services, service=service))
    with LoopbackServer(app) as server, httpx.Client(base_url=server.url, timeout=60) as client:
        yield LiveEngine(live.engine, client)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("error", "kind", "status", "retry_after"),
    [
        (RateLimitedError(7.2), "rate-limited", 429, 8),
        (UnresolvedIdentityError("groups are being read"), "identity-unresolved", 503, 5),
        (StoreUnavailableError("postgres", f"{CANARY} at 10.0.0.7", retry_after=3), "store-unavailable", 503, 3),
        (ValueError(f"{CANARY} in a driver"), "internal", 500, None),
    ],
    ids=["rate limited", "unresolved", "store away", "defect"],
)
def test_each_class_of_trouble_is_told_with_when_to_try_again(
    two: TwoPeople,
    era: Era,
    error: Exception,
    kind: str,
    status: int,
    retry_after: int | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    with broken(two.live, error) as live:
        caller = Caller(live, two.one, era)
        result = caller.tool("get_context", question=f"what is {CANARY}?")
        reading = caller.read(two.shared)
    assert is_error(result)
    assert text_of(result).startswith(f"{kind}: ")
    problem = result["_meta"]["context-engine/problem"]
    assert (problem["status"], problem.get("retry_after")) == (status, retry_after)
    assert (f"Try again in {retry_after} seconds" in text_of(result)) == (retry_after is not None)
    assert reading["error"]["code"] == -32603
    assert reading["error"]["data"] == problem
    assert CANARY not in str(result) + str(reading) + caplog.text


def test_a_defect_over_http_is_logged_by_its_place_and_not_by_what_it_says(
    two: TwoPeople, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with broken(two.live, ValueError(f"{CANARY} in a driver")) as live:
        answer = live.post(two.one, {"question": f"what is {CANARY}?"})
    assert (answer.status_code, answer.json()["type"]) == (500, "urn:context-engine:problem:internal")
    assert "unexpected error of kind ValueError" in caplog.text
    assert "test_errors.py" in caplog.text, "the place is told"
    assert CANARY not in answer.text + caplog.text


MALFORMED: tuple[Any, ...] = (
    [],
    [{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}],
    CANARY,
    {"jsonrpc": "2.0", "id": 1, "method": CANARY},
    {"jsonrpc": "2.0", "id": {"x": CANARY}, "method": "tools/list"},
    {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": 5, "arguments": CANARY}},
    {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "define", "arguments": [CANARY]}},
    {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "define", "arguments": {"term": [CANARY]}}},
    {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": {"x": CANARY}}},
    {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": f"ctx://{CANARY}\ud800"}},
    {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "define", "arguments": {"term": "\ud800"}}},
    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": CANARY}},
    {"jsonrpc": "2.0", "id": 1, "result": {"x": CANARY}},
    {"jsonrpc": "1.0", "id": 1, "method": CANARY},
)


@pytest.mark.parametrize("era", ERAS)
def test_nothing_that_is_sent_is_logged_or_breaks_anything(
    two: TwoPeople, era: Era, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    headers = {
        "Authorization": f"Bearer {two.live.token(two.one)}",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": era,
        "Mcp-Method": "tools/call",
        "Mcp-Name": "define",
    }
    for body in MALFORMED:
        sent = {**headers, "Content-Type": "application/json"}
        answer = two.live.client.post("/mcp", content=json.dumps(body), headers=sent)
        assert answer.status_code in (200, 202, 400, 404), (body, answer.text)
        told = answer.json() if answer.content else {}
        assert "result" not in told or told["result"]["isError"], (body, told)
    for content in (b"", b"{", b"\xff\xfe", b"[" * 5000, b'{"id":' + b"9" * 5000 + b"}"):
        sent = {**headers, "Content-Type": "application/json"}
        assert two.live.client.post("/mcp", content=content, headers=sent).status_code == 400, content[:10]
    Caller(two.live, two.one, era).tool("get_context", question=f"where is {CANARY}?")
    Caller(two.live, two.one, era).read(f"ctx://ado/{CANARY}")
    assert CANARY not in caplog.text
    assert two.live.token(two.one).split(".")[1] not in caplog.text


def test_no_span_is_made_that_could_carry_what_was_asked(live: LiveEngine) -> None:
    assert build_server(ServiceAnswers(live.engine.services.service)).middleware == []
