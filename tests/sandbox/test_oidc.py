"""The issuer's tokens: what a verifier that knows nothing of the sandbox makes of them."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest

from core.errors import ConfigError
from fixtures.sandbox.oidc import AUDIENCE
from fixtures.sandbox.server import SandboxServer
from tests.sandbox import small
from tests.sandbox.small import Serve

pytest_plugins = ["tests.sandbox.live"]


@pytest.fixture
def server(serve: Serve) -> SandboxServer:
    return serve(small.world())


def verify(server: SandboxServer, token: str, audience: str = AUDIENCE) -> dict[str, Any]:
    """Verify as any relying party does: discovery, keys, signature, issuer, audience, times."""
    config = httpx.get(f"{server.issuer}/.well-known/openid-configuration", trust_env=False).json()
    assert config["issuer"] == server.issuer
    keys = jwt.PyJWKSet.from_dict(httpx.get(config["jwks_uri"], trust_env=False).json())
    kid = jwt.get_unverified_header(token)["kid"]
    key = next((key for key in keys.keys if key.key_id == kid), None)
    if key is None:
        raise jwt.InvalidKeyError(kid)
    claims: dict[str, Any] = jwt.decode(token, key, algorithms=["RS256"], audience=audience, issuer=config["issuer"])
    return claims


def test_a_persons_token_has_entras_claims(server: SandboxServer) -> None:
    claims = verify(server, server.token("ann"))
    assert claims["oid"] == server.state.oid("ann")
    assert claims["tid"] == small.TENANT
    assert claims["sub"] != claims["oid"]
    assert (claims["scp"], claims["ver"], claims["acct"]) == ("context.read", "2.0", 0)
    assert (claims["name"], claims["preferred_username"]) == ("Ann Arbor", "ann@small.example")
    ids = server.state.ids
    assert claims["groups"] == sorted([ids.group("everyone"), ids.group("staff"), ids.group("inner")])
    assert verify(server, server.token("gil"))["acct"] == 1


def test_a_service_principals_token_is_app_only(server: SandboxServer) -> None:
    claims = verify(server, server.token("bot"))
    assert "scp" not in claims
    assert "preferred_username" not in claims
    assert (claims["idtyp"], claims["roles"], claims["sub"]) == ("app", ["context.read"], claims["oid"])


def test_too_many_groups_are_an_overage_that_names_a_host_not_to_follow(server: SandboxServer) -> None:
    url = f"{server.base_url}/_sandbox/groups-limit"
    assert httpx.post(url, json={"groups": 2}, trust_env=False).status_code == 200
    claims = verify(server, server.token("ann"))
    assert "groups" not in claims
    source = claims["_claim_names"]["groups"]
    assert server.base_url not in claims["_claim_sources"][source]["endpoint"]


@pytest.mark.parametrize(
    ("odd", "error"),
    [
        ({"expires_in": -60}, jwt.ExpiredSignatureError),
        ({"audience": "api://somebody-else"}, jwt.InvalidAudienceError),
        ({"overrides": {"iss": "https://evil.example"}}, jwt.InvalidIssuerError),
        ({"overrides": {"nbf": 9_999_999_999}}, jwt.ImmatureSignatureError),
        ({"drop": ["aud"]}, jwt.MissingRequiredClaimError),
        ({"signing": "none"}, jwt.InvalidTokenError),
        ({"signing": "hs256_public_key"}, jwt.InvalidTokenError),
        ({"signing": "foreign_key"}, jwt.InvalidSignatureError),
        ({"signing": "tampered"}, jwt.InvalidSignatureError),
        ({"kid": "unheard-of"}, jwt.InvalidKeyError),
    ],
)
def test_bad_tokens_of_every_kind_are_refused(server: SandboxServer, odd: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        verify(server, server.token("ann", **odd))


def test_an_unsigned_token_has_an_empty_signature(server: SandboxServer) -> None:
    assert server.token("ann", signing="none").endswith(".")


def test_after_rotation_old_tokens_hold_until_the_old_key_is_dropped(server: SandboxServer) -> None:
    old = server.token("ann")
    server.rotate_keys()
    new = server.token("ann")
    assert jwt.get_unverified_header(old)["kid"] != jwt.get_unverified_header(new)["kid"]
    assert verify(server, old)["oid"] == verify(server, new)["oid"]
    httpx.post(f"{server.base_url}/_sandbox/rotate-keys", json={"drop_old": True}, trust_env=False)
    for gone in (old, new):
        with pytest.raises(jwt.InvalidKeyError):
            verify(server, gone)
    verify(server, server.token("ann"))


def test_tokens_of_one_run_hold_in_the_next(tmp_path: Path) -> None:
    with SandboxServer(small.world(), tmp_path) as first:
        token, issuer = first.token("ann"), first.issuer
    with SandboxServer(small.world(), tmp_path) as second:
        assert second.issuer == issuer
        assert verify(second, token)["oid"] == second.state.oid("ann")


def test_the_keys_are_readable_by_their_owner_only(server: SandboxServer) -> None:
    assert stat.S_IMODE(os.stat(server.folder / "oidc-keys.json").st_mode) == 0o600


def test_tokens_over_http(server: SandboxServer) -> None:
    url = f"{server.base_url}/_sandbox/token"
    made = httpx.post(url, json={"person": "person:ben"}, trust_env=False).json()
    assert verify(server, made["access_token"])["oid"] == server.state.oid("ben")
    assert httpx.post(url, json={"person": "zed"}, trust_env=False).status_code == 404
    assert httpx.post(url, json={"person": "ben", "as": "ann"}, trust_env=False).status_code == 422
    with pytest.raises(ConfigError, match="no person 'zed'"):
        server.token("zed")


def credentials(server: SandboxServer, client: str, secret: str, scope: str) -> httpx.Response:
    data = {"grant_type": "client_credentials", "client_id": client, "client_secret": secret, "scope": scope}
    url = f"{server.base_url}/oidc/{small.TENANT}/oauth2/v2.0/token"
    return httpx.post(url, data=data, trust_env=False)


def test_the_connector_gets_a_token_for_graph_by_client_credentials(server: SandboxServer) -> None:
    scope = "https://graph.microsoft.com/.default"
    made = credentials(server, "context-engine-connector", "sandbox-secret", scope)
    claims = verify(server, made.json()["access_token"], "https://graph.microsoft.com")
    assert "ChannelMessage.Read.All" in claims["roles"]
    headers = {"Authorization": f"Bearer {made.json()['access_token']}"}
    assert httpx.get(f"{server.graph_url}/users", headers=headers, trust_env=False).status_code == 200
    own = credentials(server, "context-engine-connector", "sandbox-secret", f"{server.base_url}/graph/.default")
    headers = {"Authorization": f"Bearer {own.json()['access_token']}"}
    assert httpx.get(f"{server.graph_url}/users", headers=headers, trust_env=False).status_code == 200


def test_a_service_principal_of_the_world_signs_in_on_its_own(server: SandboxServer) -> None:
    made = credentials(server, "bot", "sandbox-secret", f"{AUDIENCE}/.default").json()
    assert verify(server, made["access_token"])["oid"] == server.state.oid("bot")


@pytest.mark.parametrize(
    ("client", "secret", "scope", "status", "error"),
    [
        ("context-engine-connector", "wrong", "https://graph.microsoft.com/.default", 401, "invalid_client"),
        ("ann", "sandbox-secret", "https://graph.microsoft.com/.default", 401, "invalid_client"),
        ("context-engine-connector", "sandbox-secret", "https://graph.microsoft.com", 400, "invalid_scope"),
    ],
)
def test_bad_client_credentials_are_refused(
    server: SandboxServer, client: str, secret: str, scope: str, status: int, error: str
) -> None:
    answer = credentials(server, client, secret, scope)
    assert (answer.status_code, answer.json()["error"]) == (status, error)
