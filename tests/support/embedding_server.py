"""A server of embeddings on loopback, in the way of OpenAI: vectors of a text's digest, for processes of their own."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.support.quick_embedder import QuickEmbedder

MODEL = "quick"


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        """One vector a text."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        vectors = [[float(x) for x in v] for v in QuickEmbedder().embed_documents(asked["input"])]
        rows = [{"index": n, "embedding": vector} for n, vector in enumerate(vectors)]
        body = json.dumps({"data": rows, "model": MODEL}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is logged."""


def settings_of(url: str) -> Mapping[str, str]:
    """The variables that have a process embed at `url`: one that loads a model of its own takes long to begin."""
    return {
        "CONTEXT_ENGINE_EMBEDDER": "openai",
        "CONTEXT_ENGINE_EMBEDDER_URL": url,
        "CONTEXT_ENGINE_EMBEDDER_MODEL": MODEL,
    }


@contextmanager
def embedding_server() -> Iterator[str]:
    """Serve while the context lasts; its address, without `/embeddings`."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
