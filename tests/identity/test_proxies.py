"""A proxy that the environment names is for the way out: nothing that is on this machine is asked through it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import cast

import pytest

from context_engine.commands.asking import post
from context_engine.passing_on import PassingOn
from core.errors import ContextEngineError, StoreUnavailableError
from core.index.server import ServerConnection
from query.keys import fetch_keys
from query.mcp.server import Context
from tests.identity.issuer import serving
from tests.identity.test_keys import settings

# Nothing listens there.
NOBODY = "http://127.0.0.1:9"


class Proxy(ThreadingHTTPServer):
    """Keeps what it was told, and answers that it won't."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.told = list[str]()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Proxy

    def do_GET(self) -> None:
        self.server.told.append(f"{self.requestline} {self.headers.get('Authorization')}")
        self.send_error(502)

    do_POST = do_CONNECT = do_GET  # noqa: N815 (names of the library)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with Proxy() as made:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, made.url)
        thread = threading.Thread(target=made.serve_forever, daemon=True)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def test_no_token_goes_to_this_machine_by_a_proxy(proxy: Proxy) -> None:
    async def work() -> str:
        async with PassingOn(f"{NOBODY}/mcp", lambda: "x.y.z", renewal="") as answers:
            told = (await answers.call(cast(Context, None), "define", {"term": "CSR"})).content[0]
            return str(getattr(told, "text", ""))

    assert asyncio.run(work()).startswith("unreachable:")
    with pytest.raises(ContextEngineError, match="does not answer"):
        post(NOBODY, "x.y.z", {"question": "?"})
    assert proxy.told == []


@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")
def test_nor_does_the_key_of_a_store(proxy: Proxy) -> None:
    with pytest.raises(StoreUnavailableError):
        ServerConnection(url=NOBODY, collection="c", size=3, embedder="e", api_key="k").run(lambda c: c.info())
    assert proxy.told == []


def test_keys_on_this_machine_come_by_no_proxy(proxy: Proxy) -> None:
    with serving() as issuer:
        assert set(fetch_keys(settings(issuer))) == {"one"}
    assert proxy.told == []
