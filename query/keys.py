"""An issuer's signing keys: fetched from its JWKS, kept for a while, and never in anybody's way.

A set of keys is taken over whole, so a key that its issuer removed is gone with the next one. A token's `kid` is what
anybody can write, so it decides little: however many unknown ones come, an issuer is asked at most once in
`PAUSE_SECONDS`, by one thread, and a kid that it did not know asks for nothing again for `UNKNOWN_SECONDS`. Tokens of
known keys are checked from what is here even while the issuer's endpoint hangs.
"""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx
import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt import PyJWK

from core.errors import StoreUnavailableError
from core.this_machine import NO_PROXY
from core.trust import IssuerSettings, is_safe_address

FRESH_SECONDS: Final = 300.0
# How long a set serves after it was fetched where the issuer does not answer any more.
KEPT_SECONDS: Final = 6 * 3600.0
PAUSE_SECONDS: Final = 30.0
UNKNOWN_SECONDS: Final = 120.0
# Whoever needs a key that is not here waits no longer than this, and no more of them at once than this.
WAIT_SECONDS: Final = 5.0
WAITING: Final = 8
# Whoever finds a set that is due gives the new one this long, and goes on with the old.
PATIENCE_SECONDS: Final = 1.0
MOST_BYTES: Final = 512 * 1024
MOST_KEYS: Final = 64
_MOST_UNKNOWN: Final = 1024
_SMALLEST_RSA: Final = 2048

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SigningKey:
    """One public key. `issuer` is whom it may sign for, where its set says so (Entra's shared sets do); a set's
    `{tenantid}` in it stands for the tenant of the token."""

    kid: str
    issuer: str | None
    jwk: Mapping[str, Any]

    def for_algorithm(self, algorithm: str) -> PyJWK | None:
        """The key, bound to an algorithm; None where it is not for that one, or too weak for it."""
        if self.jwk.get("alg") not in (None, algorithm):
            return None
        kind = "EC" if algorithm.startswith("ES") else "RSA"
        if self.jwk.get("kty") != kind:
            return None
        try:
            made = PyJWK(dict(self.jwk), algorithm)
        except (jwt.PyJWTError, ValueError, TypeError, KeyError):
            return None
        if isinstance(made.key, RSAPublicKey) and made.key.key_size < _SMALLEST_RSA:
            return None
        return made


KeySet = Mapping[str, SigningKey]


