"""Claims: which of a token's claims count, and how. Every claim that may influence anything stands in `CLASSIFIED`.

Real tokens carry many more (Entra's optional claims, Keycloak's mappers), so an unknown claim is no reason to refuse
one. It can't matter either: what is not classified is dropped before anything is read, and what leaves here is a
`Claims`, which has no room for it.

Sources: RFC 7519, RFC 9068 (JWT access tokens), RFC 8693 (`act`), RFC 7800 (`cnf`), OpenID Connect Core 1.0,
Microsoft's access-token and optional-claims references, Keycloak's server administration guide.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from core.errors import IdentityError, IdentityReason
from core.trust import fold_guid


class Use(StrEnum):
    """What a claim is to us."""

    READ = "read"  # it says who asks, as what, or for whom
    CHECKED = "checked"  # it can only make the token be refused, or count for less
    REFUSED = "refused"  # a token that has it is of a kind that is not understood here, whatever it says
    IGNORED = "ignored"  # named so that nobody takes it up without thinking


@dataclass(frozen=True, slots=True)
class Classified:
    """What a claim is to us, and why."""

    use: Use
    why: str


CLASSIFIED: Final[Mapping[str, Classified]] = {
    "iss": Classified(Use.READ, "which issuer, compared with the configured forms as a whole"),
    "aud": Classified(Use.CHECKED, "must hold one of the configured audiences exactly"),
    "exp": Classified(Use.CHECKED, "required; a minute of leeway"),
    "iat": Classified(Use.CHECKED, "required; not in the future"),
    "nbf": Classified(Use.CHECKED, "not in the future"),
    "tid": Classified(Use.READ, "the directory of `oid`; one of the configured tenants"),
    "oid": Classified(Use.READ, "the account: the same for every application, and never given to somebody else"),
    "sub": Classified(Use.READ, "the account where the issuer is so configured; with `oid`, shows an application"),
    "azp": Classified(Use.READ, "the application that asks for a person"),
    "appid": Classified(Use.READ, "the same in Entra's v1 tokens"),
    "client_id": Classified(Use.READ, "the same by RFC 9068"),
    "scp": Classified(Use.READ, "delegated scopes (Entra)"),
    "scope": Classified(Use.READ, "delegated scopes (RFC 9068, Keycloak)"),
    "roles": Classified(Use.READ, "what an application on its own was given; never a person's scopes"),
    "idtyp": Classified(Use.CHECKED, "anything but user: no person stands behind the token"),
    "ver": Classified(Use.CHECKED, "must fit the form of `iss`"),
    "typ": Classified(Use.CHECKED, "Keycloak's kind of token: only an access token"),
    "token_use": Classified(Use.CHECKED, "Cognito's kind of token: only access"),
    "preferred_username": Classified(Use.CHECKED, "only its prefix, which marks Keycloak's service accounts"),
    "clientHost": Classified(Use.CHECKED, "Keycloak sets it for service accounts alone"),
    "clientAddress": Classified(Use.CHECKED, "Keycloak sets it for service accounts alone"),
    "jti": Classified(Use.CHECKED, "a text, where it is there"),
    "nonce": Classified(Use.REFUSED, "an id token"),
    "at_hash": Classified(Use.REFUSED, "an id token"),
    "c_hash": Classified(Use.REFUSED, "an id token"),
    "events": Classified(Use.REFUSED, "a security event or logout token"),
    "cnf": Classified(Use.REFUSED, "bound to a key whose proof can't be checked here, so no bearer token"),
    "act": Classified(Use.REFUSED, "a chain of actors; the audit log knows one person and one agent"),
    "groups": Classified(Use.IGNORED, "can be old or cut short; memberships come from the directory"),
    "hasgroups": Classified(Use.IGNORED, "as groups"),
    "_claim_names": Classified(Use.IGNORED, "as groups"),
    "_claim_sources": Classified(Use.IGNORED, "an address in a token is never called"),
    "wids": Classified(Use.IGNORED, "directory roles open nothing here"),
    "realm_access": Classified(Use.IGNORED, "Keycloak's roles; scopes and `roles` count"),
    "resource_access": Classified(Use.IGNORED, "Keycloak's roles; scopes and `roles` count"),
    "acct": Classified(Use.IGNORED, "member or guest is what the directory says"),
    "idp": Classified(Use.IGNORED, "where a guest signed in"),
    "email": Classified(Use.IGNORED, "can be changed, and passes from one person to another"),
    "email_verified": Classified(Use.IGNORED, "as email"),
    "upn": Classified(Use.IGNORED, "as email"),
    "unique_name": Classified(Use.IGNORED, "as email"),
    "name": Classified(Use.IGNORED, "as email"),
    "given_name": Classified(Use.IGNORED, "as email"),
    "family_name": Classified(Use.IGNORED, "as email"),
    "uti": Classified(Use.IGNORED, "the token's own id"),
    "sid": Classified(Use.IGNORED, "the session of the sign-in"),
    "acr": Classified(Use.IGNORED, "how the person signed in; the issuer's policy decides"),
    "amr": Classified(Use.IGNORED, "as acr"),
    "azpacr": Classified(Use.IGNORED, "how the agent signed in"),
    "appidacr": Classified(Use.IGNORED, "how the agent signed in"),
    "auth_time": Classified(Use.IGNORED, "as acr"),
    "may_act": Classified(Use.IGNORED, "who might act for the person elsewhere"),
    "rh": Classified(Use.IGNORED, "Entra's own"),
    "aio": Classified(Use.IGNORED, "Entra's own"),
    "xms_cc": Classified(Use.IGNORED, "what the client understands"),
}

_ACCESS_TOKENS: Final = frozenset({"bearer", "jwt", "at+jwt"})
_SERVICE_ACCOUNT: Final = "service-account-"
_COUNTS: Final = frozenset({Use.READ, Use.CHECKED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What a token says that counts. Texts are as they stand there; None or empty: it does not say.

    `client` is the one application that `azp`, `appid` and `client_id` name; `linked` is the claim in which the
    issuer's administrator puts the account of the directory. `application`: no person stands behind the token;
    `roles` are an application's alone.
    """

    issuer: str
    tenant: str | None
    object_id: str | None
    subject: str | None
    linked: str | None
    client: str | None
    version: str | None
    scopes: frozenset[str]
    roles: frozenset[str]
    application: bool


