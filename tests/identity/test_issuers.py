"""Entra ID of one tenant or many, in both versions of its tokens; Keycloak; any other issuer: by configuration."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pytest

from core.errors import ConfigError, ContextEngineError, ForbiddenError, IdentityError
from core.principals import user
from core.settings import IssuerSettings, load_settings
from query.identity import TokenVerifier
from tests.identity.issuer import (
    ADM,
    AUDIENCE,
    IRIS,
    T1,
    T2,
    TestIssuer,
    ec_key,
    entra,
    entra_v1,
    jwk,
    rsa_key,
    token,
    verifier,
)

V2 = "https://login.microsoftonline.com/{tenantid}/v2.0"
V1 = "https://sts.windows.net/{tenantid}/"


def single(issuer: TestIssuer, **more: Any) -> IssuerSettings:
    """One tenant of Entra ID."""
    given = {"issuer": V2.replace("{tenantid}", T1), "tenant": T1, "audience": (AUDIENCE,), **more}
    return IssuerSettings(jwks_uri=issuer.keys_url, **given)


def many(issuer: TestIssuer, **more: Any) -> IssuerSettings:
    """Two tenants of Entra ID."""
    return IssuerSettings(issuer=V2, tenants=(T1, T2), audience=(AUDIENCE,), jwks_uri=issuer.keys_url, **more)


def realm(issuer: TestIssuer, **more: Any) -> IssuerSettings:
    """A realm of Keycloak whose accounts are its own."""
    given = {"tenant": "sso.example", "subject_claim": "sub", "audience": (AUDIENCE,), **more}
    return IssuerSettings(issuer=issuer.url, **given)


def keycloak(issuer: TestIssuer, **more: Any) -> dict[str, Any]:
    """Claims of a person's token of Keycloak."""
    return {
        "iss": issuer.url, "sub": "F0000000-1111-4222-8333-444444444444", "typ": "Bearer", "azp": "agent", "sid": "s",
        "aud": [AUDIENCE, "account"], "scope": "openid context.read", "preferred_username": "iris", "acr": "1",
        "realm_access": {"roles": ["offline_access"]}, "groups": ["/eng/a"], "email_verified": True, **more,
    }  # fmt: skip


def refused(verify: TokenVerifier, authorization: str) -> str:
    """Why a token is refused."""
    with pytest.raises(ContextEngineError) as caught:
        verify.verify(authorization)
    error = caught.value
    return error.reason.value if isinstance(error, IdentityError) else type(error).__name__


def test_both_versions_of_a_tenants_tokens_are_taken_where_both_are_configured_and_no_other(issuer: TestIssuer) -> None:
    """C032."""
    both = verifier(single(issuer, v1_issuer=V1.replace("{tenantid}", T1)))
    for claims in (entra(), entra_v1()):
        assert both.verify(token(claims)).principal == user(T1, IRIS)
        assert both.verify(token({**claims, "exp": int(time.time()) - 30})).principal == user(T1, IRIS)
        assert refused(both, token({**claims, "exp": int(time.time()) - 360})) == "expired"
        assert refused(both, token({**claims, "tid": T2})) == "wrong_tenant"
    assert refused(both, token(entra(T2))) == "untrusted_issuer"
    assert refused(both, token(entra_v1(T2))) == "untrusted_issuer"
    for common in ("https://login.microsoftonline.com/common/v2.0", "https://sts.windows.net/common/"):
        assert refused(both, token(entra(iss=common))) == "untrusted_issuer"
    assert refused(both, token(entra(ver="1.0"))) == "wrong_token_kind"
    assert refused(both, token(entra_v1(ver="2.0"))) == "wrong_token_kind"
    assert refused(both, token(entra_v1(ver=None))) == "wrong_token_kind"
    assert both.verify(token(entra_v1())).agent == "agent"


def test_the_older_version_is_refused_where_nobody_configured_it(issuer: TestIssuer) -> None:
    assert refused(verifier(single(issuer)), token(entra_v1())) == "untrusted_issuer"


