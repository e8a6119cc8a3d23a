"""Principal sets that all processes of the query plane share, in a Redis that none of them trusts.

Whoever can write to it must not be able to give anybody a group. So each value is signed (HMAC-SHA-256, RFC 2104) over
all that it is about: the record it was read from, the principal, the access epoch, and until when it holds. A value
that was made up, changed, moved to another person or another deployment, or kept past its time is as good as none. The
keys name nobody. Where Redis does not answer, the directory is read instead: slower, and never staler.
"""

from __future__ import annotations

import hmac
import json
import logging
import time
from collections.abc import Callable
from typing import Any, Final

from core.principals import Principal, parse
from query.shared_redis import FAULTS, SharedRedis

log = logging.getLogger(__name__)

_PREFIX: Final = "context-engine:principals:"
_MOST_BYTES: Final = 4 * 1024 * 1024
_MAC_BYTES: Final = 32


class RedisPrincipalCache:
    """See PrincipalCache. Thread-safe.

    `record` names the database that sets are read from, since two may count the same epochs. `wall_clock` is in Unix
    seconds, as all processes have it. Raises ConfigError for an address that is none.
    """

    def __init__(
        self,
        url: str,
        *,
        key: bytes,
        record: Callable[[], str],
        seconds: int,
        wall_clock: Callable[[], float] = time.time,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._redis = SharedRedis(url, now=now)
        self._key, self._record, self._seconds = key, record, seconds
        self._wall_clock = wall_clock

    def get(self, principal: Principal, epoch: int) -> frozenset[Principal] | None:
        """See PrincipalCache."""
        if self._redis.is_asleep:
            return None
        about = self._about(principal, epoch)
        try:
            value = self._redis.client.get(self._name(about))
        except FAULTS as e:
            self._failed(e)
            return None
        if value is None:
            return None
        found = self._opened(value, about)
        if found is None or principal not in found:
            # Nobody of ours wrote that, or not for this.
            log.warning("what the shared cache holds for a principal is not ours, and was not used")
            return None
        return found

    def put(self, principal: Principal, epoch: int, found: frozenset[Principal]) -> None:
        """See PrincipalCache."""
        if self._seconds <= 0 or self._redis.is_asleep:
            return
        about = self._about(principal, epoch)
        body = json.dumps([self._wall_clock() + self._seconds, sorted(found)]).encode()
        try:
            self._redis.client.set(self._name(about), self._mac(about, body) + body, ex=self._seconds)
        except FAULTS as e:
            self._failed(e)

    def close(self) -> None:
        """Let go of the connections."""
        self._redis.close()

    def _about(self, principal: Principal, epoch: int) -> bytes:
        return json.dumps([self._record(), principal, epoch]).encode()

    def _name(self, about: bytes) -> str:
        return _PREFIX + self._mac(b"name", about).hex()

    def _mac(self, *parts: bytes) -> bytes:
        """Over each part's length too, so that no two lists of parts read alike."""
        text = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
        return hmac.digest(self._key, text, "sha256")

    def _opened(self, value: Any, about: bytes) -> frozenset[Principal] | None:
        if not isinstance(value, bytes) or not _MAC_BYTES < len(value) <= _MOST_BYTES:
            return None
        mac, body = value[:_MAC_BYTES], value[_MAC_BYTES:]
        if not hmac.compare_digest(mac, self._mac(about, body)):
            return None
        # Signed by us, so it is what `put` wrote.
        until, names = json.loads(body)
        if not self._wall_clock() < until <= self._wall_clock() + self._seconds:
            return None
        return frozenset(parse(name) for name in names)

    def _failed(self, error: Exception) -> None:
        self._redis.failed()
        log.warning(
            "principals are read from the directory each time: the shared cache does not answer (%s)",
            type(error).__name__,
        )
