"""The application's token for Graph: fetched when needed, kept until shortly before it ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

import httpx
import msal

from core.errors import SourceAuthError, SourceError
from core.settings import GraphSettings
from ingestion.teams.clouds import endpoints
from ingestion.teams.retry import TEMPORARY, Backoff

WHERE = "graph token"
# A token is renewed this long before its end, so that none ends on its way.
MARGIN_SECONDS = 120.0


class TokenSource:
    """Tokens by client credentials: through MSAL from Entra, or from a plain OAuth 2.0 endpoint. Thread-safe."""

    def __init__(self, settings: GraphSettings, http: httpx.Client, backoff: Backoff) -> None:
        self._settings, self._endpoints = settings, endpoints(settings)
        self._http = http
        self._backoff = backoff
        self._lock = threading.Lock()
        self._token: tuple[str, float] | None = None
        self._application: msal.ConfidentialClientApplication | None = None

    def bearer(self) -> str:
        """Return a token that is good for a while. Raises SourceAuthError where it is refused, SourceError where the
        endpoint does not answer."""
        with self._lock:
            if self._token is None or self._token[1] <= time.monotonic():
                granted = self._grant()
                self._token = (str(granted["access_token"]), time.monotonic() + _lifetime(granted))
            return self._token[0]

    def forget(self) -> None:
        """The token was refused: the next one is fetched anew."""
        with self._lock:
            self._token = None
            self._application = None  # MSAL would give the refused one from its own cache

    def _grant(self) -> Mapping[str, Any]:
        granted = self._from_entra() if self._settings.token_url is None else self._from(self._settings.token_url)
        if not isinstance(granted, dict) or "access_token" not in granted:
            reason = granted.get("error", "refused") if isinstance(granted, dict) else "refused"
            raise SourceAuthError(f"no token for Graph: {reason}", where=WHERE)
        return granted

    def _from(self, url: str) -> Any:
        form = {
            "grant_type": "client_credentials",
            "client_id": self._settings.client_id,
            "client_secret": self._settings.client_secret.get_secret_value(),
            "scope": self._endpoints.scope,
        }
        attempt = 0
        while True:
            try:
                answer = self._http.post(url, data=form)
                if answer.status_code not in TEMPORARY:
                    return answer.json()
                reason, retry_after = f"HTTP {answer.status_code}", answer.headers.get("Retry-After")
            except httpx.HTTPError as e:
                reason, retry_after = type(e).__name__, None
            except ValueError as e:
                raise SourceError("the token endpoint does not answer with JSON", where=WHERE) from e
            self._backoff.wait(attempt, reason=reason, where=WHERE, retry_after=retry_after)
            attempt += 1

    def _from_entra(self) -> Any:
        s = self._settings
        try:
            if self._application is None:
                self._application = msal.ConfidentialClientApplication(
                    s.client_id,
                    client_credential=s.client_secret.get_secret_value(),
                    authority=f"{self._endpoints.authority}/{s.tenant}",
                )
            return self._application.acquire_token_for_client([self._endpoints.scope])
        except (OSError, ValueError) as e:  # MSAL's transport raises OSErrors of its own kind
            raise SourceError(f"the token endpoint does not answer ({type(e).__name__})", where=WHERE) from e


def _lifetime(granted: Mapping[str, Any]) -> float:
    try:
        return max(float(granted.get("expires_in", 300)) - MARGIN_SECONDS, 1.0)
    except (TypeError, ValueError):
        return 1.0
