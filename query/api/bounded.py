"""A limit on what a request may send, before anything reads it."""

from __future__ import annotations

from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from query.api.problems import problem

MAX_BODY_BYTES: Final = 64 * 1024


class BoundedBody:
    """Refuses a body that is larger than `MAX_BODY_BYTES` or does not say how large it is.

    `elsewhere` are paths whose endpoint keeps a limit of its own.
    """

    def __init__(self, app: ASGIApp, elsewhere: frozenset[str]) -> None:
        self._app = app
        self._elsewhere = elsewhere

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] != "http" or scope["path"] in self._elsewhere:
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        length = headers.get("content-length")
        if "transfer-encoding" in headers:
            # Where both stand there, the server reads by this one, whatever length is told beside it.
            await problem(411, "length-required", "Send a Content-Length header, and no Transfer-Encoding")(
                scope, receive, send
            )
        elif length is not None and (not length.isdigit() or int(length) > MAX_BODY_BYTES):
            refused = problem(422, "invalid-input", f"The request body is larger than {MAX_BODY_BYTES} bytes")
            await refused(scope, receive, send)
        elif length is None and scope["method"] in {"POST", "PUT", "PATCH"}:
            await problem(411, "length-required", "Send a Content-Length header")(scope, receive, send)
        else:
            await self._app(scope, receive, send)
