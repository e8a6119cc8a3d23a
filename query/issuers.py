"""Issuers: what a trusted one's tokens must look like, and of which account they speak.

An account is (tenant, oid) for Entra ID, in any cloud and either version of its tokens, and (a name of our own for the
issuer, sub) for any other; where the other's administrator made a link to a directory's account, it is that. Names of
issuers are never GUIDs and directories always are, so the accounts of two can't meet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from core.errors import IdentityError, IdentityReason
from core.principals import Principal, user
from core.trust import TENANT_MARK, IssuerSettings, fold_guid, is_guid
from query.claims import Claims
from query.keys import KeyCache, SigningKey

_V1, _V2 = "1.0", "2.0"


@dataclass(frozen=True)
class TrustedIssuer:
    """One configured issuer. `accepted` maps each value of `iss` to the tenant whose tokens have it."""

    settings: IssuerSettings
    keys: KeyCache
    accepted: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        forms = {form: tenant for tenant in self.settings.all_tenants for form in self.settings.forms(tenant)}
        object.__setattr__(self, "accepted", forms)

    def check_key(self, key: SigningKey, form: Any, tenant: Any) -> None:
        """Raise IdentityError where the key's own set says that it signs for somebody else.

        Entra publishes the keys of all tenants together, each with whom it signs for.
        """
        if key.issuer is None:
            return
        meant = key.issuer.replace(TENANT_MARK, tenant if isinstance(tenant, str) else TENANT_MARK)
        if meant not in self.settings.forms(self.accepted[form]):
            raise IdentityError(IdentityReason.BAD_SIGNATURE)

    def account_of(self, claims: Claims) -> tuple[Principal, str]:
        """Return the account that the token speaks of, and its directory. Raises IdentityError where it is another
        tenant's, or names no account in the way that this issuer does."""
        self._check_version(claims)
        tenant = self.accepted[claims.issuer]
        if self.settings.subject_claim == "sub":
            return self._by_subject(claims, tenant)
        if claims.tenant is None or claims.tenant.lower() != tenant:
            raise IdentityError(IdentityReason.WRONG_TENANT)
        return _by_guid(tenant, claims.object_id)

    def takes_agent(self, client: str | None) -> bool:
        """Whether tokens that this application was given are taken."""
        known = {fold_guid(c) for c in self.settings.clients}
        return not known or client in known

    def _by_subject(self, claims: Claims, tenant: str) -> tuple[Principal, str]:
        if claims.linked is not None and self.settings.link_tenant is not None:
            return _by_guid(self.settings.link_tenant, claims.linked)
        subject = fold_guid(claims.subject or "")
        # Subjects of OpenID Connect differ by case and principals do not: what would be folded names nobody here.
        if not subject or user(tenant, subject) != f"user:{tenant}/{subject}":
            raise IdentityError(IdentityReason.WRONG_KIND)
        return user(tenant, subject), tenant

    def _check_version(self, claims: Claims) -> None:
        """The two forms of `iss` belong to the two versions of Entra's tokens, of which only the newer may be
        silent about it (other issuers know no versions)."""
        v1 = self.settings.v1_issuer is not None and claims.issuer not in self._newer()
        if claims.version not in ((_V1,) if v1 else (_V2, None)):
            raise IdentityError(IdentityReason.WRONG_KIND)

    def _newer(self) -> frozenset[str]:
        return frozenset(self.settings.issuer.replace(TENANT_MARK, t) for t in self.settings.all_tenants)


def _by_guid(tenant: str, account: str | None) -> tuple[Principal, str]:
    if account is None or not is_guid(account):
        raise IdentityError(IdentityReason.WRONG_KIND)
    return user(tenant, account), tenant
