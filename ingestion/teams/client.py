"""One client for Microsoft Graph: paging, throttling, retries, error classes.

Links are followed as given, but only to the pinned host (a nextLink that names another host would carry our token
away). Facts: Microsoft Graph documentation, "Paging", "Throttling", "Use delta query".
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx

from core.errors import SourceAuthError, SourceError, SourceGoneError, SourceNotFoundError
from core.settings import GraphSettings
from ingestion.teams.retry import ATTEMPTS, TEMPORARY, Backoff
from ingestion.teams.token import TokenSource

TIMEOUT_SECONDS = 60.0
MOST_PAGES = 100_000
# What Graph says of a delta link that it can't go on from; the status may be any 40x.
_LOST_STATE = frozenset({"syncstatenotfound", "syncstateinvalid", "resyncrequired"})

Json = dict[str, Any]


class SourceRefusedError(SourceError):
    """Graph does not understand the request (400): the same one will be refused again."""

    retryable = False


class GraphClient:
    """Reads Graph as an application (client credentials). Thread-safe.

    `sleep` and `jitter` time the retries; `transport` carries the requests (the network where None).
    """

    def __init__(
        self,
        settings: GraphSettings,
        *,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._base = settings.base_url.rstrip("/")
        self._origin = _origin(self._base)
        self._http = httpx.Client(timeout=TIMEOUT_SECONDS, follow_redirects=False, transport=transport)
        self._backoff = Backoff(sleep=sleep, jitter=jitter)
        self._tokens = TokenSource(settings, self._http, self._backoff)
        self.requests, self.retries = 0, 0

    def get(self, path: str, *, prefer: str | None = None) -> Json:
        """GET a path below the base URL, or a link that Graph gave.

        Raises SourceAuthError (401 with a fresh token), SourceNotFoundError (403, 404), SourceGoneError (a delta link
        that has expired), SourceRefusedError (400), SourceThrottledError (asked to wait longer than we do) and
        SourceError (everything else, after retries).
        """
        url, where = self._address(path), _shown(path)
        renewed = False
        for attempt in range(ATTEMPTS):
            headers = {"Authorization": f"Bearer {self._tokens.bearer()}", "Accept": "application/json"}
            if prefer:
                headers["Prefer"] = prefer
            self.requests += 1
            self.retries += attempt > 0
            try:
                answer = self._http.get(url, headers=headers)
            except httpx.HTTPError as e:
                self._backoff.wait(attempt, reason=type(e).__name__, where=where)
                continue
            if answer.status_code == 401 and not renewed:
                renewed = True  # the token may just have expired
                self._tokens.forget()
                continue
            if answer.status_code in TEMPORARY:
                reason = f"HTTP {answer.status_code}"
                self._backoff.wait(attempt, reason=reason, where=where, retry_after=answer.headers.get("Retry-After"))
                continue
            if answer.status_code != 200:
                raise _meaning(answer, where)
            data = _json(answer)
            if data is not None:
                return data
            # A gateway's page, or an answer that was cut off: as good as none.
            self._backoff.wait(attempt, reason="no JSON in the answer", where=where)
        raise SourceError("no answer after several tries", where=where)

    def pages(self, path: str, *, prefer: str | None = None) -> Iterator[Json]:
        """Yield the pages of a collection or delta round; ends where there is no nextLink, not at an empty page."""
        seen: set[str] = set()
        link: str | None = path
        while link is not None:
            if link in seen or len(seen) >= MOST_PAGES:
                raise SourceError("the paging links go round in a circle", where=_shown(path))
            seen.add(link)
            page = self.get(link, prefer=prefer)
            yield page
            link = page.get("@odata.nextLink")

    def rows(self, path: str, *, prefer: str | None = None) -> Iterator[Json]:
        """Yield every row of a collection."""
        for page in self.pages(path, prefer=prefer):
            yield from rows_of(page, path)

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
