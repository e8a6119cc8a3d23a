"""A source that answers in drops keeps a thread no longer than the deadline."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import cast

import pytest

from context_engine.exchange import TokenExchange
from context_engine.reverify import OnBehalfOf, Service
from core.access import ScopeId
from core.items import ItemKind, Source
from core.principals import PrincipalSet, VerifiedAsker
from graph.unconfirmed import ToConfirm
from tests.late_binding.conftest import Side


class Dripping(ThreadingHTTPServer):
    """Begins an answer, and goes on with it for as long as it is read or until it is stopped."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.stopped = threading.Event()


class _Handler(BaseHTTPRequestHandler):
    server: Dripping

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "60000")
        self.end_headers()
        try:
            while not self.server.stopped.wait(0.01):
                self.wfile.write(b" ")
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        pass


class OneToken:
    """An exchange that has the token already."""

    def token(self, asker: VerifiedAsker, scope: str, deadline: float) -> str:
        return "x.y.z"


@pytest.fixture
def dripping() -> Iterator[Dripping]:
    with Dripping() as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield made
        made.stopped.set()
        made.shutdown()
        thread.join()


@pytest.mark.invariant("INV-5", "INV-7")
def test_an_answer_that_comes_in_drops_is_given_up_at_the_deadline(side: Side, dripping: Dripping) -> None:
    principals = side.service().resolver.resolve(side.asker(side.service(), "ben"))
    service = Service(url=f"http://127.0.0.1:{dripping.server_port}", scope="s")
    asks = OnBehalfOf(cast(TokenExchange, OneToken()), azure_devops=service, graph=None, connections=1)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(_confirmed, asks, principals)
        try:
            given_up = asked.exception(timeout=10)
        finally:
            dripping.stopped.set()
    assert str(given_up) == "no time is left to ask the source"


def _confirmed(asks: OnBehalfOf, principals: PrincipalSet) -> frozenset[str]:
    item = ToConfirm(
        uri="ctx://ado/small/work-items/3",
        source=Source.WORK_ITEMS,
        kind=ItemKind.WORK_ITEM,
        scope=ScopeId("area"),
        attributes={},
    )
    return asks.confirmed(principals, [item], time.monotonic() + 0.2)