def test_of_many_tenants_only_those_listed_are_taken_each_by_its_own_issuer(issuer: TestIssuer) -> None:
    verify = verifier(many(issuer, v1_issuer=V1))
    for tenant in (T1, T2):
        assert verify.verify(token(entra(tenant))).principal == user(tenant, IRIS)
        assert verify.verify(token(entra_v1(tenant))).tenant == tenant
    stranger = "33333333-0000-4000-8000-000000000003"
    assert refused(verify, token(entra(stranger))) == "untrusted_issuer"
    assert refused(verify, token(entra(iss=V2))) == "untrusted_issuer"
    assert refused(verify, token(entra(T1, tid=T2))) == "wrong_tenant"
    assert refused(verify, token(entra(T1, tid=stranger))) == "wrong_tenant"


def test_a_key_signs_only_for_whom_its_set_says(issuer: TestIssuer) -> None:
    issuer.keys = [
        jwk("any", issuer=V2),
        jwk("first", issuer=V2.replace("{tenantid}", T1)),
        jwk("second", issuer=V2.replace("{tenantid}", T2)),
    ]
    verify = verifier(many(issuer))
    for kid, tenant in (("any", T1), ("any", T2), ("first", T1), ("second", T2)):
        assert verify.verify(token(entra(tenant), kid=kid)).tenant == tenant
    # The other tenant's own key, and claims that are otherwise right.
    for kid, tenant in (("first", T2), ("second", T1)):
        assert refused(verify, token(entra(tenant), kid=kid)) == "bad_signature"


def test_a_key_of_any_issuer_signs_only_for_whom_its_set_says(issuer: TestIssuer) -> None:
    issuer.keys = [jwk("one", issuer=issuer.url), jwk("two", issuer="https://another.example")]
    verify = verifier(realm(issuer))
    assert verify.verify(token(keycloak(issuer))).tenant == "sso.example"
    assert refused(verify, token(keycloak(issuer), kid="two")) == "bad_signature"


def test_an_account_is_its_tenant_and_id_and_never_its_name(issuer: TestIssuer) -> None:
    """C025."""
    names = {"preferred_username": "adm@novaruud.example", "email": "adm@novaruud.example", "email_verified": False}
    names |= {"upn": "adm@novaruud.example", "unique_name": "adm@novaruud.example", "name": "Admin"}
    evil = "0e000000-0000-4000-8000-00000000000e"
    verify = verifier(single(issuer))
    assert refused(verify, token(entra(T2, evil, **names))) == "untrusted_issuer"
    assert refused(verify, token(entra(T1, evil, tid=T2, **names))) == "wrong_tenant"
    assert verify.verify(token(entra(T1, evil, **names))).principal == user(T1, evil) != user(T1, ADM)


def test_a_changed_or_reused_address_changes_no_account(issuer: TestIssuer) -> None:
    """C026: the account stays who it is through a rename, and whoever gets the old address is somebody else."""
    verify = verifier(single(issuer))
    before = verify.verify(token(entra(preferred_username="iris.okonjo@novaruud.example")))
    after = verify.verify(token(entra(preferred_username="iris.brandvik@novaruud.example")))
    heir = verify.verify(token(entra(oid=ADM, preferred_username="iris.okonjo@novaruud.example")))
    assert before.principal == after.principal == user(T1, IRIS)
    assert heir.principal == user(T1, ADM)


def test_ids_meet_in_small_letters_on_both_sides(issuer: TestIssuer) -> None:
    """C029."""
    settings = single(issuer, tenant=T1.upper(), clients=("C1C1C1C1-0000-4000-8000-00000000000C",))
    claims = entra(oid=IRIS.upper(), tid=T1.upper(), azp="c1c1c1c1-0000-4000-8000-00000000000c")
    assert verifier(settings).verify(token(claims)).principal == user(T1, IRIS) == user(T1.upper(), IRIS.upper())


def test_a_token_for_a_sibling_service_is_refused(issuer: TestIssuer) -> None:
    """C105."""
    verify = verifier(single(issuer))
    assert refused(verify, token(entra(aud="api://other-app"))) == "wrong_audience"
    assert refused(verify, token(entra(aud=None))) == "wrong_audience"
    assert refused(verify, token(entra(aud=[]))) == "wrong_audience"
    assert verify.verify(token(entra(aud=["api://other-app", AUDIENCE]))).principal == user(T1, IRIS)


