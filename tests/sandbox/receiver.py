"""A receiver of deliveries on loopback: it shakes hands as it is told to, keeps what it gets, and answers by a list."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Received:
    """One request as it came."""

    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """Return the body."""
        return json.loads(self.body)


@dataclass
class Receiver:
    """What came, and what is answered: the statuses of `answers` one by one, then 202."""

    url: str = ""
    received: list[Received] = field(default_factory=list)
    handshakes: list[Received] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    handshake: tuple[int, str, str] | None = None  # status, content type and body in place of the right ones
    lingers: threading.Event | None = None  # a handshake waits for it
    lingers_at: threading.Event | None = None  # a delivery does
    asked: threading.Event = field(default_factory=threading.Event)  # something has come

    def clear(self) -> None:
        """Forget everything, and answer well again."""
        self.received, self.handshakes, self.answers = [], [], []
        self.handshake = self.lingers = self.lingers_at = None
        self.asked.clear()

    def reply(self, request: Received) -> tuple[int, str, bytes]:
        """Return status, content type and body of the answer."""
        token = request.query.get("validationToken")
        self.asked.set()
        if token is None:
            self.received.append(request)
            if self.lingers_at is not None:
                self.lingers_at.wait(5)
            return (self.answers.pop(0) if self.answers else 202), "text/plain", b""
        self.handshakes.append(request)
        if self.lingers is not None:
            self.lingers.wait(5)
        status, kind, body = self.handshake or (200, "text/plain; charset=utf-8", token[0])
        return status, kind, body.encode()


@contextmanager
def listening() -> Iterator[Receiver]:
    """Serve a receiver while the context lasts."""
    made = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, kind, content = made.reply(Received(parts.path, parse_qs(parts.query), headers, body))
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01), daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
