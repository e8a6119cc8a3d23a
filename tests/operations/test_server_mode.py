"""Server mode: each plane comes to Qdrant with its own key, and half a configuration is refused."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from context_engine.stores import build_index
from core.embedding.port import Embedder
from core.errors import ConfigError, StoreUnavailableError
from core.settings import Settings


@pytest.fixture
def gate() -> Iterator[tuple[str, list[str]]]:
    """A server that lets nobody in, and the keys that it was shown."""
    keys: list[str] = []

    class Refuse(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            keys.append(str(self.headers.get("api-key")))
            self.send_response(403)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Refuse)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", keys
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")
def test_each_plane_has_its_own_key(gate: tuple[str, list[str]], embedder: Embedder) -> None:
    url, keys = gate
    index = build_index(Settings(qdrant_url=url, qdrant_api_key="writes", qdrant_read_key="reads"), embedder)  # type: ignore[arg-type]
    try:
        with pytest.raises(StoreUnavailableError, match="refuses the key"):
            index.reader.ping()
        assert set(keys) == {"reads"}
        keys.clear()
        with pytest.raises(StoreUnavailableError, match="refuses the key"):
            index.writer.count_points()
        assert set(keys) == {"writes"}
    finally:
        index.close()


def test_a_key_for_writing_alone_is_refused(embedder: Embedder) -> None:
    with pytest.raises(ConfigError) as caught:
        build_index(Settings(qdrant_url="http://127.0.0.1:1", qdrant_api_key="writes"), embedder)  # type: ignore[arg-type]
    assert caught.value.where == "qdrant_read_key"
