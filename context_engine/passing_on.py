"""Tools and resources answered by an engine elsewhere: each request is passed on with one token, and nothing is kept.

For `context-engine mcp`, the server on standard input and output for clients that start one. It holds a person's token
and no credential of a store; who asks, and what they may see, is decided where the engine is, at each request.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, TypeVar

import httpx
from mcp import MCPError
from mcp.shared.inbound import encode_header_value
from mcp.types import (
    CLIENT_CAPABILITIES_META_KEY,
    INTERNAL_ERROR,
    PROTOCOL_VERSION_META_KEY,
    CallToolResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    ReadResourceResult,
    ResourceTemplate,
    Tool,
)
from pydantic import BaseModel, ValidationError

from core.errors import ConfigError
from core.this_machine import NO_PROXY
from query.mcp.server import Context
from query.mcp.told import problem_of, tool_error
from query.refusals import TYPE, Refusal

PROTOCOL: Final = "2026-07-28"
ASK_SECONDS: Final = 120.0

_Result = TypeVar("_Result", bound=BaseModel)


class NotAnsweredError(Exception):
    """The engine refused the request itself, or could not be reached."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal
        super().__init__(refusal.title)


class PassingOn:
    """Answers by the engine whose MCP endpoint is `url`. `token` is called for each request; `renewal` says how to
    put a fresh one where it comes from."""

    def __init__(self, url: str, token: Callable[[], str], *, renewal: str) -> None:
        self._url = url
        self._token = token
        self._renewal = renewal
        self._numbers = itertools.count(1)
        # Redirects are not followed: the token is for this address.
        self._client = httpx.AsyncClient(timeout=ASK_SECONDS, follow_redirects=False, mounts=NO_PROXY)

    async def __aenter__(self) -> PassingOn:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def tools(self, context: Context) -> list[Tool]:
        """The engine's tools. Raises MCPError where it does not answer."""
        return (await self._protocol(ListToolsResult, "tools/list", {})).tools

    async def templates(self, context: Context) -> list[ResourceTemplate]:
        """The engine's templates. Raises MCPError where it does not answer."""
        listed = await self._protocol(ListResourceTemplatesResult, "resources/templates/list", {})
        return listed.resource_templates

    async def call(self, context: Context, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        """The engine's answer; what keeps it from answering is told as the tool's error. Raises MCPError as it does."""
        try:
            return await self._asked(CallToolResult, "tools/call", {"name": name, "arguments": dict(arguments)}, name)
        except NotAnsweredError as e:
            return tool_error(e.refusal)

    async def read(self, context: Context, uri: str) -> ReadResourceResult:
        """The engine's answer. Raises MCPError as it does, and where it does not answer."""
        return await self._protocol(ReadResourceResult, "resources/read", {"uri": uri}, uri)

    async def _protocol(
        self, result: type[_Result], method: str, params: dict[str, Any], name: str | None = None
    ) -> _Result:
        try:
            return await self._asked(result, method, params, name)
        except NotAnsweredError as e:
            raise MCPError(INTERNAL_ERROR, e.refusal.title, problem_of(e.refusal)) from None

    async def _asked(self, result: type[_Result], method: str, params: dict[str, Any], name: str | None) -> _Result:
        """One request in the protocol's era without sessions.

        Raises MCPError for an error of the protocol, NotAnsweredError for anything else that is no result.
        """
        try:
            token = self._token()
        except ConfigError as e:
            raise NotAnsweredError(
                Refusal(status=401, kind="missing_token", title=e.message, detail=self._renewal)
            ) from None
        meta = {PROTOCOL_VERSION_META_KEY: PROTOCOL, CLIENT_CAPABILITIES_META_KEY: {}}
        headers = {
            "Authorization": f"Bearer {token}",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": PROTOCOL,
            "Mcp-Method": method,
        }
        if name is not None:
            headers["Mcp-Name"] = encode_header_value(name)
        body = {"jsonrpc": "2.0", "id": next(self._numbers), "method": method, "params": {**params, "_meta": meta}}
        try:
            answer = await self._client.post(self._url, json=body, headers=headers)
        except httpx.HTTPError as e:
            title = f"The engine at {self._url} does not answer ({type(e).__name__})"
            raise NotAnsweredError(Refusal(status=503, kind="unreachable", title=title, retry_after=5)) from None
        told = _object(answer)
        if isinstance(told.get("error"), dict):
            error = told["error"]
            raise MCPError(int(error.get("code", INTERNAL_ERROR)), str(error.get("message", "")), error.get("data"))
        try:
            if answer.status_code == httpx.codes.OK:
                return result.model_validate(_without_stamp(told.get("result")))
        except ValidationError:
            told = {}
        if "type" not in told:
            title = f"What answers at {self._url} is no engine (HTTP {answer.status_code})"
            raise NotAnsweredError(Refusal(status=502, kind="no-engine", title=title))
        raise NotAnsweredError(self._refusal(answer, told))

    def _refusal(self, answer: httpx.Response, told: dict[str, Any]) -> Refusal:
        """The API's problem+json, with what to do about the token where that is what was refused."""
        retry = answer.headers.get("retry-after", "")
        detail = told.get("detail")
        if answer.status_code == httpx.codes.UNAUTHORIZED:
            detail = self._renewal
        return Refusal(
            status=answer.status_code,
            kind=str(told.get("type", "http")).removeprefix(TYPE),
            title=str(told.get("title", f"HTTP {answer.status_code}")),
            detail=None if detail is None else str(detail),
            retry_after=int(retry) if retry.isdigit() else None,
        )


def _object(answer: httpx.Response) -> dict[str, Any]:
    try:
        told = answer.json()
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _without_stamp(result: Any) -> Any:
    """A result without the `_meta` of the protocol's later era: this server stamps its own, or speaks the earlier."""
    if not isinstance(result, dict) or not isinstance(result.get("_meta"), dict):
        return result
    meta = {k: v for k, v in result["_meta"].items() if not k.startswith("io.modelcontextprotocol/")}
    kept = {k: v for k, v in result.items() if k != "_meta"}
    return {**kept, "_meta": meta} if meta else kept
