"""The pace of an organization's requests: rests that the service asks for or will ask for soon, and a budget a run."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from threading import Lock, local

from core.errors import SourceThrottledError
from ingestion.azure_devops.faults import number_in, retry_after

# From this share of the allowance on, what is left of it is spread over the time until it is whole again.
_SCARCE = 0.2
# Where the service does not tell its allowance: the documented one of an identity in five minutes.
_USUAL_LIMIT = 200.0
_SHORTEST_REST = 0.05
# A part of a path that is an id or a file: it holds a digit, a dot, an escape or a brace.
_ID = re.compile(r"[\d.%{}$]")


@dataclass(frozen=True, slots=True)
class Traffic:
    """What was asked of the service: `requests` by area (`wit/workitems/comments`), `waited` in seconds, how many
    requests were `retries`, and how many answers asked to slow down (`throttled`)."""

    requests: Mapping[str, int] = field(default_factory=dict)
    waited: float = 0.0
    retries: int = 0
    throttled: int = 0

    @property
    def total(self) -> int:
        """How many requests were sent."""
        return sum(self.requests.values())

    def since(self, earlier: Traffic) -> Traffic:
        """What came on top of an earlier reading."""
        areas = Counter(self.requests)
        areas.subtract(earlier.requests)
        return Traffic(
            {area: n for area, n in sorted(areas.items()) if n},
            self.waited - earlier.waited,
            self.retries - earlier.retries,
            self.throttled - earlier.throttled,
        )

    def counts(self) -> dict[str, int]:
        """The figures as words and whole numbers, for the record of a run: `requests`, `waited_s`, and so on."""
        areas = {f"requests:{area}": n for area, n in sorted(self.requests.items())}
        told = {"requests": self.total, "waited_s": round(self.waited), "retries": self.retries}
        return {**told, "throttled": self.throttled, **areas}


@dataclass(slots=True)
class _Run:
    """What one run has used of its budget."""

    limited: bool = True
    requests: int = 0
    waited: float = 0.0


class _ThisThread(local):
    """The run of a thread: runs of several threads are several."""

    def __init__(self) -> None:
        self.run = _Run()


class Throttle:
    """One for all threads that speak to an organization: they share its pace, and each has the budget of its own run.

    `max_wait` (seconds) is the longest single rest; `max_requests` and `max_waits` (seconds in all) are the budget of
    a run, without limit where they are None. A budget that is used up raises SourceThrottledError: what the run has
    committed stays, and the next run goes on from its checkpoint.
    """

    def __init__(
        self,
        *,
        max_wait: float,
        max_requests: int | None,
        max_waits: float | None,
        sleep: Callable[[float], None],
        jitter: Callable[[], float],
        now: Callable[[], float],
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._max_wait, self._max_requests, self._max_waits = max_wait, max_requests, max_waits
        self._sleep, self._jitter, self._now, self._wall = sleep, jitter, now, wall
        self._lock = Lock()
        self._not_before = 0.0
        self._areas: Counter[str] = Counter()
        self._waited, self._retries, self._throttled = 0.0, 0, 0
        self._mine = _ThisThread()

    def begin(self) -> None:
        """Start the budget of a new run."""
        self._mine.run = _Run(limited=self._mine.run.limited)

    @contextmanager
    def apart(self) -> Iterator[None]:
        """A run that can't be continued by a later one (permissions, perhaps in the midst of a long crawl): its
        requests have no limit, and are not taken from the other's budget."""
        outer, self._mine.run = self._mine.run, _Run(limited=False)
        try:
            yield
        finally:
            self._mine.run = outer

    @property
    def traffic(self) -> Traffic:
        """Everything since this throttle was made."""
        with self._lock:
            return Traffic(dict(sorted(self._areas.items())), self._waited, self._retries, self._throttled)

    def admit(self, path: str, where: str, *, again: bool = False) -> None:
        """Wait for the turn of a request and count it; raises SourceThrottledError where the budget is used up."""
        with self._lock:
            wait = self._not_before - self._now()
        if wait > 0:
            self._wait(wait, where)
        run = self._mine.run
        if run.limited and self._max_requests is not None and run.requests >= self._max_requests:
            raise SourceThrottledError(
                f"this run has used its {self._max_requests} requests; the next one goes on from here "
                "(azure_devops.max_requests_per_run)",
                retry_after=0.0,
                where=where,
            )
        run.requests += 1
        with self._lock:
            self._areas[area_of(path)] += 1
            self._retries += again

    def heed(self, headers: Mapping[str, str]) -> None:
        """Take an answer's word on pace: the next request rests as long as it asks, or as its allowance makes wise."""
        asked = retry_after(headers)
        delayed = number_in(headers, "X-RateLimit-Delay")
        if asked is not None or delayed:
            with self._lock:
                self._throttled += 1
        rest = max(asked or 0.0, delayed or 0.0, self._spread(headers))
        if rest < _SHORTEST_REST:
            return
        with self._lock:
            self._not_before = max(self._not_before, self._now() + min(rest, self._max_wait))

    def pause(self, attempt: int, asked: float | None, where: str) -> None:
        """Wait before the same request is sent again, the longer the more often it failed."""
        if asked is not None:
            with self._lock:
                self._throttled += 1
        backoff = min(30.0, 0.5 * 2 ** (attempt - 1)) * (0.5 + 0.5 * self._jitter())
        # What the source asks for is a lower bound; jitter on top keeps many workers from coming back at once.
        self._wait(backoff if asked is None else asked + 0.1 * backoff, where)

    def _spread(self, headers: Mapping[str, str]) -> float:
        """The rest that makes what is left of the allowance last until it is whole again; 0 while there is plenty."""
        left, reset = number_in(headers, "X-RateLimit-Remaining"), number_in(headers, "X-RateLimit-Reset")
        if left is None or reset is None:
            return 0.0
        limit = number_in(headers, "X-RateLimit-Limit") or _USUAL_LIMIT
        if left > _SCARCE * limit:
            return 0.0
        return max(0.0, reset - self._service_time(headers)) / max(left, 1.0)

    def _service_time(self, headers: Mapping[str, str]) -> float:
        """Seconds since the epoch by the service's own clock, which is the one that the reset is told in."""
        told = headers.get("Date")
        try:
            return parsedate_to_datetime(told).timestamp() if told else self._wall()
        except ValueError:
            return self._wall()

    def _wait(self, seconds: float, where: str) -> None:
        run = self._mine.run
        if self._max_waits is not None and run.waited + seconds > self._max_waits:
            raise SourceThrottledError(
                f"this run has waited {round(run.waited)} s for a throttling service; the next one goes on from here "
                "(azure_devops.max_wait_per_run; a second identity or fewer projects lighten the load)",
                retry_after=seconds,
                where=where,
            )
        run.waited += seconds
        with self._lock:
            self._waited += seconds
        self._sleep(seconds)


def area_of(path: str) -> str:
    """What a path asks for, without organization, project and ids: `wit/workitems/comments`."""
    parts = path.lower().partition("/_apis/")[2].split("/")
    return "/".join(p for p in parts if p and not _ID.search(p)) or "other"
