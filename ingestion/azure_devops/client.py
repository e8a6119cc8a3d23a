"""The one client of an organization: credential, throttling, retries, paging and error classes for every call."""

from __future__ import annotations

import base64
import json
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from enum import StrEnum
from threading import local
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from core.errors import SourceError, SourceThrottledError
from core.settings import AzureDevOpsSettings
from core.this_machine import NO_PROXY
from ingestion.azure_devops.faults import RETRYABLE, fault_of, is_unreadable, looks_signed_out, retry_after
from ingestion.azure_devops.shapes import listed as listed
from ingestion.azure_devops.shapes import rows_of as rows_of
from ingestion.azure_devops.throttle import Throttle, Traffic

# Throttled requests are delayed by up to 30 s and then answer 200; a shorter time-out would repeat them into a worse
# delay.
TIMEOUT = httpx.Timeout(100.0, connect=10.0)
# No server caps a page as low as this, so a page that is both shorter than asked and shorter than this is the last.
LEAST_CAP = 20
TOKEN_HEADER = "x-ms-continuationtoken"  # noqa: S105 - the name of a header
MAX_PAGES = 100_000


class Host(StrEnum):
    """Which of the organization's hosts serves an area."""

    CORE = "core"
    IDENTITY = "identity"
    ENTITLEMENT = "entitlement"


class _ThisThread(local):
    """How a thread's requests are sent."""

    def __init__(self) -> None:
        self.once = False