def test_only_listed_agents_may_ask_where_there_is_a_list(issuer: TestIssuer) -> None:
    verify = verifier(single(issuer, clients=("agent",)))
    assert verify.verify(token(entra())).agent == "agent"
    for claims in (entra(azp="another"), entra(azp=None)):
        with pytest.raises(ForbiddenError):
            verify.verify(token(claims))


def test_an_account_of_keycloak_is_its_own_and_of_no_directory(issuer: TestIssuer) -> None:
    verify = verifier(realm(issuer))
    asker = verify.verify(token(keycloak(issuer, oid=ADM, tid=T1)))
    assert asker.principal == "user:sso.example/f0000000-1111-4222-8333-444444444444"
    assert (asker.tenant, asker.agent) == ("sso.example", "agent")
    assert refused(verify, token(keycloak(issuer, aud=["account"]))) == "wrong_audience"
    assert refused(verify, token(keycloak(issuer, typ="ID"))) == "wrong_token_kind"
    assert refused(verify, token(keycloak(issuer, sub=None))) == "wrong_token_kind"
    # Two subjects that differ by case alone would be one principal.
    assert refused(verify, token(keycloak(issuer, sub="Iris"))) == "wrong_token_kind"
    assert refused(verify, token(keycloak(issuer, scope="openid"))) == "ForbiddenError"


def test_only_a_token_that_names_a_directorys_account_is_kept_to_be_exchanged_there(issuer: TestIssuer) -> None:
    assert verifier(single(issuer)).verify(token(entra())).assertion is not None
    linked = verifier(realm(issuer, link_claim="directory_id", link_tenant=T1))
    found = linked.verify(token(keycloak(issuer, directory_id=IRIS)))
    assert (found.principal, found.assertion) == (user(T1, IRIS), None)


def test_an_account_of_keycloak_is_the_directorys_only_where_its_admin_linked_them(issuer: TestIssuer) -> None:
    verify = verifier(realm(issuer, link_claim="directory_id", link_tenant=T1))
    assert verify.verify(token(keycloak(issuer, directory_id=IRIS.upper()))).principal == user(T1, IRIS)
    assert verify.verify(token(keycloak(issuer, email="adm@novaruud.example"))).tenant == "sso.example"
    for link in ("adm@novaruud.example", "adm"):
        assert refused(verify, token(keycloak(issuer, directory_id=link))) == "wrong_token_kind"
    assert refused(verify, token(keycloak(issuer, directory_id=[IRIS]))) == "malformed_token"


def test_each_issuer_takes_its_own_tokens_only_and_their_accounts_never_meet(issuer: TestIssuer) -> None:
    verify = verifier(single(issuer), realm(issuer))
    ours, theirs = verify.verify(token(entra())), verify.verify(token(keycloak(issuer, sub=IRIS)))
    assert ours.principal != theirs.principal
    assert refused(verify, token(keycloak(issuer, iss=entra()["iss"]))) == "wrong_tenant"


@pytest.mark.parametrize("algorithm", ["RS256", "RS512", "PS256", "ES256"])
def test_an_algorithm_is_taken_where_it_is_configured_and_fits_the_key(issuer: TestIssuer, algorithm: str) -> None:
    issuer.keys = [jwk("one"), jwk("curve", ec_key("curve"))]
    key, kid = (ec_key("curve"), "curve") if algorithm.startswith("ES") else (rsa_key("one"), "one")
    good = token(entra(), kid=kid, key=key, alg=algorithm)
    assert verifier(single(issuer, algorithms=(algorithm,))).verify(good).principal == user(T1, IRIS)
    assert refused(verifier(single(issuer, algorithms=("RS384",))), good) == "bad_signature"
    issuer.keys = [jwk("one", alg="RS384"), jwk("curve", ec_key("curve"), alg="ES512")]
    assert refused(verifier(single(issuer, algorithms=(algorithm,))), good) == "bad_signature"


def test_a_key_that_is_too_short_signs_nothing(issuer: TestIssuer) -> None:
    issuer.keys = [jwk("short", rsa_key("short", 1024))]
    assert refused(verifier(single(issuer)), token(entra(), kid="short", key=rsa_key("short", 1024))) == "bad_signature"


