"""Settings of trust: whose tokens prove who asks, and which applications may ask on their own, of what.

What is not safe can't be written down here: no audience, no tenant, a symmetric algorithm, keys over plain HTTP, two
issuers whose accounts could meet, or a person's changeable name as the link to an account.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from core import this_machine
from core.principals import Principal, user
from core.spaces import parse_space

TENANT_MARK: Final = "{tenantid}"
Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512"]

# Endpoints of Entra that stand for many tenants; tokens never come from them.
_SHARED_ENDPOINTS: Final = frozenset({"common", "organizations", "consumers"})
# Claims that people can change, or that pass from one person to another: no link to an account hangs on them.
_CHANGEABLE: Final = frozenset(
    {
        *("email", "email_verified", "verified_primary_email", "verified_secondary_email", "preferred_username"),
        *("upn", "unique_name", "username", "user_name", "name", "given_name", "family_name", "nickname"),
        *("phone_number", "login_hint", "onprem_sid", "samaccountname"),
    }
)
_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_GUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")


def fold_guid(text: str) -> str:
    """A GUID in lower case, as the directory's ids are spelt everywhere here; anything else as it is."""
    return text.lower() if _GUID.fullmatch(text) else text


def is_guid(text: str) -> bool:
    """Whether this is a GUID, in any case."""
    return _GUID.fullmatch(text) is not None


def is_safe_address(url: str) -> bool:
    """Whether nobody on the way can change what comes from there: https, or this machine itself."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return bool(parts.hostname) and (
        parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in this_machine.NAMES)
    )


def _tenant(text: str) -> str:
    if _TENANT.fullmatch(text) is None:
        raise ValueError("a tenant is a GUID, or a name of letters, digits, dots, hyphens and underscores")
    return text.lower()


def _some(text: str) -> str:
    if not text.strip() or text != text.strip():
        raise ValueError("it is empty, or has spaces around it")
    return text


Tenant = Annotated[str, AfterValidator(_tenant)]
Text = Annotated[str, AfterValidator(_some)]


class IssuerSettings(BaseModel):
    """One trusted OpenID Connect issuer, and how its tokens name an account of a directory."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    issuer: Text = Field(description="exactly as in `iss`; {tenantid} where it stands for each of `tenants`")
    tenant: Tenant | None = Field(default=None, description="the directory of its accounts; null: `tenants` lists them")
    tenants: tuple[Tenant, ...] = Field(default=(), description="for an issuer with {tenantid}: whose tokens are taken")
    audience: tuple[Text, ...] = Field(min_length=1, description="accepted `aud`, each compared exactly")
    v1_issuer: Text | None = Field(default=None, description="`iss` of Entra's v1 tokens; null: they are refused")
    subject_claim: Literal["oid", "sub"] = Field(
        default="oid", description="what names the account: Entra's object id, or any issuer's subject"
    )
    link_claim: Text | None = Field(
        default=None, description="claim in which the issuer's admin puts the object id of the directory's account"
    )
    link_tenant: Tenant | None = Field(default=None, description="the directory that `link_claim` points into")
    clients: tuple[Text, ...] = Field(default=(), description="agents whose tokens are taken; empty: any of the issuer")
    jwks_uri: Text | None = Field(default=None, description="null: from the discovery document")
    private_network: bool = Field(
        default=False, description="keys come over plain HTTP, by a network that nobody else is on (development)"
    )
    algorithms: tuple[Algorithm, ...] = Field(default=("RS256",), min_length=1)

    @model_validator(mode="after")
    def _is_safe(self) -> IssuerSettings:
        shared = TENANT_MARK in self.issuer
        if shared == bool(self.tenant) or shared != bool(self.tenants):
            raise ValueError(f"give `tenants` with an issuer that holds {TENANT_MARK}, and `tenant` with any other")
        for form in filter(None, (self.issuer, self.v1_issuer)):
            if _SHARED_ENDPOINTS & set(form.lower().split("/")):
                raise ValueError(f"{form} stands for many tenants; write the tenant's id, or {TENANT_MARK}")
        if self.v1_issuer is not None:
            named = TENANT_MARK if shared else str(self.tenant)
            if named not in self.v1_issuer.lower() or self.v1_issuer == self.issuer:
                raise ValueError(f"v1_issuer must hold {named}: it is another form for the same tenant")
        if shared and not all(is_guid(t) for t in self.tenants):
            raise ValueError("tenants are listed by their ids")
        if shared and (self.jwks_uri is None or self.subject_claim != "oid"):
            raise ValueError(f"an issuer with {TENANT_MARK} needs jwks_uri, and names accounts by oid")
        if self.subject_claim == "sub" and is_guid(str(self.tenant)):
            # Directories are named by GUIDs: so an issuer's subjects can never meet a directory's accounts.
            raise ValueError('an issuer with subject_claim = "sub" has a tenant of its own: a name, not a GUID')
        if (self.link_claim is None) != (self.link_tenant is None):
            raise ValueError("link_claim and link_tenant go together")
        if self.link_claim is not None and self.subject_claim != "sub":
            raise ValueError('link_claim is for an issuer with subject_claim = "sub"')
        if self.link_claim is not None and self.link_claim.lower() in _CHANGEABLE:
            raise ValueError(f"{self.link_claim} can be changed or passed on, so nobody is known by it")
        if not self.private_network and not is_safe_address(self.jwks_uri or self.issuer):
            raise ValueError("keys must come by https, or from this machine")
        return self

    def forms(self, tenant: str) -> frozenset[str]:
        """The values of `iss` that this issuer's tokens for one tenant can have."""
        return frozenset(f.replace(TENANT_MARK, tenant) for f in (self.issuer, self.v1_issuer) if f is not None)

    @property
    def all_tenants(self) -> tuple[str, ...]:
        """The tenants whose tokens are taken."""
        return (self.tenant,) if self.tenant is not None else self.tenants


class ApplicationSettings(BaseModel):
    """An application that may ask on its own, and the spaces that it may be told of, as far as it was granted them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tenant: Tenant = Field(description="the directory of its account")
    account: Text = Field(description="object id of its service principal, or its subject")
    spaces: tuple[Annotated[str, AfterValidator(parse_space)], ...] = Field(
        min_length=1, description="as in project:NAME, team:NAME, scope:ID, kind:wiki, source:teams"
    )

    @property
    def principal(self) -> Principal:
        """Who it is."""
        return user(self.tenant, self.account)


def check_issuers(issuers: Iterable[IssuerSettings]) -> None:
    """Raises ValueError where two issuers have the same form of `iss`, or where accounts of one could be taken for
    accounts of another."""
    forms, by_subject = list[str](), list[str]()
    for issuer in issuers:
        forms += [form for tenant in issuer.all_tenants for form in issuer.forms(tenant)]
        by_subject += issuer.all_tenants if issuer.subject_claim == "sub" else ()
    doubles = sorted({x for found in (forms, by_subject) for x in found if found.count(x) > 1})
    if doubles:
        raise ValueError(f"two issuers share {doubles[0]}")