class AdoClient:
    """Every request to one organization goes through `exchange`, those of the official SDK too. Threads may share it.

    `sleep`, `jitter` and `now` can be replaced by tests. `max_wait` is the longest wait (seconds) that a single
    request may ask for; a longer one ends the run with SourceThrottledError, and the next run continues.
    """

    def __init__(
        self,
        settings: AzureDevOpsSettings,
        *,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
        now: Callable[[], float] = time.monotonic,
        attempts: int = 6,
        max_wait: float = 120.0,
    ) -> None:
        self.settings = settings
        self.organization = settings.organization.lower()
        core = settings.base_url.rstrip("/")
        self._bases = {
            Host.CORE: core,
            Host.IDENTITY: (settings.identity_url or core).rstrip("/"),
            Host.ENTITLEMENT: (settings.entitlement_url or core).rstrip("/"),
        }
        self._attempts, self._max_wait = attempts, max_wait
        self._trying = _ThisThread()
        self._throttle = Throttle(
            max_wait=max_wait,
            max_requests=settings.max_requests_per_run,
            max_waits=settings.max_wait_per_run,
            sleep=sleep,
            jitter=jitter,
            now=now,
        )
        headers = {"X-TFS-FedAuthRedirect": "Suppress", "User-Agent": "context-engine"}
        if settings.pat is not None:
            pair = f":{settings.pat.get_secret_value()}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        self._http = httpx.Client(timeout=TIMEOUT, follow_redirects=False, headers=headers, mounts=NO_PROXY)

    @property
    def requests(self) -> int:
        """How many requests have been sent."""
        return self.stats.total

    @property
    def stats(self) -> Traffic:
        """Requests by area, waits, retries and throttled answers since the client was made."""
        return self._throttle.traffic

    def begin_run(self) -> None:
        """Start the budget of requests and waits anew."""
        self._throttle.begin()

    def run_apart(self) -> AbstractContextManager[None]:
        """A run that can't be continued by a later one: its requests have no limit, and no part in the budget."""
        return self._throttle.apart()

    @contextmanager
    def trying(self, *, once: bool) -> Iterator[None]:
        """With `once`, a request that fails is not sent again inside the block; one that is throttled is."""
        before, self._trying.once = self._trying.once, once
        try:
            yield
        finally:
            self._trying.once = before

    def answers(self) -> bool:
        """Whether the organization answers at all: its projects can be asked for."""
        try:
            with self.trying(once=False):
                self.get("_apis/projects", {"$top": 1})
        except SourceError:
            return False
        return True

    @property
    def base_url(self) -> str:
        """The organization's main address, without a slash at its end."""
        return self._bases[Host.CORE]

    def close(self) -> None:
        """Release the connections."""
        self._http.close()

    def get(
        self,
        path: str,
        params: Mapping[str, Any] | None = None,
        *,
        host: Host = Host.CORE,
        version: str = "7.1",
        lenient: bool = False,
    ) -> Any:
        """The JSON at `path` below the organization; an empty answer is None. `lenient`: None if unreadable too."""
        url = self._url(host, path)
        answer = self.exchange("GET", url, params={**(params or {}), "api-version": version}, lenient=lenient)
        return None if answer is None else _json(answer, url)

    def post(self, path: str, body: Any, params: Mapping[str, Any] | None = None, *, version: str = "7.1") -> Any:
        """The JSON that a reading POST (a batch call) answers."""
        url = self._url(Host.CORE, path)
        answer = self.exchange("POST", url, params={**(params or {}), "api-version": version}, body=body)
        return None if answer is None else _json(answer, url)

    def data(self, path: str, params: Mapping[str, Any] | None = None, *, most: int | None = None) -> bytes:
        """The bytes of a file. The version stands in the query, because `Accept` is needed for the format.

        Of a file with more than `most` bytes only somewhat more than that is received, so that none fills the memory.
        """
        url = self._url(Host.CORE, path)
        query = {**(params or {}), "api-version": "7.1"}
        answer = self.exchange("GET", url, params=query, accept="application/octet-stream", binary=True, most=most)
        return b"" if answer is None else answer.content

    def pages(
        self,
        path: str,
        params: Mapping[str, Any] | None = None,
        *,
        host: Host = Host.CORE,
        version: str = "7.1",
        body: Mapping[str, Any] | None = None,
    ) -> Iterator[list[Any]]:
        """Yield the rows of each page of a list whose next token stands in a header (or, for POST, goes in the body).

        The end is the missing header, never a short page. A token that comes back unchanged is an error, not a loop.
        """
        url, token, seen = self._url(host, path), None, set[str]()
        for _ in range(MAX_PAGES):
            query = {**(params or {}), "api-version": version}
            sent = dict(body) if body is not None else None
            if token is not None and sent is None:
                query["continuationToken"] = token
            elif token is not None and sent is not None:
                sent["continuationToken"] = token
            answer = self.exchange("POST" if sent is not None else "GET", url, params=query, body=sent)
            data = None if answer is None else _json(answer, url)
            yield listed(data)
            token = None if answer is None else answer.headers.get(TOKEN_HEADER)
            if not token:
                return
            if token in seen:
                raise SourceError("the list does not end: a continuation token came twice", where=_where(url))
            seen.add(token)
        raise SourceError("the list does not end", where=_where(url))

    def skipping(self, path: str, params: Mapping[str, Any] | None = None, *, top: int = 100) -> Iterator[list[Any]]:
        """Yield the rows of each page of a list that is paged by `$top` and `$skip`.

        The end is an empty or very short page: one that is merely shorter than asked may have been capped.
        """
        skip = 0
        while rows := listed(self.get(path, {**(params or {}), "$top": top, "$skip": skip})):
            yield rows
            skip += len(rows)
            if len(rows) < min(top, LEAST_CAP):
                return

    def exchange(
        self,
        method: str,
        url: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        raw_body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        accept: str = "application/json",
        binary: bool = False,
        lenient: bool = False,
        most: int | None = None,
    ) -> httpx.Response | None:
        """Send one request until it has an answer; None for an empty one (204) or, if `lenient`, for an unreadable.

        Raises the SourceError that the answer stands for: a refused credential at once, a failing or throttling
        source after a bounded number of attempts.
        """
        sent: dict[str, str] = {"Accept": accept, **(headers or {})}
        content = raw_body
        if body is not None:
            content, sent["Content-Type"] = json.dumps(body).encode(), "application/json"
        query = {k: _text(v) for k, v in (params or {}).items() if v is not None}
        where = _where(url)
        failure: SourceError | None = None
        for attempt in range(1, self._attempts + 1):
            self._throttle.admit(urlsplit(url).path, where, again=attempt > 1)
            try:
                request = self._http.build_request(method, url, params=query or None, content=content, headers=sent)
                answer = _received(self._http.send(request, stream=True), most)
            except httpx.HTTPError as e:
                failure = SourceError(f"no answer ({type(e).__name__})", where=where)
                if self._trying.once:
                    break
                self._pause(attempt, None, where)
                continue
            asked = retry_after(answer.headers)
            unreadable = is_unreadable(answer.status_code, answer.content)
            if answer.status_code in RETRYABLE and not unreadable:
                failure = fault_of(answer.status_code, answer.headers, answer.content, where)
                if self._trying.once and asked is None and answer.status_code != 429:
                    break
                if asked is not None and asked > self._max_wait:
                    raise SourceThrottledError(
                        f"asked to wait {round(asked)} s, longer than a run does; a later one goes on from here",
                        retry_after=asked,
                        where=where,
                    )
                self._pause(attempt, asked, where)
                continue
            # A delayed 200 asks for a rest before the next call, not for the same call again.
            self._throttle.heed(answer.headers)
            if lenient and unreadable and not looks_signed_out(answer.status_code, answer.headers):
                return None
            fault = fault_of(answer.status_code, answer.headers, answer.content, where)
            if fault is not None:
                raise fault
            if not binary and (answer.status_code == 204 or not answer.content.strip()):
                return None
            return answer
        raise failure or SourceError("no answer", where=where)

    def _pause(self, attempt: int, asked: float | None, where: str) -> None:
        if attempt < self._attempts:
            self._throttle.pause(attempt, asked, where)

    def _url(self, host: Host, path: str) -> str:
        return f"{self._bases[host]}/{path.lstrip('/')}"


def _received(answer: httpx.Response, most: int | None) -> httpx.Response:
    """An answer with its body; of one that is too long, its beginning."""
    try:
        if most is None:
            answer.read()
            return answer
        body = bytearray()
        for piece in answer.iter_bytes(65_536):
            body += piece
            if len(body) > most:
                break
        # The body is no longer packed or cut as these say.
        told = {k: v for k, v in answer.headers.items() if k not in ("content-encoding", "content-length")}
        told.pop("transfer-encoding", None)
        return httpx.Response(answer.status_code, headers=told, content=bytes(body))
    finally:
        answer.close()


def segment(text: str) -> str:
    """One path segment, encoded once."""
    return quote(text, safe="")


def _json(answer: httpx.Response, url: str) -> Any:
    kind = answer.headers.get("content-type", "").lower()
    if "json" not in kind:
        raise SourceError(f"expected JSON, got {kind.split(';')[0] or 'no content type'}", where=_where(url))
    try:
        return answer.json()
    except (ValueError, RecursionError) as e:
        raise SourceError("the answer is not valid JSON", where=_where(url)) from e


def _text(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _where(url: str) -> str:
    """Address without query: tokens and names in it stay out of logs."""
    parts = urlsplit(url)
    return f"{parts.netloc}{parts.path}"