def read_claims(payload: Mapping[str, Any], *, link_claim: str | None = None) -> Claims:
    """Return what counts of a payload whose signature, times, issuer and audience were checked.

    Raises IdentityError where it is another kind of token, contradicts itself, or has a claim of the wrong type.
    """
    if any(name in payload for name, found in CLASSIFIED.items() if found.use is Use.REFUSED):
        raise IdentityError(IdentityReason.WRONG_KIND)
    counts = {name: payload[name] for name, found in CLASSIFIED.items() if found.use in _COUNTS and name in payload}
    kind = _text(counts, "typ")
    if (kind is not None and kind.lower() not in _ACCESS_TOKENS) or _text(counts, "token_use") not in (None, "access"):
        raise IdentityError(IdentityReason.WRONG_KIND)
    client, scopes = _client(counts), _scopes(counts)
    object_id, subject = _text(counts, "oid"), _text(counts, "sub")
    application = _is_application(counts, subject, object_id, client, scopes)
    return Claims(
        issuer=_text(counts, "iss") or "",
        tenant=_text(counts, "tid"),
        object_id=object_id,
        subject=subject,
        linked=_text(payload, link_claim) if link_claim is not None else None,
        client=client,
        version=_text(counts, "ver"),
        scopes=scopes,
        roles=_words(counts, "roles") if application else frozenset(),
        application=application,
    )


def _is_application(
    counts: Mapping[str, Any], subject: str | None, object_id: str | None, client: str | None, scopes: frozenset[str]
) -> bool:
    """By Entra's `idtyp`; by the shape of Entra's tokens, where that optional claim is not issued; by RFC 9068, where
    the subject is the client; by what Keycloak sets for service accounts. Any of them can only take away."""
    if _text(counts, "idtyp") not in (None, "user") or "clientHost" in counts or "clientAddress" in counts:
        return True
    if (_text(counts, "preferred_username") or "").startswith(_SERVICE_ACCOUNT):
        return True
    return subject is not None and (subject == client or (subject == object_id and not scopes))


def _client(counts: Mapping[str, Any]) -> str | None:
    named = {fold_guid(x) for name in ("azp", "appid", "client_id") if (x := _text(counts, name)) is not None}
    if len(named) > 1:
        raise IdentityError(IdentityReason.MALFORMED)
    return next(iter(named), None)


def _scopes(counts: Mapping[str, Any]) -> frozenset[str]:
    found = [_words(counts, name) for name in ("scp", "scope") if name in counts]
    if any(one != found[0] for one in found):
        raise IdentityError(IdentityReason.MALFORMED)
    return found[0] if found else frozenset()


def _words(claims: Mapping[str, Any], name: str) -> frozenset[str]:
    """Words of a claim that is a text with spaces, or a list of texts without."""
    value = claims.get(name)
    if value is None:
        return frozenset()
    words = value.split(" ") if isinstance(value, str) else value
    if not isinstance(words, list) or not all(isinstance(w, str) for w in words):
        raise IdentityError(IdentityReason.MALFORMED)
    return frozenset(w for w in words if w)


def _text(claims: Mapping[str, Any], name: str) -> str | None:
    value = claims.get(name)
    # JSON can spell halves of characters, which nothing that is recorded or answered can hold.
    if value is not None and not (isinstance(value, str) and _is_unicode(value)):
        raise IdentityError(IdentityReason.MALFORMED)
    return value or None


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= c <= "\udfff" for c in text)
