"""Every way in to the engine, and all that comes back: HTTP as JSON and Markdown, and MCP."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx

# How the engine tells of a fault of its own, and the code that JSON-RPC has for one.
_FAULT, _INTERNAL_ERROR = "The engine failed on this request", -32603
MARKDOWN = {"Accept": "text/markdown"}


@dataclass(frozen=True)
class Told:
    """One answer: its status and everything that the client got. For MCP the status is 200, 500 for a fault of the
    engine's, or 404 for any other error."""

    status: int
    text: str


@dataclass(frozen=True)
class Client:
    """A client with one asker's token."""

    http: httpx.Client
    token: str | None

    def get(self, path: str, params: dict[str, str], headers: dict[str, str] | None = None) -> Told:
        """A GET as the asker."""
        answer = self.http.get(path, params=params, headers={**self._auth(), **(headers or {})})
        return Told(answer.status_code, answer.text)

    def post(self, path: str, body: Any, headers: dict[str, str] | None = None) -> Told:
        """A POST as the asker."""
        answer = self.http.post(path, json=body, headers={**self._auth(), **(headers or {})})
        return Told(answer.status_code, answer.text)

    def mcp(self, method: str, params: dict[str, Any]) -> Told:
        """One stateless MCP request as the asker."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
        answer = self.http.post("/mcp", json=body, headers={**self._auth(), **headers})
        text = answer.text
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            text = "\n".join(x.removeprefix("data:").strip() for x in text.splitlines() if x.startswith("data:"))
        if answer.status_code != 200:
            return Told(answer.status_code, text)
        result = json.loads(text)
        error = result.get("error")
        if error is None and not result["result"].get("isError", False):
            return Told(200, text)
        fault = _FAULT in text or (error or {}).get("code") == _INTERNAL_ERROR
        return Told(500 if fault else 404, text)

    def _auth(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token is not None else {}


Asking = Callable[[Client, str], Told]


def _tool(name: str, argument: str) -> Asking:
    return lambda c, text: c.mcp("tools/call", {"name": name, "arguments": {argument: text}})


# By name: to ask a question, to open an address, to ask for people, to ask for a meaning.
ASK: dict[str, Asking] = {
    "context as JSON": lambda c, q: c.post("/v1/context", {"question": q}),
    "context as Markdown": lambda c, q: c.post("/v1/context", {"question": q}, MARKDOWN),
    "get_context": _tool("get_context", "question"),
}
OPEN: dict[str, Asking] = {
    "item as JSON": lambda c, uri: c.get("/v1/items", {"uri": uri}),
    "item as Markdown": lambda c, uri: c.get("/v1/items", {"uri": uri}, MARKDOWN),
    "expand_context": _tool("expand_context", "id"),
    "resource": lambda c, uri: c.mcp("resources/read", {"uri": uri}),
}
PEOPLE: dict[str, Asking] = {
    "people as JSON": lambda c, topic: c.get("/v1/people", {"topic": topic}),
    "people as Markdown": lambda c, topic: c.get("/v1/people", {"topic": topic}, MARKDOWN),
    "who_knows": _tool("who_knows", "topic"),
}
DEFINE: dict[str, Asking] = {
    "definitions as JSON": lambda c, term: c.get("/v1/definitions", {"term": term}),
    "definitions as Markdown": lambda c, term: c.get("/v1/definitions", {"term": term}, MARKDOWN),
    "define": _tool("define", "term"),
}
