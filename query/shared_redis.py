"""The Redis that processes of the query plane share and can do without: where it does not answer it is left alone for a
while, and whoever asked goes on without it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Final

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from core.errors import ConfigError

# What a call of its client raises where it does not answer, or not as it should.
FAULTS: Final = (redis.RedisError, OSError)
_TIMEOUT_SECONDS: Final = 0.25
# So long it is not asked again after it failed.
_PAUSE_SECONDS: Final = 5.0


class SharedRedis:
    """A client that waits a quarter of a second at most, and the memory of its last failure. Thread-safe.

    `now` is in seconds, and must never go back. Raises ConfigError for an address that is none.
    """

    def __init__(self, url: str, *, now: Callable[[], float] = time.monotonic) -> None:
        try:
            self.client: Any = redis.Redis.from_url(
                url,
                socket_timeout=_TIMEOUT_SECONDS,
                socket_connect_timeout=_TIMEOUT_SECONDS,
                retry=Retry(NoBackoff(), 0),
            )
        except ValueError as e:
            raise ConfigError(
                "that is no address of a Redis server",
                where="query_redis_url",
                mend="Write redis://:PASSWORD@HOST:6379/0",
            ) from e
        self._now = now
        self._asleep_until: float | None = None
        self._lock = threading.Lock()

    @property
    def is_asleep(self) -> bool:
        """Whether it failed a moment ago, and is not to be asked."""
        with self._lock:
            return self._asleep_until is not None and self._now() < self._asleep_until

    def failed(self) -> None:
        """Leave it alone from now on, for a while."""
        with self._lock:
            self._asleep_until = self._now() + _PAUSE_SECONDS

    def close(self) -> None:
        """Let go of the connections."""
        self.client.close()
