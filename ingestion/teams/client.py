"""One client for Microsoft Graph: paging, throttling, retries, error classes.

Links are followed as given, but only to the pinned host (a nextLink that names another host would carry our token
away). Facts: Microsoft Graph documentation, "Paging", "Throttling", "Use delta query".
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import httpx

from core.errors import SourceAuthError, SourceError, SourceGoneError, SourceNotFoundError
from core.settings import GraphSettings
from core.this_machine import NO_PROXY
from ingestion.teams.clouds import endpoints
from ingestion.teams.retry import ATTEMPTS, TEMPORARY, Backoff
from ingestion.teams.throttle import Throttle
from ingestion.teams.token import TokenSource

TIMEOUT_SECONDS = 60.0
MOST_PAGES = 100_000
# What Graph says of a delta link that it can't go on from; the status may be any 40x.
_LOST_STATE = frozenset({"syncstatenotfound", "syncstateinvalid", "resyncrequired"})

Json = dict[str, Any]


class SourceRefusedError(SourceError):
    """Graph does not understand the request (400): the same one will be refused again."""

    retryable = False


# How Graph says that a link is of no use any more: begin anew.
LOST: Final = (SourceGoneError, SourceRefusedError)


class Asked:
    """Counts what was asked. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests, self._retries, self._throttled, self._waited = 0, 0, 0, 0.0

    def count(self, *, requests: int = 1, retries: int = 0, throttled: int = 0, waited: float = 0.0) -> None:
        """Count more of each."""
        with self._lock:
            self._requests += requests
            self._retries += retries
            self._throttled += throttled
            self._waited += waited

    def told(self, waited: float) -> dict[str, int]:
        """The counts by word; `waited` seconds more."""
        with self._lock:
            return {
                "requests": self._requests,
                "retries": self._retries,
                "throttled": self._throttled,
                "waited_s": round(self._waited + waited),
            }