class KeyCache:
    """The keys of one issuer. Thread-safe. `fetch` gets the whole set; `monotonic` is in seconds."""

    def __init__(self, fetch: Callable[[], KeySet], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._fetch, self._monotonic = fetch, monotonic
        self._lock = threading.Lock()
        self._keys: KeySet = {}
        self._fetched: float | None = None
        self._tried: float | None = None
        self._failed = False
        self._running: threading.Event | None = None
        self._waiting = 0
        self._unknown: OrderedDict[str, float] = OrderedDict()

    def find(self, kid: str) -> SigningKey | None:
        """Return the key of that id; None where the issuer has none such.

        Raises StoreUnavailableError where nobody can tell, since the issuer does not answer.
        """
        with self._lock:
            now = self._monotonic()
            known = self._kept(now).get(kid)
            if known is not None and self._fetched is not None and now - self._fetched <= FRESH_SECONDS:
                return known
            if known is None and now - self._unknown.get(kid, -math.inf) <= UNKNOWN_SECONDS:
                return None
            mine, running = self._begin(now)
            if known is not None and not mine:
                return known
            if running is None:
                # A set that came a moment ago says enough; the kid may still be in the next one.
                if self._failed:
                    raise self._unavailable(now)
                return None
            if known is None and self._waiting >= WAITING:
                raise self._unavailable(now)
            self._waiting += 1
        running.wait(PATIENCE_SECONDS if known is not None else WAIT_SECONDS)
        with self._lock:
            self._waiting -= 1
            if known is not None and (self._running is running or self._failed):
                return known
            now = self._monotonic()
            if self._running is running or self._failed:
                raise self._unavailable(now)
            found = self._kept(now).get(kid)
            if found is None:
                self._unknown[kid] = now
                while len(self._unknown) > _MOST_UNKNOWN:
                    self._unknown.popitem(last=False)
            return found

    def _kept(self, now: float) -> KeySet:
        """The keys that may still be used."""
        return self._keys if self._fetched is not None and now - self._fetched <= KEPT_SECONDS else {}

    def _begin(self, now: float) -> tuple[bool, threading.Event | None]:
        """The fetch that runs, begun here (then True) if it is time for one; None where none runs."""
        if self._running is not None:
            return False, self._running
        if self._tried is not None and now - self._tried < PAUSE_SECONDS:
            return False, None
        self._tried, self._running = now, threading.Event()
        threading.Thread(target=self._refresh, args=(self._running,), name="issuer-keys", daemon=True).start()
        return True, self._running

    def _refresh(self, running: threading.Event) -> None:
        found: KeySet | None = None
        try:
            found = self._fetch()
        except StoreUnavailableError as e:
            log.warning("%s", e)
        finally:
            with self._lock:
                self._failed = found is None
                if found is not None:
                    self._keys, self._fetched = found, self._monotonic()
                    for kid in found.keys() & self._unknown.keys():
                        del self._unknown[kid]
                self._running = None
            running.set()

    def _unavailable(self, now: float) -> StoreUnavailableError:
        passed = now - self._tried if self._tried is not None else PAUSE_SECONDS
        return StoreUnavailableError(
            "identity", "the issuer's signing keys can't be fetched", retry_after=max(1.0, PAUSE_SECONDS - passed)
        )


def fetch_keys(settings: IssuerSettings) -> KeySet:
    """Fetch an issuer's keys by its settings, or by its discovery document.

    Follows RFC 7517 and OpenID Connect Discovery 1.0. Redirects are not followed. Raises StoreUnavailableError where
    that fails, or what comes is no set of keys.
    """
    deadline = time.monotonic() + WAIT_SECONDS
    with httpx.Client(timeout=WAIT_SECONDS, follow_redirects=False, mounts=NO_PROXY) as client:
        uri = settings.jwks_uri or _discover(client, settings, deadline)
        return _keys_of(_document(client, uri, deadline))


def _discover(client: httpx.Client, settings: IssuerSettings, deadline: float) -> str:
    document = _document(client, f"{settings.issuer.rstrip('/')}/.well-known/openid-configuration", deadline)
    if document.get("issuer") != settings.issuer:
        raise StoreUnavailableError("identity", "the discovery document names another issuer")
    uri = document.get("jwks_uri")
    if not isinstance(uri, str) or not (settings.private_network or is_safe_address(uri)):
        raise StoreUnavailableError("identity", "the discovery document names no safe address of keys")
    return uri


def _document(client: httpx.Client, url: str, deadline: float) -> Mapping[str, Any]:
    body = b""
    try:
        with client.stream("GET", url, headers={"Accept": "application/json"}) as answer:
            if answer.status_code != 200:
                raise StoreUnavailableError("identity", f"the issuer answered {answer.status_code} for its keys")
            for piece in answer.iter_bytes():
                body += piece
                if len(body) > MOST_BYTES or time.monotonic() > deadline:
                    raise StoreUnavailableError("identity", "the issuer's answer is too long, or too slow")
        document = json.loads(body)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, RecursionError) as e:
        raise StoreUnavailableError("identity", f"the issuer's keys can't be read ({type(e).__name__})") from e
    if not isinstance(document, dict):
        raise StoreUnavailableError("identity", "the issuer's answer is no document of keys")
    return document


def _keys_of(document: Mapping[str, Any]) -> KeySet:
    """The keys that can check signatures, by id. Where one id stands for two of them, neither is used."""
    rows = document.get("keys")
    if not isinstance(rows, list) or len(rows) > MOST_KEYS:
        raise StoreUnavailableError("identity", "the issuer's answer is no set of keys")
    found, twice = dict[str, SigningKey](), set[str]()
    for row in rows:
        if not isinstance(row, dict) or row.get("use") not in (None, "sig") or row.get("kty") not in ("RSA", "EC"):
            continue
        if "d" in row:  # a private key that was published is nobody's any more
            continue
        kid, issuer = row.get("kid"), row.get("issuer")
        if not isinstance(kid, str) or not kid or not (issuer is None or isinstance(issuer, str)):
            continue
        twice |= {kid} & found.keys()
        found[kid] = SigningKey(kid, issuer, row)
    found = {kid: key for kid, key in found.items() if kid not in twice}
    if not found:
        raise StoreUnavailableError("identity", "the issuer's set has no key that could have signed a token")
    return found
