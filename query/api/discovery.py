"""Where clients learn who issues tokens for this engine: protected resource metadata (RFC 9728)."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from query.oauth import ProtectedResource

# The document holds nothing that anybody may not know, and web pages of clients have to read it.
_HEADERS = {
    "Cache-Control": "no-store",
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Headers": "MCP-Protocol-Version",
}


def serve_metadata(app: FastAPI, resource: ProtectedResource) -> None:
    """Add the routes of the metadata document, which is open to everybody who calls the engine by its name."""

    def metadata(request: Request) -> Response:
        base = resource.base(request.headers, request.url.scheme)
        if base is None or not resource.knows_host(request.headers.get("host", "")):
            return Response("This is not a name of the engine", 421, _HEADERS, "text/plain")
        if request.method == "OPTIONS":
            return Response(status_code=204, headers=_HEADERS)
        return JSONResponse(resource.metadata(base), headers=_HEADERS)

    for path in resource.metadata_paths():
        app.router.routes.append(Route(path, metadata, methods=["GET", "HEAD", "OPTIONS"]))
