"""Identity: a bearer token to a VerifiedAsker, or a reason class why not. Nothing else in the engine can say who asks.

Follows RFC 7519 and RFC 9068 and Microsoft's access-token reference: the algorithm comes from configuration, the
issuer is matched as an exact string before anything is fetched, keys come from that issuer's JWKS alone, audience,
expiry and tenant are required. An account is (tenant, oid); names and addresses in the token are never read.
PyJWT does the cryptography.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from typing import Any

import httpx
import jwt
from jwt import PyJWKClient, PyJWKClientConnectionError, PyJWKClientError

from core.errors import ForbiddenError, IdentityError, IdentityReason, StoreUnavailableError
from core.principals import VerifiedAsker, issue_asker, user
from core.settings import IssuerSettings

MAX_TOKEN_BYTES = 16 * 1024
LEEWAY_SECONDS = 60
_GUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class TokenVerifier:
    """Validates bearer tokens of the configured issuers. Thread-safe; keys are cached for five minutes."""

    def __init__(self, issuers: tuple[IssuerSettings, ...], *, required_scope: str) -> None:
        self._issuers = {i.issuer: i for i in issuers}
        self._required_scope = required_scope
        self._clients: dict[str, PyJWKClient] = {}
        self._lock = threading.Lock()

    def verify(self, authorization: str | None) -> VerifiedAsker:
        """Return who asks by the value of an Authorization header.

        Raises IdentityError (401), ForbiddenError (403: no scope, or an application on its own), and
        StoreUnavailableError (503) where the issuer's keys can't be had.
        """
        token = _bearer(authorization)
        issuer = self._issuer_of(token)
        claims = self._decode(token, issuer)
        return self._asker(claims, issuer)

    def _issuer_of(self, token: str) -> IssuerSettings:
        try:
            header = jwt.get_unverified_header(token)
            unverified = jwt.decode(token, options={"verify_signature": False})
        except jwt.InvalidTokenError as e:
            raise IdentityError(IdentityReason.MALFORMED) from e
        if str(header.get("typ", "JWT")).lower() not in {"jwt", "at+jwt", "application/at+jwt"} or "crit" in header:
            raise IdentityError(IdentityReason.WRONG_KIND)
        issuer = self._issuers.get(str(unverified.get("iss")))
        if issuer is None:
            raise IdentityError(IdentityReason.UNTRUSTED_ISSUER)
        if header.get("alg") not in issuer.algorithms:
            raise IdentityError(IdentityReason.BAD_SIGNATURE)
        return issuer

    def _decode(self, token: str, issuer: IssuerSettings) -> Mapping[str, Any]:
        try:
            key = self._keys(issuer).get_signing_key_from_jwt(token)
        except PyJWKClientConnectionError as e:
            raise StoreUnavailableError("identity", "the issuer's signing keys can't be fetched") from e
        except (PyJWKClientError, jwt.InvalidTokenError) as e:
            raise IdentityError(IdentityReason.BAD_SIGNATURE) from e
        try:
            claims: Mapping[str, Any] = jwt.decode(
                token,
                key.key,
                algorithms=list(issuer.algorithms),
                audience=list(issuer.audience),
                issuer=issuer.issuer,
                leeway=LEEWAY_SECONDS,
                options={"require": ["exp", "iat", "iss", "aud"]},
            )
        except jwt.ExpiredSignatureError as e:
            raise IdentityError(IdentityReason.EXPIRED) from e
        except (jwt.ImmatureSignatureError, jwt.InvalidIssuedAtError) as e:
            raise IdentityError(IdentityReason.NOT_YET_VALID) from e
        except jwt.InvalidAudienceError as e:
            raise IdentityError(IdentityReason.WRONG_AUDIENCE) from e
        except jwt.InvalidIssuerError as e:
            raise IdentityError(IdentityReason.UNTRUSTED_ISSUER) from e
        except jwt.MissingRequiredClaimError as e:
            wrong_audience = e.claim == "aud"
            raise IdentityError(IdentityReason.WRONG_AUDIENCE if wrong_audience else IdentityReason.MALFORMED) from e
        except jwt.InvalidSignatureError as e:
            raise IdentityError(IdentityReason.BAD_SIGNATURE) from e
        except jwt.InvalidTokenError as e:
            raise IdentityError(IdentityReason.MALFORMED) from e
        return claims

    def _asker(self, claims: Mapping[str, Any], issuer: IssuerSettings) -> VerifiedAsker:
        tenant, account = str(claims.get("tid", "")).lower(), str(claims.get("oid", "")).lower()
        if tenant != issuer.tenant.lower():
            raise IdentityError(IdentityReason.WRONG_TENANT)
        if "nonce" in claims or not _GUID.fullmatch(account):
            raise IdentityError(IdentityReason.WRONG_KIND)
        if _is_application(claims):
            raise ForbiddenError(
                "an application on its own may not ask: it needs a policy that lists its spaces",
                mend="Ask on behalf of a person, with a delegated token",
            )
        scopes = frozenset(str(claims.get("scp") or claims.get("scope") or "").split())
        if self._required_scope not in scopes:
            raise ForbiddenError(f"the token lacks the scope {self._required_scope}")
        agent = claims.get("azp") or claims.get("appid")
        return issue_asker(
            principal=user(tenant, account), tenant=tenant, agent=str(agent) if agent else None, scopes=scopes
        )

    def _keys(self, issuer: IssuerSettings) -> PyJWKClient:
        with self._lock:
            client = self._clients.get(issuer.issuer)
            if client is None:
                uri = issuer.jwks_uri or _discover(issuer.issuer)
                client = PyJWKClient(uri, cache_jwk_set=True, cache_keys=False, lifespan=300, timeout=5)
                self._clients[issuer.issuer] = client
            return client


def _bearer(authorization: str | None) -> str:
    if not authorization:
        raise IdentityError(IdentityReason.MISSING)
    scheme, _, token = authorization.partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        raise IdentityError(IdentityReason.MISSING)
    if len(token) > MAX_TOKEN_BYTES or token.count(".") != 2:
        raise IdentityError(IdentityReason.MALFORMED)
    return token


def _is_application(claims: Mapping[str, Any]) -> bool:
    """App-only by Entra's `idtyp`, or by its shape where that optional claim is not issued."""
    return claims.get("idtyp") == "app" or (not claims.get("scp") and claims.get("oid") == claims.get("sub"))


def _discover(issuer: str) -> str:
    try:
        answer = httpx.get(f"{issuer.rstrip('/')}/.well-known/openid-configuration", timeout=5)
        document = answer.raise_for_status().json()
        if document["issuer"] != issuer:
            raise StoreUnavailableError("identity", "the discovery document names another issuer")
        return str(document["jwks_uri"])
    except (httpx.HTTPError, ValueError, KeyError) as e:
        raise StoreUnavailableError("identity", "the issuer's discovery document can't be read") from e
