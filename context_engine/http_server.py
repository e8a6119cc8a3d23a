"""An ASGI app on a loopback port in a thread of this process, for commands that ask over real HTTP."""

from __future__ import annotations

import socket
import threading
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Literal

import uvicorn
from fastapi import FastAPI

from context_engine.timely_protocol import TimelyProtocol
from core.errors import ConfigError

START_SECONDS = 15


class LoopbackServer(AbstractContextManager["LoopbackServer"]):
    """Serves `app` on 127.0.0.1 while the context is open; `port` 0 takes a free one. `lifespan`: the app has
    something to do at its start or end. `setting`: what gave the port, for the error where it can't be had."""

    def __init__(
        self,
        app: FastAPI,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        lifespan: bool = False,
        setting: str = "port",
    ) -> None:
        self._app = app
        self._setting = setting
        self._lifespan: Literal["on", "off"] = "on" if lifespan else "off"
        self._host = host
        self._port = port

    def __enter__(self) -> LoopbackServer:
        self._socket = _bound(self._host, self._port, self._setting)
        config = uvicorn.Config(self._app, http=TimelyProtocol, log_level="warning", lifespan=self._lifespan)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), daemon=True)
        self._thread.start()
        waited = threading.Event()
        for _ in range(START_SECONDS * 100):
            if self._server.started or not self._thread.is_alive():
                break
            waited.wait(0.01)
        if not self._server.started:
            raise ConfigError("the HTTP server did not start", where=self.url)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join(timeout=10)
        self._socket.close()

    @property
    def url(self) -> str:
        """The base URL."""
        host, port = self._socket.getsockname()[:2]
        return f"http://{host}:{port}"


def check_free(host: str, port: int, setting: str = "port") -> None:
    """Raises ConfigError where a port can't be had, for whoever would otherwise learn it after hours of crawling."""
    _bound(host, port, setting).close()


def _bound(host: str, port: int, setting: str) -> socket.socket:
    # The protocol is named because asyncio sets TCP_NODELAY only then: without it every answer waits some 40 ms.
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except OSError as e:
        made.close()
        raise ConfigError(
            f"port {port} on {host} can't be had: {(e.strerror or type(e).__name__).lower()}",
            where=setting,
            mend="Stop what uses it, or choose another port or host",
        ) from e
    return made
