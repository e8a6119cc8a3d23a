"""Whoever opens connections and does not say what for loses them; whoever takes their time with a body does not."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest
from fastapi import FastAPI, Request

from context_engine.http_server import LoopbackServer
from context_engine.timely_protocol import TimelyProtocol

HEAD = b"POST /length HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n"
SECONDS = 0.2


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(TimelyProtocol, "head_seconds", SECONDS)
    app = FastAPI()

    @app.post("/length")
    async def length(request: Request) -> int:
        return len(await request.body())

    with LoopbackServer(app) as made:
        yield made.url


@pytest.fixture
def connection(server: str) -> Iterator[socket.socket]:
    parts = urlsplit(server)
    with socket.create_connection((parts.hostname, parts.port or 0), timeout=5) as made:
        yield made


def answer(connection: socket.socket) -> bytes:
    """What comes until the whole answer is there; nothing where the connection was ended."""
    got = b""
    while not got.endswith(b"\r\n\r\n4") and (more := connection.recv(4096)):
        got += more
    return got


@pytest.mark.parametrize("said", [b"", b"POST /le", HEAD])
def test_a_head_that_does_not_come_ends_the_connection(connection: socket.socket, said: bytes) -> None:
    connection.sendall(said)
    assert answer(connection) == b""


def test_nor_does_one_that_comes_after_a_good_request(connection: socket.socket) -> None:
    connection.sendall(HEAD + b"\r\nbody")
    assert answer(connection).endswith(b"4")
    connection.sendall(HEAD)
    assert answer(connection) == b""


def test_a_body_may_take_its_time_and_a_connection_be_used_again(connection: socket.socket, server: str) -> None:
    for _ in range(2):
        connection.sendall(HEAD + b"\r\nbo")
        connection.settimeout(2 * SECONDS)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        connection.settimeout(5)
        connection.sendall(b"dy")
        assert answer(connection).endswith(b"4")
    assert httpx.post(f"{server}/length", content=b"body").text == "4"
