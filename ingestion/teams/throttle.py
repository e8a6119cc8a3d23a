"""The pace of requests: Graph allows an application four requests a second on any one team or channel, and twenty a
second for messages of a tenant. Facts: Microsoft Graph documentation, "Throttling limits"."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from typing import Final

_TEAM: Final = re.compile(r"/teams/([^/?]+)")
_MESSAGES: Final = re.compile(r"/channels/[^/?]+/messages\b")
# A place whose next request has been free for so long is forgotten.
_FORGOTTEN_AFTER: Final = 60.0


class Throttle:
    """Spaces requests evenly: those on one team, and those for messages. Thread-safe.

    `per_team` and `messages` are requests a second; 0: no limit. None goes early because others came late: the limits
    hold for any second. `now` (seconds, never backwards) and `sleep` are the clock.
    """

    def __init__(
        self,
        per_team: float,
        messages: float,
        *,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._per_team, self._messages = per_team, messages
        self._now, self._sleep = now, sleep
        self._lock = threading.Lock()
        # When the next request may go, by what it counts for.
        self._next: dict[str, float] = {}

    def wait(self, path: str) -> float:
        """Wait until a request for this path or link may go; return how many seconds that took."""
        rest = self._rest(path)
        if rest > 0:
            self._sleep(rest)
        return rest

    def _rest(self, path: str) -> float:
        rates: dict[str, float] = {}
        team = _TEAM.search(path)
        if team is not None and self._per_team > 0:
            rates[f"team {team.group(1).lower()}"] = self._per_team
        if _MESSAGES.search(path) and self._messages > 0:
            rates["messages"] = self._messages
        with self._lock:
            now = self._now()
            start = max([now, *(self._next.get(key, now) for key in rates)])
            for key in [k for k, at in self._next.items() if now - at > _FORGOTTEN_AFTER]:
                del self._next[key]
            self._next |= {key: start + 1 / rate for key, rate in rates.items()}
        return start - now
