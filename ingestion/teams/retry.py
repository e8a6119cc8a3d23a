"""How long to wait before asking Graph again, and when to give up."""

from __future__ import annotations

import logging
import math
import random
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime

from core.clock import SystemClock
from core.errors import SourceError, SourceThrottledError

log = logging.getLogger(__name__)

ATTEMPTS = 5
LONGEST_WAIT_SECONDS = 60.0
TEMPORARY = frozenset({408, 429, 500, 502, 503, 504})


class Backoff:
    """Waits between tries: as long as the service asks, else twice as long each time, with jitter."""

    def __init__(
        self, *, sleep: Callable[[float], None] = time.sleep, jitter: Callable[[], float] = random.random
    ) -> None:
        # Seconds that were waited in all.
        self.waited = 0.0
        self._sleep = sleep
        self._jitter = jitter

    def wait(
        self, attempt: int, *, reason: str, where: str, retry_after: str | None = None, tries: int = ATTEMPTS
    ) -> None:
        """Wait after try number `attempt` (from 0) of `tries`. `retry_after` is the header's text, seconds or a date.

        Raises SourceError after the last try, and SourceThrottledError where the service asks for more time than a
        run has.
        """
        if attempt >= tries - 1:
            raise SourceError(f"{reason} after {tries} tries", where=where)
        asked = seconds(retry_after)
        if asked is not None and asked > LONGEST_WAIT_SECONDS:
            raise SourceThrottledError("asked to wait longer than this run does", retry_after=asked, where=where)
        # Half of the time at least, so that many callers who failed together do not come back together.
        wait = asked if asked is not None else min(2.0**attempt, 30.0) * (0.5 + self._jitter() / 2)
        log.info("waiting %.1f s for %s: %s", wait, where, reason)
        self.waited += wait
        self._sleep(wait)


def seconds(retry_after: str | None) -> float | None:
    """Read a Retry-After header: seconds or a date; None where it is neither."""
    if retry_after is None:
        return None
    try:
        given = float(retry_after)
        return max(given, 0.0) if math.isfinite(given) else None
    except ValueError:
        pass  # not a number: a date, then
    try:
        return max((parsedate_to_datetime(retry_after) - SystemClock().now()).total_seconds(), 0.0)
    except (TypeError, ValueError):
        return None
