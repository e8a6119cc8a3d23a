"""Errors as problem+json (RFC 9457): a class and a way to mend, never details of what was refused or of a store."""

from __future__ import annotations

import logging
import math
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from core.errors import (
    ContextEngineError,
    ForbiddenError,
    IdentityError,
    InputError,
    NotFoundError,
    RateLimitedError,
    StoreUnavailableError,
    UnresolvedIdentityError,
)

log = logging.getLogger(__name__)
TYPE = "urn:context-engine:problem:"


def problem(
    status: int, kind: str, title: str, detail: str | None = None, headers: dict[str, str] | None = None, **more: Any
) -> JSONResponse:
    """A problem+json answer. `kind` is the stable name that programs branch on."""
    body: dict[str, Any] = {"type": TYPE + kind, "title": title, "status": status, **more}
    if detail:
        body["detail"] = detail
    return JSONResponse(body, status, headers, media_type="application/problem+json")


def answer(error: ContextEngineError) -> JSONResponse:
    """The problem that an error of ours is told as."""
    match error:
        case IdentityError():
            challenge = f'Bearer error="invalid_token", error_description="{error.reason.value}"'
            return problem(
                401, error.reason.value, "The bearer token was refused", headers={"WWW-Authenticate": challenge}
            )
        case ForbiddenError():
            challenge = 'Bearer error="insufficient_scope"'
            return problem(403, "forbidden", error.message, error.mend, {"WWW-Authenticate": challenge})
        case NotFoundError():
            return problem(404, "not-found", "There is no such item, or you may not read it")
        case InputError():
            return problem(422, "invalid-input", error.message, error.mend)
        case RateLimitedError():
            return problem(429, "rate-limited", "Too many requests", headers=_retry(error.retry_after))
        case UnresolvedIdentityError():
            return problem(503, "identity-unresolved", "Your memberships are not fully known yet", headers=_retry(5.0))
        case StoreUnavailableError():
            log.error("store unavailable: %s", error.store)
            return problem(
                503, "store-unavailable", f"A store does not answer: {error.store}", headers=_retry(error.retry_after)
            )
    log.error("unexpected error of kind %s", type(error).__name__)
    return problem(500, "internal", "The engine failed on this request; nothing was returned")


def install(app: FastAPI) -> None:
    """Register the handlers, so that nothing leaves the API in another shape."""

    @app.exception_handler(ContextEngineError)
    def ours(_: Request, error: ContextEngineError) -> JSONResponse:
        return answer(error)

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

    @app.exception_handler(Exception)
    def unexpected(_: Request, error: Exception) -> JSONResponse:
        log.exception("unexpected error of kind %s", type(error).__name__)
        return problem(500, "internal", "The engine failed on this request; nothing was returned")


def _retry(seconds: float) -> dict[str, str]:
    return {"Retry-After": str(max(1, math.ceil(seconds)))}