class GraphClient:
    """Reads Graph as an application (client credentials). Thread-safe.

    `sleep`, `jitter` and `now` time retries and pace; `transport` carries the requests (the network where None).
    """

    def __init__(
        self,
        settings: GraphSettings,
        *,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
        now: Callable[[], float] = time.monotonic,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._base = endpoints(settings).graph
        self._origin = _origin(self._base)
        self._http = httpx.Client(timeout=TIMEOUT_SECONDS, follow_redirects=False, transport=transport, mounts=NO_PROXY)
        self._backoff = Backoff(sleep=sleep, jitter=jitter)
        self._tokens = TokenSource(settings, self._http, self._backoff)
        self._throttle = Throttle(
            settings.team_requests_per_second, settings.message_requests_per_second, now=now, sleep=sleep
        )
        self._asked = Asked()

    def get(self, path: str, *, prefer: str | None = None, tries: int = ATTEMPTS) -> Json:
        """GET a path below the base URL, or a link that Graph gave; a failing one so many times at most.

        Raises SourceAuthError (401 with a fresh token), SourceNotFoundError (403, 404), SourceGoneError (a delta link
        that has expired), SourceRefusedError (400), SourceThrottledError (asked to wait longer than we do) and
        SourceError (everything else, after retries).
        """
        url, where = self._address(path), _shown(path)
        renewed = False
        for attempt in range(tries):
            headers = {"Authorization": f"Bearer {self._tokens.bearer()}", "Accept": "application/json"}
            if prefer:
                headers["Prefer"] = prefer
            self._asked.count(retries=attempt > 0, waited=self._throttle.wait(path))
            try:
                answer = self._http.get(url, headers=headers)
            except httpx.HTTPError as e:
                self._backoff.wait(attempt, reason=type(e).__name__, where=where, tries=tries)
                continue
            if answer.status_code == 401 and not renewed:
                renewed = True  # the token may just have expired
                self._tokens.forget()
                continue
            if answer.status_code in TEMPORARY:
                self._asked.count(requests=0, throttled=answer.status_code == 429)
                reason = f"HTTP {answer.status_code}"
                asked = answer.headers.get("Retry-After")
                self._backoff.wait(attempt, reason=reason, where=where, retry_after=asked, tries=tries)
                continue
            if answer.status_code != 200:
                raise _meaning(answer, where)
            data = _json(answer)
            if data is not None:
                return data
            # A gateway's page, or an answer that was cut off: as good as none.
            self._backoff.wait(attempt, reason="no JSON in the answer", where=where, tries=tries)
        raise SourceError("no answer after several tries", where=where)

    def send(self, method: Literal["POST", "PATCH", "DELETE"], path: str, body: Json | None = None) -> Json:
        """Change something below the base URL; what the answer holds.

        A POST is sent again only where Graph said that it did nothing, or could not be reached: one that got no answer
        may have been carried out, which is for the caller to find out. Raises as `get` does; SourceRefusedError (any
        4xx but 401, 404, 410 and throttling) says why.
        """
        url, where = self._address(path), f"{method} {_shown(path)}"
        renewed = False
        for attempt in range(ATTEMPTS):
            headers = {"Authorization": f"Bearer {self._tokens.bearer()}", "Accept": "application/json"}
            self._asked.count(retries=attempt > 0, waited=self._throttle.wait(path))
            try:
                answer = self._http.request(method, url, headers=headers, json=body)
            except httpx.HTTPError as e:
                if method == "POST" and not isinstance(e, httpx.ConnectError | httpx.ConnectTimeout):
                    raise SourceError(f"{type(e).__name__}; it may have been carried out", where=where) from None
                self._backoff.wait(attempt, reason=type(e).__name__, where=where)
                continue
            status = answer.status_code
            if status == 401 and not renewed:
                renewed = True
                self._tokens.forget()
                continue
            if status in ({429, 503} if method == "POST" else TEMPORARY):
                self._asked.count(requests=0, throttled=status == 429)
                asked = answer.headers.get("Retry-After")
                self._backoff.wait(attempt, reason=f"HTTP {status}", where=where, retry_after=asked)
                continue
            if 200 <= status < 300:
                return _json(answer) or {}
            if 400 <= status < 500 and status not in {401, 404, 410}:
                raise SourceRefusedError(_told(answer), where=where)
            raise _meaning(answer, where)
        raise SourceError("no answer after several tries", where=where)

    def pages(self, path: str, *, prefer: str | None = None, tries: int = ATTEMPTS) -> Iterator[Json]:
        """Yield the pages of a collection or delta round; ends where there is no nextLink, not at an empty page."""
        seen: set[str] = set()
        link: str | None = path
        while link is not None:
            if link in seen or len(seen) >= MOST_PAGES:
                raise SourceError("the paging links go round in a circle", where=_shown(path))
            seen.add(link)
            page = self.get(link, prefer=prefer, tries=tries)
            yield page
            link = page.get("@odata.nextLink")

    def rows(self, path: str, *, prefer: str | None = None) -> Iterator[Json]:
        """Yield every row of a collection."""
        for page in self.pages(path, prefer=prefer):
            yield from rows_of(page, path)

    def asked(self) -> dict[str, int]:
        """What was asked so far: `requests`, `retries`, `throttled` answers, `waited_s` for pace and retries."""
        return self._asked.told(self._backoff.waited)

    def close(self) -> None:
        """Release connections."""
        self._http.close()

    def _address(self, path: str) -> str:
        if not path.startswith(("http://", "https://")):
            return self._base + path
        if _origin(path) != self._origin:
            raise SourceError("a paging link leads to another host and was not followed", where=urlsplit(path).netloc)
        return path


def rows_of(page: Json, path: str) -> list[Json]:
    """The rows of one page; a null list is an empty one, a missing list is no answer. Raises SourceError."""
    if "value" not in page:
        raise SourceError("the answer holds no list", where=_shown(path))
    rows = page["value"] or []
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise SourceError("the answer has an unexpected shape", where=_shown(path))
    return rows


def _meaning(answer: httpx.Response, where: str) -> SourceError:
    """The error that a status other than 200 stands for."""
    status, data = answer.status_code, _json(answer)
    error = data.get("error") if data else None
    code = str(error.get("code") or "") if isinstance(error, dict) else ""
    if status == 401:
        return SourceAuthError("Graph refused the connector's token", where=where)
    if status == 410 or (400 <= status < 500 and code.lower() in _LOST_STATE):
        return SourceGoneError("the delta link has expired", where=where)
    if status in {403, 404}:
        return SourceNotFoundError(f"missing or not readable for the connector ({status})", where=where)
    if status == 400:
        return SourceRefusedError(f"Graph does not take the request ({code or status})", where=where)
    return SourceError(f"unexpected answer {status}", where=where)


def _told(answer: httpx.Response) -> str:
    """Why Graph refused to change something, in its own words, cut short."""
    data = _json(answer)
    error = data.get("error") if data else None
    words = [str(error.get(k) or "") for k in ("code", "message")] if isinstance(error, dict) else []
    return ": ".join([f"HTTP {answer.status_code}", *(w[:300] for w in words if w)])


def _json(answer: httpx.Response) -> Json | None:
    """The object in an answer; None where there is none."""
    if "json" not in answer.headers.get("content-type", ""):
        return None
    try:
        data = answer.json()
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme.lower(), parts.netloc.lower()


def _shown(path: str) -> str:
    """A path for messages: without query, where tokens of links stand."""
    return urlsplit(path).path if path.startswith("http") else path.split("?")[0]
