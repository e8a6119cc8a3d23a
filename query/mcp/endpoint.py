"""The endpoint of the HTTP API that speaks the protocol: who may call it, and as whom, before anything is read.

In this order: the Host and Origin headers (DNS rebinding), the method, the bearer token. Nothing is kept between two
requests: no session, so none to take over, and each request is its own token's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from anyio import to_thread
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from core.errors import ContextEngineError
from query.mcp.answers import EXCHANGE, Exchange, ServiceAnswers
from query.mcp.server import build_server
from query.oauth import ProtectedResource
from query.service import ContextService

MAX_BODY_BYTES: Final = 64 * 1024
_SENT_BY_PAGES: Final = "Authorization, Content-Type, Accept, MCP-Protocol-Version, Mcp-Method, Mcp-Name"

Refuse = Callable[[ContextEngineError, Request], Response]


class McpEndpoint:
    """An ASGI endpoint. `refuse` makes the HTTP answer for a token that is not accepted, as everywhere in the API."""

    def __init__(self, service: ContextService, resource: ProtectedResource, refuse: Refuse) -> None:
        self._service = service
        self._resource = resource
        self._refuse = refuse
        self._server = build_server(ServiceAnswers(service))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope, receive)
        origin = request.headers.get("origin")
        if not self._resource.knows_host(request.headers.get("host", "")):
            await _plain(421, "This is not a name of the engine")(scope, receive, _marked(send, None))
            return
        if origin is not None and not self._resource.knows_origin(origin):
            await _plain(403, "Pages of this origin may not ask")(scope, receive, _marked(send, None))
            return
        send = _marked(send, origin)
        if request.method == "OPTIONS" and origin is not None:
            allowed = {"Access-Control-Allow-Methods": "POST", "Access-Control-Allow-Headers": _SENT_BY_PAGES}
            await Response(status_code=204, headers=allowed)(scope, receive, send)
        elif request.method != "POST":
            await _plain(405, "Send POST", {"Allow": "POST"})(scope, receive, send)
        else:
            await self._post(request, send)

    async def _post(self, request: Request, send: Send) -> None:
        authorizations = request.headers.getlist("authorization")
        try:
            exchange = Exchange(await to_thread.run_sync(self._service.asker, *authorizations))
        except ContextEngineError as e:
            await self._refuse(e, request)(request.scope, request.receive, send)
            return
        receive = await _at_hand(request.receive)
        if receive is None:
            return
        request.scope[EXCHANGE] = exchange
        replaced = False

        async def late(message: Message) -> None:
            """The SDK's answer, unless it turned out that the asker may not ask: then that, as the API says it."""
            nonlocal replaced
            if message["type"] == "http.response.start" and exchange.refused is not None:
                replaced = True
                await self._refuse(exchange.refused, request)(request.scope, receive, send)
            elif not replaced:
                await send(message)

        # A manager a request: it costs next to nothing, and leaves nothing that two requests could share.
        manager = StreamableHTTPSessionManager(
            app=self._server, stateless=True, json_response=True, max_request_body_size=MAX_BODY_BYTES
        )
        async with manager.run():
            await manager.handle_request(request.scope, receive, late)


async def _at_hand(receive: Receive) -> Receive | None:
    """`receive` of a request whose body has come, as far as it will be read; None where the client left before that.

    The SDK calls it an error where one leaves, and logs it: so anybody could fill the log.
    """
    come = deque[Message]()
    length, more = 0, True
    while more and length <= MAX_BODY_BYTES:
        message = await receive()
        if message["type"] != "http.request":
            return None
        come.append(message)
        length += len(message.get("body", b""))
        more = message.get("more_body", False)

    async def again() -> Message:
        return come.popleft() if come else await receive()

    return again


def _plain(status: int, text: str, headers: dict[str, str] | None = None) -> Response:
    return Response(text, status, headers, "text/plain")


def _marked(send: Send, origin: str | None) -> Send:
    """`send`, with headers that forbid keeping the answer, and allow pages of `origin` to read it."""

    async def marked(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["Cache-Control"] = "no-store"
            headers["Vary"] = "Authorization, Origin"
            if origin is not None:
                headers["Access-Control-Allow-Origin"] = origin
                headers["Access-Control-Expose-Headers"] = "WWW-Authenticate, Retry-After"
        await send(message)

    return marked
