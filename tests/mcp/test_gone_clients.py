"""Whoever leaves before saying what they want leaves no trouble in the log; and no more than so much is read."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from query.mcp.endpoint import MAX_BODY_BYTES
from tests.mcp.calls import ERAS, Era
from tests.mcp.conftest import TwoPeople


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("path", ["/mcp", "/v1/context"])
def test_a_client_that_leaves_amid_its_request_is_no_error(
    two: TwoPeople, caplog: pytest.LogCaptureFixture, path: str, era: Era
) -> None:
    said: list[dict[str, Any]] = [
        {"type": "http.request", "body": b'{"question": ', "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive() -> dict[str, Any]:
        return said.pop(0) if len(said) > 1 else said[0]

    async def send(_: Any) -> None:
        """Nobody reads it."""

    headers = {
        "host": "127.0.0.1",
        "authorization": f"Bearer {two.live.token(two.one)}",
        "content-type": "application/json",
        "content-length": "1000",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": era,
        "mcp-method": "tools/list",
    }
    scope = {
        "type": "http",
        "http_version": "1.1",
        "scheme": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    with caplog.at_level(logging.INFO):
        asyncio.run(two.live.engine.app(scope, receive, send))
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("era", ERAS)
def test_what_is_larger_than_any_request_is_refused(two: TwoPeople, era: Era) -> None:
    headers = {"Authorization": f"Bearer {two.live.token(two.one)}", "Accept": "application/json"}
    pieces = iter([b"[" * 4096] * (MAX_BODY_BYTES // 4096 + 1))
    for content in (b"[" * (MAX_BODY_BYTES + 1), pieces):
        answer = two.live.client.post("/mcp", content=content, headers={**headers, "MCP-Protocol-Version": era})
        assert answer.status_code == 413
