"""Errors as problem+json (RFC 9457): a class and a way to mend, never details of what was refused or of a store."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from core.errors import ContextEngineError
from query.oauth import ProtectedResource
from query.refusals import INTERNAL, TYPE, Refusal, log_unexpected, refusal_of


def problem(
    status: int, kind: str, title: str, detail: str | None = None, headers: dict[str, str] | None = None, **more: Any
) -> JSONResponse:
    """A problem+json answer, to be kept by no cache. `kind` is the stable name that programs branch on."""
    body: dict[str, Any] = {"type": TYPE + kind, "title": title, "status": status, **more}
    if detail:
        body["detail"] = detail
    return JSONResponse(
        body, status, {"Cache-Control": "no-store", **(headers or {})}, media_type="application/problem+json"
    )


def answer(error: ContextEngineError, request: Request, resource: ProtectedResource) -> JSONResponse:
    """The problem that an error of ours is told as, with the challenge of `resource` where a token would mend it."""
    challenge = resource.challenge(error, resource.base(request.headers, request.url.scheme))
    return _problem_of(refusal_of(error), {"WWW-Authenticate": challenge} if challenge is not None else {})


def _problem_of(refusal: Refusal, headers: dict[str, str]) -> JSONResponse:
    if refusal.retry_after is not None:
        headers = {**headers, "Retry-After": str(refusal.retry_after)}
    return problem(refusal.status, refusal.kind, refusal.title, refusal.detail, headers)


def install(app: FastAPI, resource: ProtectedResource) -> None:
    """Register the handlers, so that nothing leaves the API in another shape."""

    @app.exception_handler(ContextEngineError)
    def ours(request: Request, error: ContextEngineError) -> JSONResponse:
        return answer(error, request, resource)

    @app.exception_handler(RequestValidationError)
    def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        # Input values are not echoed: they can be large, and logs of clients are not ours.
        problems = [
            {"at": ".".join(str(x) for x in e["loc"] if x != "body") or "body", "why": e["msg"]} for e in error.errors()
        ]
        return problem(422, "invalid-input", "The request is not well formed", errors=problems[:20])

    @app.exception_handler(HTTPException)
    def http(_: Request, error: HTTPException) -> JSONResponse:
        if error.status_code == 400:  # how the framework calls a body that can't be parsed
            return problem(422, "invalid-input", "The request body is not valid JSON in UTF-8")
        return problem(error.status_code, "http", str(error.detail), headers=dict(error.headers or {}))


class NothingUnexpected:
    """Answers a defect of ours, and logs where it is. Passed on, it would be logged with all that it says."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception as e:
            log_unexpected(e)
            if scope["type"] == "http" and not started:
                await _problem_of(INTERNAL, {})(scope, receive, send)
