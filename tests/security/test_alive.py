"""Whoever keeps every thread of the API waiting does not make the process look dead."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import httpx
from anyio import to_thread

from context_engine.http_server import LoopbackServer
from query.api import create_app
from tests.support.guard_checks import Border


def test_it_says_that_it_is_alive_while_every_thread_waits_for_a_store(at_the_border: Border) -> None:
    waiting, over = threading.Semaphore(0), threading.Event()

    async def size_of_the_pool() -> int:
        return int(to_thread.current_default_thread_limiter().total_tokens)

    def hangs() -> None:
        waiting.release()
        over.wait(60)

    app = create_app(replace(at_the_border.whole.services, checks={"postgres": hangs}))
    app.add_api_route("/size", size_of_the_pool)
    with LoopbackServer(app) as server, httpx.Client(base_url=server.url, timeout=10) as client:
        threads = client.get("/size").json()
        with ThreadPoolExecutor(threads) as pool:
            asked = [pool.submit(httpx.get, f"{server.url}/readyz", timeout=60) for _ in range(threads)]
            try:
                assert all(waiting.acquire(timeout=60) for _ in range(threads))
                assert client.get("/healthz").json() == {"status": "ok"}
            finally:
                over.set()
            assert {a.result().status_code for a in asked} == {200}
