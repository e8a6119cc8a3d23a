"""HTTP as uvicorn speaks it, for senders that take their time: a request's head has to come within some seconds.

Uvicorn itself waits for ever, so whoever opens connections and says nothing takes every one that there is.
"""

from __future__ import annotations

import asyncio
from typing import Final

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS: Final = 10.0


class TimelyProtocol(H11Protocol):
    """Ends a connection whose next request has begun, or was to come first, and has no whole head after
    `head_seconds`. Between two requests uvicorn's own limit holds."""

    head_seconds = HEAD_SECONDS
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._working():
            self._forget()
        elif self._late is None and self.timeout_keep_alive_task is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def _working(self) -> bool:
        """Whether a request whose head has come is not answered yet."""
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self) -> None:
        self._late = self.loop.call_later(self.head_seconds, self._end)

    def _forget(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _end(self) -> None:
        self._late = None
        if not self._working() and not self.transport.is_closing():
            self.transport.close()
