"""Tokens of a source on behalf of the person who asks (OAuth 2.0 on-behalf-of, Microsoft identity platform), by MSAL.

A token is kept under who it is for, which application got it, for what, and the very token that it was exchanged for;
until shortly before it or that one ends. Each exchange has a token cache of its own that is thrown away with it, so no
refresh token is kept and none can serve another person.
"""

from __future__ import annotations

import hashlib
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import msal
from pydantic import SecretStr

from core import this_machine
from core.errors import ConfigError, SourceAuthError
from core.principals import VerifiedAsker
from core.trust import is_safe_address

# A token counts as ended this long before it does, so that none ends on its way.
MARGIN_SECONDS: Final = 120.0
_KEPT: Final = 2048


@dataclass(frozen=True, slots=True)
class _Kept:
    token: str
    ends: float

    def __repr__(self) -> str:
        return "_Kept(…)"


class TokenExchange:
    """Exchanges askers' tokens at one tenant. Thread-safe; one exchange at a time for each person and purpose."""

    def __init__(
        self,
        *,
        authority: str,
        tenant: str,
        client_id: str,
        client_secret: SecretStr,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._authority = f"{_safe(authority)}/{tenant}"
        self._client_id, self._secret = client_id, client_secret
        self._now = now
        self._discovery: dict[str, httpx.Response] = {}
        self._kept: OrderedDict[tuple[str, ...], _Kept] = OrderedDict()
        self._busy: dict[tuple[str, ...], threading.Lock] = {}
        self._lock = threading.Lock()
        self._http = httpx.Client(follow_redirects=False, trust_env=False)
        weakref.finalize(self, self._http.close)

    def token(self, asker: VerifiedAsker, scope: str, deadline: float) -> str:
        """Return a token for `scope` that speaks for this person. `deadline` is on the monotonic clock.

        Raises SourceAuthError where there is no token to exchange (an application on its own) or it is refused, and
        httpx.HTTPError or TimeoutError where the endpoint does not answer in time.
        """
        if asker.assertion is None or asker.application:
            raise SourceAuthError("nobody to ask on behalf of", where="token exchange")
        assertion = asker.assertion.reveal()
        key = (asker.tenant, asker.principal, self._client_id, scope, hashlib.sha256(assertion.encode()).hexdigest())
        with self._lock:
            busy = self._busy.setdefault(key, threading.Lock())
        if not busy.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise TimeoutError("the exchange of a token takes too long")
        try:
            kept = self._kept.get(key)
            if kept is None or kept.ends <= self._now():
                kept = self._exchange(assertion, scope, deadline, asker.assertion.expires_at)
                self._keep(key, kept)
            return kept.token
        finally:
            busy.release()
            with self._lock:
                self._busy.pop(key, None)

    def _exchange(self, assertion: str, scope: str, deadline: float, assertion_ends: float) -> _Kept:
        began = self._now()
        application = msal.ConfidentialClientApplication(
            self._client_id,
            client_credential=self._secret.get_secret_value(),
            authority=self._authority,
            instance_discovery=False,
            client_capabilities=["cp1"],
            token_cache=msal.TokenCache(),
            http_client=_Http(self._http, self._discovery, deadline),
        )
        answer = application.acquire_token_on_behalf_of(assertion, [scope])
        if not isinstance(answer, dict) or not isinstance(answer.get("access_token"), str):
            code = str(answer.get("error", "refused"))[:60] if isinstance(answer, dict) else "refused"
            raise SourceAuthError(f"the token was not exchanged: {code}", where="token exchange")
        ends = min(began + float(answer.get("expires_in") or 0), assertion_ends) - MARGIN_SECONDS
        return _Kept(answer["access_token"], ends)

    def _keep(self, key: tuple[str, ...], kept: _Kept) -> None:
        with self._lock:
            self._kept[key] = kept
            self._kept.move_to_end(key)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)


class _Http:
    """What MSAL speaks through: requests end with the deadline, and the tenant's endpoints are asked for once.

    MSAL takes no authority but an https one. A loopback authority (a stand-in on this machine) is written as https for
    it, and asked by http.
    """

    def __init__(self, http: httpx.Client, discovery: dict[str, httpx.Response], deadline: float) -> None:
        self._http, self._discovery, self._deadline = http, discovery, deadline

    def post(
        self, url: str, params: Any = None, data: Any = None, headers: Mapping[str, str] | None = None, **_: Any
    ) -> httpx.Response:
        """See msal.oauth2cli.http.HttpClient."""
        sent = {"data": data} if isinstance(data, Mapping) else {"content": data}
        return self._http.post(_plain(url), params=params, headers=headers, timeout=self._left(), **sent)

    def get(self, url: str, params: Any = None, headers: Mapping[str, str] | None = None, **_: Any) -> httpx.Response:
        """See msal.oauth2cli.http.HttpClient."""
        known = self._discovery.get(url)
        if known is None:
            known = self._http.get(_plain(url), params=params, headers=headers, timeout=self._left())
            if known.status_code == httpx.codes.OK and url.endswith("/.well-known/openid-configuration"):
                known = _with_https(known, url)
                self._discovery[url] = known
        return known

    def close(self) -> None:
        """The client is not MSAL's to close."""

    def _left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("no time is left to exchange a token")
        return left


def _safe(authority: str) -> str:
    """An authority as MSAL takes it. Raises ConfigError for one that is neither https nor on this machine."""
    if not is_safe_address(authority):
        raise ConfigError(
            "people's tokens go by https only", where="late_binding.authority", mend="Write an https address"
        )
    return authority.replace("http://", "https://", 1).rstrip("/")


def _plain(url: str) -> str:
    return url.replace("https://", "http://", 1) if urlsplit(url).hostname in this_machine.NAMES else url


def _with_https(answer: httpx.Response, url: str) -> httpx.Response:
    if urlsplit(url).hostname not in this_machine.NAMES:
        return answer
    return httpx.Response(answer.status_code, text=answer.text.replace("http://", "https://"), request=answer.request)
