"""Buckets that all processes of the query plane share, in a Redis of its own.

Where it does not answer, each process counts by itself from what it has seen: more may then pass in all, but never
without limit, and nobody is turned away for it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from query.limits import Bucket, InProcessCounter

log = logging.getLogger(__name__)

_PREFIX: Final = "context-engine:rate:"
_TIMEOUT_SECONDS: Final = 0.25
# So long it is not asked again after it failed.
_PAUSE_SECONDS: Final = 5.0
# In whole microseconds by the server's clock, which may be set back: no bucket is emptier than empty. Both buckets are
# looked at before either is charged. ARGV holds interval and burst of each key.
_TAKE: Final = """
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local full, wait = {}, 0
for i, key in ipairs(KEYS) do
    local interval, burst = tonumber(ARGV[2 * i - 1]), tonumber(ARGV[2 * i])
    full[i] = math.min(math.max(tonumber(redis.call('GET', key) or now), now), now + interval * burst)
    wait = math.max(wait, full[i] - now - interval * (burst - 1))
end
if wait > 0 then return wait end
for i, key in ipairs(KEYS) do
    local after = full[i] + tonumber(ARGV[2 * i - 1])
    redis.call('SET', key, string.format('%d', after), 'PX', math.ceil((after - now) / 1000) + 1)
end
return 0
"""


class RedisCounter:
    """Buckets in Redis, counted in one step of the server. Thread-safe."""

    def __init__(self, url: str, *, local: InProcessCounter, now: Callable[[], float] = time.monotonic) -> None:
        self._client: Any = redis.Redis.from_url(
            url,
            socket_timeout=_TIMEOUT_SECONDS,
            socket_connect_timeout=_TIMEOUT_SECONDS,
            retry=Retry(NoBackoff(), 0),
        )
        self._script = self._client.register_script(_TAKE)
        self._local, self._now = local, now
        self._asleep_until: float | None = None
        self._lock = threading.Lock()

    def take(self, buckets: Sequence[Bucket]) -> float:
        """See query.limits.Counter."""
        if not buckets:
            return 0.0
        if self._is_asleep():
            return self._local.take(buckets)
        arguments = [n for b in buckets for n in (b.rate.interval, b.rate.burst)]
        try:
            wait = int(self._script(keys=[_PREFIX + b.key for b in buckets], args=arguments)) / 1_000_000
        except (redis.RedisError, OSError, ValueError) as e:
            self._fall_asleep(type(e).__name__)
            return self._local.take(buckets)
        if wait <= 0:
            # So that this process knows what was used, should the server fail.
            self._local.note(buckets)
        return wait

    def close(self) -> None:
        """Let go of the connections."""
        self._client.close()

    def _is_asleep(self) -> bool:
        with self._lock:
            return self._asleep_until is not None and self._now() < self._asleep_until

    def _fall_asleep(self, reason: str) -> None:
        with self._lock:
            self._asleep_until = self._now() + _PAUSE_SECONDS
        log.warning("rate limits are counted in this process alone: Redis does not answer (%s)", reason)
