"""Checks the tokens that come with resource data: that Graph itself sent it, for our application, in our tenant.

Facts: Microsoft Graph documentation, "Change notifications that include resource data", "How to validate". Keys are
fetched by their address from the settings only, never by one in a token, and at most once a minute.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import httpx
import jwt

from core.errors import StoreUnavailableError
from core.this_machine import NO_PROXY
from ingestion.webhooks.outcomes import Outcome, Refused

log = logging.getLogger(__name__)

# Microsoft Graph's own application, by which it sends notifications.
CHANGE_TRACKING: Final = "0bf30f3b-4a52-48df-9a82-234910c4a086"
MOST_TOKENS: Final = 10
LEEWAY_SECONDS: Final = 60
_LONGEST_TOKEN: Final = 16 * 1024
_MOST_KEYS_BYTES: Final = 1024 * 1024
# Seconds: between fetches that an unknown key asks for, until known keys are fetched anew, after a fetch that failed.
_MISS_LIMIT: Final = 60.0
_GOOD_FOR: Final = 86_400.0
_FAILED_WAIT: Final = 5.0
_FETCH_WAIT: Final = 1.5


class TokenChecker:
    """Checks tokens for one tenant and application. Thread-safe; `now` counts seconds."""

    def __init__(
        self,
        keys_uri: str,
        *,
        tenant: str,
        client_id: str,
        authority: str,
        now: Callable[[], float] = time.monotonic,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._keys_uri = keys_uri
        self._client_id = client_id
        self._issuers = [f"https://sts.windows.net/{tenant}/", f"{authority.rstrip('/')}/{tenant}/v2.0"]
        self._now = now
        self._transport = transport
        self._lock = threading.Lock()
        self._keys: dict[str, Any] = {}
        self._fetched: float | None = None
        self._failed: float | None = None

    def check(self, tokens: Sequence[Any]) -> None:
        """Return where every token is good, and there is one. Raises Refused, and StoreUnavailableError where the keys
        can't be had."""
        if not tokens or len(tokens) > MOST_TOKENS:
            raise Refused(Outcome.FORGED, "resource data without a validation token")
        for token in tokens:
            self._check(token)

    def _check(self, token: Any) -> None:
        if not isinstance(token, str) or len(token) > _LONGEST_TOKEN:
            raise Refused(Outcome.FORGED, "a validation token is none")
        try:
            kid = str(jwt.get_unverified_header(token).get("kid") or "")
            key = self._key(kid)
            if key is None:
                raise Refused(Outcome.FORGED, "a validation token is signed with an unknown key")
            claims = jwt.decode(
                token,
                key,
                algorithms=["RS256"],
                audience=self._client_id,
                issuer=self._issuers,
                leeway=LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud"]},
            )
        except jwt.InvalidTokenError as e:
            raise Refused(Outcome.FORGED, f"a validation token is not good ({type(e).__name__})") from None
        if (claims.get("appid") or claims.get("azp")) != CHANGE_TRACKING:
            raise Refused(Outcome.FORGED, "a validation token was not issued for Microsoft Graph")

    def _key(self, kid: str) -> Any:
        """A signing key, fetched anew where it is not known, but not for each that somebody makes up."""
        with self._lock:
            now = self._now()
            age = None if self._fetched is None else now - self._fetched
            if age is None or age > _GOOD_FOR or (kid not in self._keys and age > _MISS_LIMIT):
                self._renew(now)
                if kid not in self._keys and self._failed is not None:
                    raise StoreUnavailableError("identity", "the keys of validation tokens can't be fetched")
            return self._keys.get(kid)

    def _renew(self, now: float) -> None:
        if self._failed is not None and now - self._failed < _FAILED_WAIT:
            return
        try:
            self._keys, self._fetched, self._failed = self._fetch(), now, None
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, jwt.PyJWTError) as e:
            self._failed = now
            log.warning("the keys of validation tokens can't be fetched: %s", type(e).__name__)

    def _fetch(self) -> dict[str, Any]:
        with httpx.Client(
            timeout=_FETCH_WAIT, transport=self._transport, follow_redirects=False, mounts=NO_PROXY
        ) as client:
            answer = client.get(self._keys_uri).raise_for_status()
        if len(answer.content) > _MOST_KEYS_BYTES:
            raise ValueError("too large")
        found = jwt.PyJWKSet.from_dict(answer.json())
        return {str(key.key_id): key.key for key in found.keys if key.key_type == "RSA" and key.key_id}
