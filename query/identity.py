"""Identity: a bearer token to a VerifiedAsker, or a reason class why not. Nothing else in the engine can say who asks.

Follows RFC 7519 and RFC 9068 and Microsoft's access-token reference: algorithms come from configuration, the issuer is
matched as an exact string before anything is fetched, keys come from that issuer's JWKS alone (`query.keys`), and
audience, expiry and tenant are required. What counts of a token is in `query.claims`, and of whom it speaks in
`query.issuers`; names and addresses in it are never read. PyJWT does the cryptography.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

import jwt

from core.errors import ConfigError, ForbiddenError, IdentityError, IdentityReason
from core.principals import Principal, UserAssertion, VerifiedAsker, issue_asker
from core.trust import ApplicationSettings, IssuerSettings
from query.claims import Claims, read_claims
from query.issuers import TrustedIssuer
from query.keys import KeyCache, fetch_keys

MAX_TOKEN_BYTES: Final = 16 * 1024
LEEWAY_SECONDS: Final = 60
_KINDS: Final = frozenset({"jwt", "at+jwt", "application/at+jwt"})
_REFUSALS: Final[tuple[tuple[type[jwt.PyJWTError], IdentityReason], ...]] = (
    (jwt.ExpiredSignatureError, IdentityReason.EXPIRED),
    (jwt.ImmatureSignatureError, IdentityReason.NOT_YET_VALID),
    (jwt.InvalidAudienceError, IdentityReason.WRONG_AUDIENCE),
    (jwt.InvalidSignatureError, IdentityReason.BAD_SIGNATURE),
    (jwt.InvalidAlgorithmError, IdentityReason.BAD_SIGNATURE),
    (jwt.InvalidKeyError, IdentityReason.BAD_SIGNATURE),
)


class TokenVerifier:
    """Validates bearer tokens of the configured issuers. Thread-safe.

    `applications` may ask on their own. Raises ConfigError without a trusted issuer.
    """

    def __init__(
        self,
        issuers: Iterable[IssuerSettings],
        *,
        required_scope: str,
        required_role: str,
        applications: Iterable[ApplicationSettings] = (),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._issuers: dict[str, TrustedIssuer] = {}
        for settings in issuers:
            issuer = TrustedIssuer(settings, KeyCache(partial(fetch_keys, settings), monotonic))
            self._issuers |= dict.fromkeys(issuer.accepted, issuer)
        if not self._issuers:
            raise ConfigError("no token can be trusted", where="issuers", mend="Name an issuer and its audience")
        self._required_scope, self._required_role = required_scope, required_role
        self._spaces: dict[Principal, frozenset[str]] = {a.principal: frozenset(a.spaces) for a in applications}

    def verify(self, authorization: str | None) -> VerifiedAsker:
        """Return who asks by the value of an Authorization header.

        Raises IdentityError (401), ForbiddenError (403: no scope, an agent that is not listed, or an application on
        its own without a policy), and StoreUnavailableError (503) where the issuer's keys can't be had.
        """
        token = _bearer(authorization)
        header, unverified = _unverified(token)
        issuer = self._issuer_of(unverified)
        payload = _checked(token, header, issuer)
        claims = read_claims(payload, link_claim=issuer.settings.link_claim)
        return self._asker(claims, issuer, UserAssertion(token, expires_at=_seconds(payload["exp"])))

    def _issuer_of(self, unverified: Mapping[str, Any]) -> TrustedIssuer:
        named = unverified.get("iss")
        issuer = self._issuers.get(named) if isinstance(named, str) else None
        if issuer is None:
            raise IdentityError(IdentityReason.UNTRUSTED_ISSUER)
        return issuer

    def _asker(self, claims: Claims, issuer: TrustedIssuer, assertion: UserAssertion) -> VerifiedAsker:
        principal, tenant = issuer.account_of(claims)
        if not issuer.takes_agent(claims.client):
            raise ForbiddenError("the token was given to an application that may not ask")
        if claims.application:
            return self._application(claims, principal, tenant)
        if self._required_scope not in claims.scopes:
            raise ForbiddenError(f"the token lacks the scope {self._required_scope}")
        return issue_asker(
            principal=principal,
            tenant=tenant,
            agent=claims.client,
            scopes=claims.scopes,
            # A directory exchanges its own tokens; another issuer's is nothing to send there.
            assertion=assertion if issuer.settings.subject_claim == "oid" else None,
        )

    def _application(self, claims: Claims, principal: Principal, tenant: str) -> VerifiedAsker:
        spaces = self._spaces.get(principal)
        if spaces is None:
            raise ForbiddenError(
                "an application on its own may not ask: it needs a policy that lists its spaces",
                mend="Ask on behalf of a person, with a delegated token",
            )
        given = claims.roles | claims.scopes
        if self._required_role not in given:
            raise ForbiddenError(f"the token lacks the role {self._required_role}")
        return issue_asker(principal=principal, tenant=tenant, agent=None, scopes=given, spaces=spaces)


def _seconds(time_of: Any) -> float:
    """A time of a token in Unix seconds. Raises IdentityError where it is too large for a number."""
    try:
        return float(time_of)
    except OverflowError as e:
        raise IdentityError(IdentityReason.MALFORMED) from e


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


def _unverified(token: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Header and payload as anybody may have written them; good for choosing an issuer and nothing else."""
    try:
        header: Mapping[str, Any] = jwt.get_unverified_header(token)
        if "crit" in header:
            raise IdentityError(IdentityReason.MALFORMED)
        if str(header.get("typ", "JWT")).lower() not in _KINDS:
            raise IdentityError(IdentityReason.WRONG_KIND)
        payload: Mapping[str, Any] = jwt.decode(token, options={"verify_signature": False})
    except (jwt.InvalidTokenError, RecursionError, ValueError) as e:
        raise IdentityError(IdentityReason.MALFORMED) from e
    return header, payload


def _checked(token: str, header: Mapping[str, Any], issuer: TrustedIssuer) -> Mapping[str, Any]:
    """The payload, once signature, times, issuer and audience are right."""
    settings = issuer.settings
    algorithm, kid = header.get("alg"), header.get("kid")
    # `jku`, `x5u`, `x5c` and `jwk` of a header are not looked at: keys come from the issuer.
    if algorithm not in settings.algorithms or not isinstance(kid, str):
        raise IdentityError(IdentityReason.BAD_SIGNATURE)
    found = issuer.keys.find(kid)
    key = found.for_algorithm(algorithm) if found is not None else None
    if found is None or key is None:
        raise IdentityError(IdentityReason.BAD_SIGNATURE)
    try:
        payload: Mapping[str, Any] = jwt.decode(
            token,
            key,
            algorithms=[algorithm],
            audience=list(settings.audience),
            issuer=sorted(issuer.accepted),
            leeway=LEEWAY_SECONDS,
            options={"require": ["exp", "iat", "iss", "aud"]},
        )
    except jwt.MissingRequiredClaimError as e:
        wrong = IdentityReason.WRONG_AUDIENCE if e.claim == "aud" else IdentityReason.MALFORMED
        raise IdentityError(wrong) from e
    except jwt.InvalidTokenError as e:
        raise IdentityError(next((r for kind, r in _REFUSALS if isinstance(e, kind)), IdentityReason.MALFORMED)) from e
    issuer.check_key(found, payload.get("iss"), payload.get("tid"))
    return payload
