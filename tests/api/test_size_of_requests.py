"""No more of a request is read than it may have, whatever it says of its length."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI, Request

from context_engine.http_server import LoopbackServer
from query.api.bounded import MAX_BODY_BYTES, BoundedBody

PIECE = b"%x\r\n%s\r\n" % (4096, b"x" * 4096)


@pytest.fixture
def read() -> list[int]:
    """How many bytes of a body came through, for each request that did."""
    return []


@pytest.fixture
def connection(read: list[int]) -> Iterator[socket.socket]:
    app = FastAPI()

    @app.post("/length")
    async def length(request: Request) -> None:
        read.append(len(await request.body()))

    app.add_middleware(BoundedBody, elsewhere=frozenset())
    with LoopbackServer(app) as server:
        parts = urlsplit(server.url)
        with socket.create_connection((parts.hostname, parts.port or 0), timeout=5) as made:
            yield made


@pytest.mark.parametrize("told", [b"", b"Content-Length: 4\r\n", b"Content-Length: %d\r\n" % (MAX_BODY_BYTES + 1)])
def test_a_body_in_pieces_is_refused_whatever_length_is_told_beside_them(
    connection: socket.socket, read: list[int], told: bytes
) -> None:
    connection.sendall(b"POST /length HTTP/1.1\r\nHost: x\r\n" + told + b"Transfer-Encoding: chunked\r\n\r\n")
    connection.sendall(PIECE * 20 + b"0\r\n\r\n")
    assert connection.recv(4096).startswith(b"HTTP/1.1 411 ")
    assert read == []


@pytest.mark.parametrize(("length", "status"), [(MAX_BODY_BYTES, b"200"), (MAX_BODY_BYTES + 1, b"422")])
def test_a_body_of_known_length_is_read_up_to_the_limit(
    connection: socket.socket, read: list[int], length: int, status: bytes
) -> None:
    connection.sendall(b"POST /length HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % length + b"x" * length)
    assert connection.recv(4096).startswith(b"HTTP/1.1 " + status)
    assert read == [length] * (status == b"200")
