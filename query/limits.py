"""How often one asker, and one agent, may ask: against gathering in bulk what each may read in single pieces.

Each has a bucket of so many questions that fills again at a steady rate, so in any stretch of `t` seconds no more than
`burst + rate * t` are answered. What was asked, and what became of it, plays no part. A question counts for both or,
where either has none left, for neither: an asker who hammers does not use up what others have through the same agent.

A bucket is one number, the time at which it will be full again (the generic cell rate algorithm of ATM, ITU-T I.371).
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from core.errors import RateLimitedError
from core.principals import VerifiedAsker

# Buckets that are full again say nothing, and are let go of each time so many were made.
_SWEEP_EVERY: Final = 4096


@dataclass(frozen=True, slots=True)
class Rate:
    """So many a minute, and so many at once. `per_minute` and `burst` are at least 1."""

    per_minute: int
    burst: int

    @property
    def interval(self) -> int:
        """Microseconds that one question costs; whole ones, so that no rounding ever adds up to a question."""
        return -(-60_000_000 // self.per_minute)


@dataclass(frozen=True, slots=True)
class Bucket:
    """One bucket: a key that names nobody, and its rate."""

    key: str
    rate: Rate


class RateLimiter(Protocol):
    """Counts requests. What was asked, and whether anything was found, plays no part."""

    def take(self, asker: VerifiedAsker) -> None:
        """Count one request of this asker and of the agent that asks for them.

        Raises RateLimitedError where either has used up its share.
        """
        ...


class Counter(Protocol):
    """Where buckets are kept."""

    def take(self, buckets: Sequence[Bucket]) -> float:
        """Take one from each and return 0, or take none and return the seconds until each has one again."""
        ...


class AskerLimiter:
    """Limits askers and agents over a counter. A rate that is None limits nobody."""

    def __init__(self, counter: Counter, *, asker: Rate | None, agent: Rate | None) -> None:
        self._counter = counter
        self._asker, self._agent = asker, agent

    def take(self, asker: VerifiedAsker) -> None:
        """See RateLimiter."""
        wait = self._counter.take(list(self._buckets(asker)))
        if wait > 0:
            raise RateLimitedError(wait)

    def _buckets(self, asker: VerifiedAsker) -> Iterable[Bucket]:
        if self._asker is not None:
            yield Bucket(_key("asker", asker.principal), self._asker)
        if self._agent is not None and asker.agent is not None:
            # An agent's name holds in its tenant only.
            yield Bucket(_key("agent", f"{asker.tenant}/{asker.agent}"), self._agent)


class InProcessCounter:
    """Buckets of this process alone. Thread-safe. `now` must never go back."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        # Microseconds of the clock.
        self._full_at: dict[str, int] = {}
        self._made = 0
        self._lock = threading.Lock()

    def take(self, buckets: Sequence[Bucket]) -> float:
        """See Counter."""
        with self._lock:
            now = self._microseconds()
            wait = max((self._missing(b, now) for b in buckets), default=0)
            if wait <= 0:
                self._charge(buckets, now)
            return wait / 1_000_000

    def note(self, buckets: Sequence[Bucket]) -> None:
        """Take one from each, where somebody else has decided that it may be taken."""
        with self._lock:
            self._charge(buckets, self._microseconds())

    def _microseconds(self) -> int:
        return int(self._now() * 1_000_000)

    def _missing(self, bucket: Bucket, now: int) -> int:
        """Microseconds until the bucket holds a whole one; 0 where it does."""
        rate = bucket.rate
        return max(0, self._full_at.get(bucket.key, now) - now - rate.interval * (rate.burst - 1))

    def _charge(self, buckets: Sequence[Bucket], now: int) -> None:
        for bucket in buckets:
            rate = bucket.rate
            self._made += bucket.key not in self._full_at
            full_at = max(now, self._full_at.get(bucket.key, now)) + rate.interval
            # No emptier than empty, for what was noted past the limit.
            self._full_at[bucket.key] = min(full_at, now + rate.interval * rate.burst)
        if self._made >= _SWEEP_EVERY:
            self._full_at = {key: at for key, at in self._full_at.items() if at > now}
            self._made = 0


def _key(kind: str, name: str) -> str:
    return f"{kind}:{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()}"
