"""Buckets that all processes of the query plane share, in a Redis of its own.

Where it does not answer, each process counts by itself from what it has seen: more may then pass in all, but never
without limit, and nobody is turned away for it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

from query.limits import Bucket, InProcessCounter
from query.shared_redis import FAULTS, SharedRedis

log = logging.getLogger(__name__)

_PREFIX: Final = "context-engine:rate:"
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
    """Buckets in Redis, counted in one step of the server. Thread-safe. Raises ConfigError for an address that is
    none."""

    def __init__(self, url: str, *, local: InProcessCounter, now: Callable[[], float] = time.monotonic) -> None:
        self._redis = SharedRedis(url, now=now)
        self._script = self._redis.client.register_script(_TAKE)
        self._local = local

    def take(self, buckets: Sequence[Bucket]) -> float:
        """See query.limits.Counter."""
        if not buckets:
            return 0.0
        if self._redis.is_asleep:
            return self._local.take(buckets)
        arguments = [n for b in buckets for n in (b.rate.interval, b.rate.burst)]
        try:
            wait = int(self._script(keys=[_PREFIX + b.key for b in buckets], args=arguments)) / 1_000_000
        except (*FAULTS, ValueError) as e:
            self._redis.failed()
            log.warning("rate limits are counted in this process alone: Redis does not answer (%s)", type(e).__name__)
            return self._local.take(buckets)
        if wait <= 0:
            # So that this process knows what was used, should the server fail.
            self._local.note(buckets)
        return wait

    def close(self) -> None:
        """Let go of the connections."""
        self._redis.close()