def test_a_token_without_a_key_id_is_refused(issuer: TestIssuer) -> None:
    assert refused(verifier(single(issuer)), token(entra(), kid=None)) == "bad_signature"
    assert issuer.fetched == 0


def test_keys_are_found_by_the_discovery_document_of_just_that_issuer(issuer: TestIssuer) -> None:
    assert verifier(realm(issuer)).verify(token(keycloak(issuer))).tenant == "sso.example"
    assert (issuer.discovered, issuer.fetched) == (1, 1)
    issuer.issuer_told = "https://another.example"
    assert refused(verifier(realm(issuer)), token(keycloak(issuer))) == "StoreUnavailableError"
    issuer.issuer_told, issuer.keys_told = None, "http://keys.example/keys"
    assert refused(verifier(realm(issuer)), token(keycloak(issuer))) == "StoreUnavailableError"
    assert issuer.fetched == 1


GOOD: Mapping[str, Any] = {"issuer": V2.replace("{tenantid}", T1), "tenant": T1, "audience": [AUDIENCE]}
UNSAFE: Mapping[str, tuple[Mapping[str, Any], ...]] = {
    "no audience": ({**GOOD, "audience": []},),
    "an empty audience": ({**GOOD, "audience": [" "]},),
    "no issuer": ({**GOOD, "issuer": ""},),
    "no tenant": ({**GOOD, "tenant": None},),
    "tenants of one issuer": ({**GOOD, "tenants": [T2]},),
    "a tenant that is a path": ({**GOOD, "tenant": "a/b"},),
    "an algorithm with a shared secret": ({**GOOD, "algorithms": ["RS256", "HS256"]},),
    "no signature": ({**GOOD, "algorithms": ["none"]},),
    "no algorithm": ({**GOOD, "algorithms": []},),
    "everybody's endpoint": ({**GOOD, "issuer": "https://login.microsoftonline.com/common/v2.0"},),
    "everybody's older endpoint": ({**GOOD, "v1_issuer": "https://sts.windows.net/common/"},),
    "an older form of another tenant": ({**GOOD, "v1_issuer": f"https://sts.windows.net/{T2}/"},),
    "many tenants without a list": ({"issuer": V2, "audience": [AUDIENCE], "jwks_uri": "https://k.example"},),
    "many tenants without keys": ({"issuer": V2, "tenants": [T1], "audience": [AUDIENCE]},),
    "many tenants by name": ({**GOOD, "issuer": V2, "tenant": None, "tenants": ["work"], "jwks_uri": "https://k.ex"},),
    "keys by plain HTTP": ({**GOOD, "jwks_uri": "http://keys.example/keys"},),
    "keys by a file": ({**GOOD, "jwks_uri": "file:///etc/keys"},),
    "an issuer by plain HTTP": ({**GOOD, "issuer": "http://sso.example/realms/work"},),
    "subjects in a directory": ({**GOOD, "subject_claim": "sub"},),
    "a link by e-mail": (
        {**GOOD, "tenant": "sso", "subject_claim": "sub", "link_claim": "email", "link_tenant": T1},
    ),
    "a link to nowhere": ({**GOOD, "tenant": "sso", "subject_claim": "sub", "link_claim": "directory_id"},),
    "a link of what has accounts": ({**GOOD, "link_claim": "directory_id", "link_tenant": T1},),
    "the same issuer twice": (GOOD, GOOD),
    "two issuers whose subjects could meet": (
        {**GOOD, "issuer": "https://a.example", "tenant": "sso", "subject_claim": "sub"},
        {**GOOD, "issuer": "https://b.example", "tenant": "SSO", "subject_claim": "sub"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("issuers", UNSAFE.values(), ids=UNSAFE)
def test_what_is_not_safe_can_not_be_configured(issuers: tuple[Mapping[str, Any], ...]) -> None:
    load_settings(environ={}, overrides={"issuers": [GOOD]})
    with pytest.raises(ConfigError):
        load_settings(environ={}, overrides={"issuers": list(issuers)})


def test_nothing_verifies_without_an_issuer() -> None:
    with pytest.raises(ConfigError, match="issuers"):
        verifier()
