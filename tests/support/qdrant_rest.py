"""Qdrant's REST interface over the client's own local engine: as much of it as the index uses, for processes of their
own where there is no server binary. Keys are checked as the server checks them."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import urlsplit

from pydantic import BaseModel, TypeAdapter
from qdrant_client import QdrantClient, models

Answer = Any
_READS: Final = re.compile(r"/points/(query(/batch)?|count|scroll|search)$")
_ROUTE: Final = re.compile(r"/collections/(?P<collection>[^/]+)(?P<rest>/.*)?$")


class QdrantRest:
    """A server on loopback. `stop` takes it off the network and `start` brings it back where it was, data and all."""

    def __init__(self, *, key: str, read_key: str, audit_key: str | None = None) -> None:
        self._key, self._read_keys = key, {read_key, audit_key or read_key}
        self._client = QdrantClient(":memory:")
        self._lock = threading.Lock()
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None
        self.port = 0
        self.refused: list[str] = []

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Listen, on the same port as before."""
        rest = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                status, result = rest.handle(self.command, urlsplit(self.path).path, self.headers.get("api-key"), body)
                sent = json.dumps(result).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(sent)))
                self.end_headers()
                self.wfile.write(sent)

            do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = answer  # noqa: N815

            def log_message(self, format: str, *args: object) -> None:
                """Nothing is logged."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True
            block_on_close = False

        self._server = Server(("127.0.0.1", self.port), Handler)
        self.port = self._server.server_port
        serve: Callable[[float], None] = self._server.serve_forever
        self._thread = threading.Thread(target=serve, args=(0.01,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Let nobody in any more."""
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()
            self._server = self._thread = None

    def close(self) -> None:
        """Stop, and forget everything."""
        self.stop()
        self._client.close()

    def payloads(self) -> dict[str, dict[str, Any]]:
        """What every point says of itself, by its id."""
        found: dict[str, dict[str, Any]] = {}
        for collection in self._client.get_collections().collections:
            records, _ = self._client.scroll(collection.name, limit=100_000, with_payload=True)
            found |= {str(r.id): dict(r.payload or {}) for r in records}
        return found

    def handle(self, method: str, path: str, key: str | None, body: Any) -> tuple[int, Any]:
        """One request."""
        if path in ("/readyz", "/healthz", "/livez"):
            return HTTPStatus.OK, "ok"
        reads = method == "GET" or _READS.search(path) is not None
        if key not in {self._key, *self._read_keys}:
            return HTTPStatus.UNAUTHORIZED, "Invalid API key or JWT"
        if key in self._read_keys and not reads:
            self.refused.append(f"{method} {path}")
            return HTTPStatus.FORBIDDEN, _failed("Global manage access is required")
        route = _ROUTE.match(path)
        if route is None:
            return HTTPStatus.NOT_FOUND, _failed("no such path")
        try:
            with self._lock:
                result = self._do(method, route["collection"], route["rest"] or "", body)
        except ValueError as e:
            return HTTPStatus.NOT_FOUND, _failed(str(e))
        return HTTPStatus.OK, {"result": _plain(result), "status": "ok", "time": 0.0}

    def _do(self, method: str, collection: str, rest: str, body: Any) -> Answer:
        client = self._client
        match method, rest:
            case "GET", "/exists":
                return {"exists": client.collection_exists(collection)}
            case "GET", "":
                return client.get_collection(collection)
            case "PUT", "":
                made = models.CreateCollection.model_validate(body)
                return client.create_collection(
                    collection,
                    vectors_config=made.vectors,
                    sparse_vectors_config=made.sparse_vectors,
                    metadata=made.metadata,
                )
            case "DELETE", "":
                return client.delete_collection(collection)
            case "PUT", "/index":
                return {"operation_id": 0, "status": "completed"}
            case "POST", "/points/query/batch":
                requests = models.QueryRequestBatch.model_validate(body).searches
                return client.query_batch_points(collection, requests)
            case "POST", "/points/count":
                count = models.CountRequest.model_validate(body)
                return client.count(collection, count_filter=count.filter, exact=True)
            case "POST", "/points/scroll":
                asked = models.ScrollRequest.model_validate(body)
                points, offset = client.scroll(
                    collection,
                    scroll_filter=asked.filter,
                    limit=asked.limit or 10,
                    offset=asked.offset,
                    with_payload=asked.with_payload if asked.with_payload is not None else True,
                    with_vectors=asked.with_vector or False,
                )
                return {"points": points, "next_page_offset": offset}
            case "POST", "/points/batch":
                operations = models.UpdateOperations.model_validate(body).operations
                client.batch_update_points(collection, operations)
                return [{"operation_id": 0, "status": "completed"} for _ in operations]
        raise ValueError(f"not served here: {method} {rest}")


def _failed(message: str) -> Answer:
    return {"status": {"error": message}, "time": 0.0}


_ANY: Final = TypeAdapter(Any)


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_none=True)
    return _ANY.dump_python(value, mode="json", exclude_none=True)
