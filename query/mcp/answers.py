"""Tools and resources answered by the service in this process, each request for whoever its own token names."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from anyio import to_thread
from mcp import MCPError
from mcp.types import (
    INVALID_PARAMS,
    CallToolResult,
    ReadResourceResult,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
    Tool,
)
from pydantic import ValidationError

from core.errors import ContextEngineError, ForbiddenError, IdentityError, InvariantError
from core.principals import VerifiedAsker
from core.render import render_item
from query.mcp.server import Context
from query.mcp.templates import MARKDOWN, TEMPLATES
from query.mcp.told import bad_arguments, resource_error, tool_error
from query.mcp.tools import TOOLS, ContextTool
from query.refusals import INTERNAL, Refusal, log_unexpected, refusal_of
from query.service import ContextService

EXCHANGE: Final = "context_engine.exchange"

_Answer = TypeVar("_Answer")


@dataclass(slots=True)
class Exchange:
    """One HTTP request and whose it is. `refused` is set where its answer has to be a refusal of the token."""

    asker: VerifiedAsker
    refused: IdentityError | ForbiddenError | None = None


class ServiceAnswers:
    """Answers by `service`."""

    def __init__(self, service: ContextService) -> None:
        self._service = service
        self._tools = {tool.name: tool for tool in TOOLS}
        self._listed = [tool.listed() for tool in TOOLS]

    async def tools(self, context: Context) -> list[Tool]:
        """The same tools for everybody."""
        return self._listed

    async def templates(self, context: Context) -> list[ResourceTemplate]:
        """The same templates for everybody."""
        return list(TEMPLATES)

    async def call(self, context: Context, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        """Answer a tool as Markdown and as JSON. Raises MCPError for an unknown tool."""
        tool = self._tools.get(name)
        if tool is None:
            raise MCPError(INVALID_PARAMS, f"Unknown tool. The tools are {', '.join(self._tools)}")
        exchange = _exchange(context)
        answer = await _guarded(exchange, lambda: self._called(tool, exchange.asker, arguments))
        return tool_error(answer) if isinstance(answer, Refusal) else answer

    def _called(self, tool: ContextTool, asker: VerifiedAsker, arguments: Mapping[str, Any]) -> CallToolResult:
        try:
            validated = tool.arguments.model_validate(arguments)
        except ValidationError as e:
            raise bad_arguments(e, list(tool.arguments.model_fields)) from None
        view = tool.ask(self._service, asker, validated)
        return CallToolResult(
            content=[TextContent(type="text", text=tool.markdown(view))],
            structured_content=json.loads(view.model_dump_json(by_alias=True)),
        )

    async def read(self, context: Context, uri: str) -> ReadResourceResult:
        """Read one item as Markdown. Raises MCPError, the same for what is absent, hidden or no address."""
        exchange = _exchange(context)
        text = await _guarded(exchange, lambda: render_item(self._service.item(exchange.asker, uri)))
        if isinstance(text, Refusal):
            raise resource_error(text, uri)
        return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type=MARKDOWN, text=text)])


async def _guarded(exchange: Exchange, work: Callable[[], _Answer]) -> _Answer | Refusal:
    """Do `work` in a thread; what goes wrong comes back as it is to be told."""
    try:
        return await to_thread.run_sync(work)
    except (IdentityError, ForbiddenError) as e:
        exchange.refused = e
        return refusal_of(e)
    except ContextEngineError as e:
        return refusal_of(e)
    except Exception as e:
        log_unexpected(e)
        return INTERNAL


def _exchange(context: Context) -> Exchange:
    """Whose request this is, from the request itself and nothing older. Raises InvariantError where nobody verified."""
    exchange = context.request.scope.get(EXCHANGE) if context.request is not None else None
    if not isinstance(exchange, Exchange):
        raise InvariantError("a request that no token was verified for")
    return exchange
