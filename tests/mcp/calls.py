"""Calls as clients of either era of the protocol make them, written out so that tests can bend them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import httpx

from tests.support.engines import LiveEngine

Era = Literal["2025-11-25", "2026-07-28"]
ERAS: tuple[Era, ...] = ("2025-11-25", "2026-07-28")
NEWEST: Era = "2026-07-28"
_NAMED = {"tools/call": "name", "resources/read": "uri"}


def call(
    live: LiveEngine, method: str, params: dict[str, Any], *, token: str | None, era: Era = NEWEST, **headers: str
) -> httpx.Response:
    """One request of `era`; `token` None sends none. `headers` have underscores for hyphens."""
    sent = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": era}
    if token is not None:
        sent["Authorization"] = f"Bearer {token}"
    if era == NEWEST:
        sent["Mcp-Method"] = method
        if method in _NAMED:
            sent["Mcp-Name"] = header(str(params[_NAMED[method]]))
        stamp = {"io.modelcontextprotocol/protocolVersion": era, "io.modelcontextprotocol/clientCapabilities": {}}
        params = {**params, "_meta": {**stamp, **params.get("_meta", {})}}
    sent.update({name.replace("_", "-"): value for name, value in headers.items()})
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return live.client.post("/mcp", json=body, headers=sent)


def header(value: str) -> str:
    """A name as the protocol puts it into a header."""
    from mcp.shared.inbound import encode_header_value

    return encode_header_value(value)


def member(live: LiveEngine) -> str:
    """The first enabled member of the world."""
    sandbox = live.engine.sandbox
    assert sandbox is not None
    people = sandbox.state.world.people
    return next(k for k, p in people.items() if p.kind == "member" and sandbox.state.enabled(k))


def expired(live: LiveEngine) -> str:
    """A member's token that was good until some minutes ago."""
    assert live.engine.sandbox is not None
    return live.engine.sandbox.token(member(live), expires_in=-360)


@dataclass(frozen=True)
class Caller:
    """A person who asks through an agent of one era."""

    live: LiveEngine
    person: str
    era: Era = NEWEST

    def ask(self, method: str, params: dict[str, Any], **headers: str) -> httpx.Response:
        """One request."""
        return call(self.live, method, params, token=self.live.token(self.person), era=self.era, **headers)

    def tool(self, name: str, **arguments: Any) -> dict[str, Any]:
        """The result of a tool."""
        answer = self.ask("tools/call", {"name": name, "arguments": arguments})
        assert answer.status_code == 200, answer.text
        result: dict[str, Any] = answer.json()["result"]
        return result

    def read(self, uri: str) -> dict[str, Any]:
        """The whole message that answers a reading."""
        message: dict[str, Any] = self.ask("resources/read", {"uri": uri}).json()
        return message


def is_error(result: dict[str, Any]) -> bool:
    """Whether a tool failed."""
    return bool(result.get("isError"))


def text_of(result: dict[str, Any]) -> str:
    """The text block of a tool's result."""
    (block,) = result["content"]
    text: str = block["text"]
    return text
