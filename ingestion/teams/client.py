"""One client for Microsoft Graph: token, paging, throttling, retries, error classes.

Links are followed as given, but only to the pinned host (a nextLink that names another host would carry our token
away). Facts: Microsoft Graph documentation, "Paging", "Throttling", "Use delta query".
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import httpx
import msal

from core.clock import SystemClock
from core.errors import (
    SourceAuthError,
    SourceError,
    SourceGoneError,
    SourceNotFoundError,
    SourceThrottledError,
)
from core.settings import GraphSettings

log = logging.getLogger(__name__)

ATTEMPTS = 5
LONGEST_WAIT_SECONDS = 60.0
TIMEOUT_SECONDS = 60.0
MOST_PAGES = 100_000

Json = dict[str, Any]


class GraphClient:
    """Reads Graph as an application (client credentials). Thread-safe."""

    def __init__(self, settings: GraphSettings, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._settings = settings
        self._base = settings.base_url.rstrip("/")
        self._origin = urlsplit(self._base)[:2]
        self._http = httpx.Client(timeout=TIMEOUT_SECONDS, follow_redirects=False)
        self._sleep = sleep
        self._lock = threading.Lock()
        self._token: tuple[str, float] | None = None
        self._application: msal.ConfidentialClientApplication | None = None

    def get(self, path: str, *, prefer: str | None = None) -> Json:
        """GET a path below the base URL, or a link that Graph gave.

        Raises SourceAuthError (401), SourceNotFoundError (403, 404), SourceGoneError (410), SourceThrottledError
        (asked to wait longer than we do) and SourceError (everything else, after retries).
        """
        url = self._address(path)
        for attempt in range(ATTEMPTS):
            headers = {"Authorization": f"Bearer {self._bearer()}", "Accept": "application/json"}
            if prefer:
                headers["Prefer"] = prefer
            try:
                answer = self._http.get(url, headers=headers)
            except httpx.HTTPError as e:
                self._pause(attempt, None, path, type(e).__name__)
                continue
            if answer.status_code == 200:
                return _json(answer, path)
            self._judge(answer, attempt, path)
        raise SourceError("no answer after several tries", where=_shown(path))

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
            yield from page.get("value", ())

    def close(self) -> None:
        """Release connections."""
        self._http.close()

    def _address(self, path: str) -> str:
        if not path.startswith(("http://", "https://")):
            return self._base + path
        if urlsplit(path)[:2] != self._origin:
            raise SourceError("a paging link leads to another host and was not followed", where=urlsplit(path).netloc)
        return path

    def _judge(self, answer: httpx.Response, attempt: int, path: str) -> None:
        """Wait for another try, or raise what the status means."""
        status, where = answer.status_code, _shown(path)
        if status == 401:
            with self._lock:
                self._token = None
            if attempt == 0:
                return  # the token may just have expired
            raise SourceAuthError("Graph refused the connector's token", where=where)
        if status in {403, 404}:
            raise SourceNotFoundError(f"missing or not readable for the connector ({status})", where=where)
        if status == 410:
            raise SourceGoneError("the delta link has expired", where=where)
        if status == 429 or status >= 500:
            self._pause(attempt, answer.headers.get("Retry-After"), path, f"HTTP {status}")
            return
        raise SourceError(f"unexpected answer {status}", where=where)

    def _pause(self, attempt: int, retry_after: str | None, path: str, reason: str) -> None:
        if attempt == ATTEMPTS - 1:
            raise SourceError(f"{reason} after {ATTEMPTS} tries", where=_shown(path))
        asked = _seconds(retry_after)
        if asked is not None and asked > LONGEST_WAIT_SECONDS:
            raise SourceThrottledError("asked to wait longer than this run does", retry_after=asked, where=_shown(path))
        wait = asked if asked is not None else min(2.0**attempt, 30.0) * (0.5 + random.random() / 2)  # noqa: S311
        log.info("waiting %.1f s for %s: %s", wait, _shown(path), reason)
        self._sleep(wait)

    def _bearer(self) -> str:
        with self._lock:
            if self._token is None or self._token[1] <= time.monotonic():
                granted = self._grant()
                lifetime = float(granted.get("expires_in", 300))
                self._token = (str(granted["access_token"]), time.monotonic() + max(lifetime - 120, 1))
            return self._token[0]

    def _grant(self) -> Mapping[str, Any]:
        s = self._settings
        try:
            if s.token_url is not None:
                answer = self._http.post(
                    s.token_url,
                    data={
                        "grant_type": "client_credentials",
                        "client_id": s.client_id,
                        "client_secret": s.client_secret.get_secret_value(),
                        "scope": "https://graph.microsoft.com/.default",
                    },
                )
                granted = answer.json()
            else:
                if self._application is None:
                    self._application = msal.ConfidentialClientApplication(
                        s.client_id,
                        client_credential=s.client_secret.get_secret_value(),
                        authority=f"{s.authority.rstrip('/')}/{s.tenant}",
                    )
                granted = self._application.acquire_token_for_client([f"https://{self._origin[1]}/.default"])
        except (httpx.HTTPError, ValueError) as e:
            raise SourceError(f"the token endpoint does not answer ({type(e).__name__})", where="graph token") from e
        if not isinstance(granted, dict) or "access_token" not in granted:
            reason = granted.get("error", "refused") if isinstance(granted, dict) else "refused"
            raise SourceAuthError(f"no token for Graph: {reason}", where="graph token")
        return granted


def _json(answer: httpx.Response, path: str) -> Json:
    if "json" not in answer.headers.get("content-type", ""):
        raise SourceAuthError("a web page instead of data: the credential was refused", where=_shown(path))
    try:
        data = answer.json()
    except ValueError as e:
        raise SourceError("the answer is not JSON", where=_shown(path)) from e
    if not isinstance(data, dict):
        raise SourceError("the answer has an unexpected shape", where=_shown(path))
    return data


def _seconds(retry_after: str | None) -> float | None:
    if retry_after is None:
        return None
    try:
        return max(float(retry_after), 0.0)
    except ValueError:
        pass
    try:
        return max((parsedate_to_datetime(retry_after) - SystemClock().now()).total_seconds(), 0.0)
    except (TypeError, ValueError):
        return None


def _shown(path: str) -> str:
    """A path for messages: without query, where tokens of links stand."""
    return urlsplit(path).path if path.startswith("http") else path.split("?")[0]
