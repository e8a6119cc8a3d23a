"""Tokens good and bad, and what each must be answered: one table for every way in.

Each case makes the value of an Authorization header for a person of a sandbox's world. HTTP and MCP ask the same
verifier, so the same table holds for both.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from fixtures.sandbox.server import SandboxServer

Maker = Callable[[SandboxServer, str], str | None]

OTHER_TENANT: Final = "00000000-0000-4000-8000-000000000bad"
# Entra's tenant of consumer accounts.
CONSUMERS: Final = "9188040d-6c67-4c5b-b112-36a304b66dad"


@dataclass(frozen=True)
class TokenCase:
    """`status` is the answer's; `reason` the last part of the problem's type, None where the token is good.
    `authorization` makes the header's value for a person; None: there is no such header."""

    name: str
    status: int
    reason: str | None
    authorization: Maker

    def __str__(self) -> str:
        return self.name


def claims(**overrides: Any) -> Maker:
    """The person's token with other claims."""
    return lambda sandbox, person: f"Bearer {sandbox.token(person, overrides=overrides)}"


def minted(**odd: Any) -> Maker:
    """The person's token, with keywords of the sandbox's issuer."""
    return lambda sandbox, person: f"Bearer {sandbox.token(person, **odd)}"


def text(value: str | None) -> Maker:
    """The same for everybody."""
    return lambda _, __: value


def later(claim: str, seconds: int) -> Maker:
    """A claim so many seconds from now."""
    return lambda sandbox, person: f"Bearer {sandbox.token(person, overrides={claim: int(time.time()) + seconds})}"


def encoded(header: Any, payload: Any) -> str:
    """A token of any header and payload, signed by nobody."""
    parts = (x if isinstance(x, bytes) else json.dumps(x).encode() for x in (header, payload, b"sign"))
    return ".".join(base64.urlsafe_b64encode(x).rstrip(b"=").decode() for x in parts)


def _capitals(sandbox: SandboxServer, person: str) -> str:
    oid, tenant = sandbox.state.oid(person), str(sandbox.state.tenant_id)
    return f"Bearer {sandbox.token(person, overrides={'oid': oid.upper(), 'tid': tenant.upper()})}"


def _other_issuer(form: str) -> Maker:
    def make(sandbox: SandboxServer, person: str) -> str:
        issuer = form.format(tenant=sandbox.state.tenant_id, other=OTHER_TENANT, root=sandbox.issuer)
        return f"Bearer {sandbox.token(person, overrides={'iss': issuer})}"

    return make


def _application(**overrides: Any) -> Maker:
    """A token of the person's account with no person behind it."""

    def make(sandbox: SandboxServer, person: str) -> str:
        own = {"sub": sandbox.state.oid(person), "roles": ["context.read"], **overrides}
        return f"Bearer {sandbox.token(person, overrides=own, drop=['scp', 'name', 'preferred_username'])}"

    return make


def _another(kind: str, *, enabled: bool = True) -> Maker:
    """The token of somebody else of the world."""

    def make(sandbox: SandboxServer, _: str) -> str:
        people = sandbox.state.world.people
        found = [k for k, p in people.items() if p.kind == kind and sandbox.state.enabled(k) is enabled]
        return f"Bearer {sandbox.token(found[0])}"

    return make


def _padded(sandbox: SandboxServer, person: str) -> str:
    return f"Bearer {sandbox.token(person, overrides={'padding': 'x' * 24 * 1024})}"


def _id_token(sandbox: SandboxServer, person: str) -> str:
    own = {"nonce": "n-0S6_WzA2Mj", "at_hash": "77QmUPtjPfzWtF2AnpK9RQ"}
    return f"Bearer {sandbox.token(person, overrides=own, drop=['scp', 'azp'])}"


_HS256: Final = {"alg": "HS256", "typ": "JWT"}
_MANY: Final = {"groups": [f"00000000-0000-4000-8000-{n:012}" for n in range(150)]}
_OVERAGE: Final = {
    "_claim_names": {"groups": "src1"},
    "_claim_sources": {"src1": {"endpoint": "https://graph.windows.net.token-thief.example/me/getMemberObjects"}},
}

GOOD: Final = (
    TokenCase("a person's token", 200, None, minted()),
    TokenCase("ours is one of its audiences", 200, None, claims(aud=["api://other-app", "api://context-engine"])),
    TokenCase("expired by half a minute", 200, None, minted(expires_in=-30)),
    TokenCase("issued in half a minute", 200, None, later("iat", 30)),
    TokenCase("the account and tenant in capitals", 200, None, _capitals),
    TokenCase("an access token by its type", 200, None, minted(headers={"typ": "at+jwt"})),
    TokenCase("no type at all", 200, None, minted(headers={"typ": None})),
    TokenCase("a key of its own in the header, unread", 200, None, minted(headers={"jku": "https://x.example/keys"})),
    TokenCase("more groups than it can hold", 200, None, minted(overrides=_OVERAGE, drop=["groups"])),
    TokenCase("groups that the directory does not know", 200, None, claims(**_MANY)),
    TokenCase(
        "claims that nobody knows", 200, None, claims(xms_new={"a": [1]}, ctry="NL", role="admin", is_admin=True)
    ),
    TokenCase("roles of a person, unread", 200, None, claims(roles=["context.admin"], wids=["62e90394"])),
    TokenCase("more scopes than needed", 200, None, minted(scopes=["openid", "context.read", "context.admin"])),
    TokenCase("both claims of scopes, agreeing", 200, None, claims(scope="context.read")),
    TokenCase("the scheme in small letters", 200, None, lambda s, p: f"bearer {s.token(p)}"),
)

BAD: Final = (
    TokenCase("no header", 401, "missing_token", text(None)),
    TokenCase("another scheme", 401, "missing_token", text("Basic YWRtaW46YWRtaW4=")),
    TokenCase("a scheme without a token", 401, "missing_token", text("Bearer")),
    TokenCase("no token at all", 401, "malformed_token", text("Bearer not.a.token")),
    TokenCase("two parts", 401, "malformed_token", text("Bearer abc.def")),
    TokenCase("five parts (encrypted)", 401, "malformed_token", text("Bearer a.b.c.d.e")),
    TokenCase("larger than any token", 401, "malformed_token", _padded),
    TokenCase("a payload that is a list", 401, "malformed_token", text(f"Bearer {encoded(_HS256, [1])}")),
    TokenCase("a header that is a list", 401, "malformed_token", text(f"Bearer {encoded([1], {})}")),
    TokenCase("nested without end", 401, "malformed_token", text(f"Bearer {encoded(_HS256, b'[' * 8000)}")),
    TokenCase("a payload that is no UTF-8", 401, "malformed_token", text(f"Bearer {encoded(_HS256, bytes([200]))}")),
    TokenCase("an issuer that is a list", 401, "untrusted_issuer", text(f"Bearer {encoded(_HS256, {'iss': ['x']})}")),
    TokenCase("unsigned", 401, "bad_signature", minted(signing="none")),
    TokenCase("signed with the public key as a secret", 401, "bad_signature", minted(signing="hs256_public_key")),
    TokenCase("signed by somebody else", 401, "bad_signature", minted(signing="foreign_key")),
    TokenCase("changed afterwards", 401, "bad_signature", minted(signing="tampered")),
    TokenCase("an unknown key", 401, "bad_signature", minted(kid="no-such-key")),
    TokenCase("a key id that is a path", 401, "bad_signature", minted(kid="../../../../dev/null")),
    TokenCase("a critical header", 401, "malformed_token", minted(headers={"crit": ["exp"], "exp": 1})),
    TokenCase("another type", 401, "wrong_token_kind", minted(headers={"typ": "logout+jwt"})),
    TokenCase("another issuer", 401, "untrusted_issuer", claims(iss="https://login.example/other/v2.0")),
    TokenCase("an issuer with a slash more", 401, "untrusted_issuer", _other_issuer("{root}/")),
    TokenCase("another tenant's issuer", 401, "untrusted_issuer", _other_issuer("https://sts.windows.net/{other}/")),
    TokenCase("the older issuer", 401, "untrusted_issuer", _other_issuer("https://sts.windows.net/{tenant}/")),
    TokenCase(
        "everybody's issuer", 401, "untrusted_issuer", claims(iss="https://login.microsoftonline.com/common/v2.0")
    ),
    TokenCase("another tenant", 401, "wrong_tenant", claims(tid=OTHER_TENANT)),
    TokenCase("the consumers' tenant", 401, "wrong_tenant", claims(tid=CONSUMERS)),
    TokenCase("no tenant", 401, "wrong_tenant", minted(drop=["tid"])),
    TokenCase("another audience", 401, "wrong_audience", minted(audience="api://other-app")),
    TokenCase("an audience that begins like ours", 401, "wrong_audience", minted(audience="api://context-engine.evil")),
    TokenCase("other audiences", 401, "wrong_audience", claims(aud=["api://other-app", "api://context-engine/"])),
    TokenCase("no audience", 401, "wrong_audience", minted(drop=["aud"])),
    TokenCase("expired by six minutes", 401, "expired", minted(expires_in=-360)),
    TokenCase("without an expiry", 401, "malformed_token", minted(drop=["exp"])),
    TokenCase("an expiry that is no number", 401, "malformed_token", claims(exp="tomorrow")),
    TokenCase("an expiry without end", 401, "malformed_token", claims(exp=float("inf"))),
    TokenCase("an expiry past all numbers", 401, "malformed_token", claims(exp=10**400)),
    TokenCase("without a time of issue", 401, "malformed_token", minted(drop=["iat"])),
    TokenCase("issued in ten minutes", 401, "not_yet_valid", later("iat", 600)),
    TokenCase("valid in ten minutes", 401, "not_yet_valid", later("nbf", 600)),
    TokenCase("an id token", 401, "wrong_token_kind", _id_token),
    TokenCase("a refresh token of Keycloak", 401, "wrong_token_kind", claims(typ="Refresh")),
    TokenCase("an id token of Cognito", 401, "wrong_token_kind", claims(token_use="id")),
    TokenCase("an older version", 401, "wrong_token_kind", claims(ver="1.0")),
    TokenCase("bound to a key", 401, "wrong_token_kind", claims(cnf={"jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2"})),
    TokenCase("a chain of actors", 401, "wrong_token_kind", claims(act={"sub": "somebody"})),
    TokenCase("no account", 401, "wrong_token_kind", minted(drop=["oid"])),
    TokenCase("an account that is no id", 401, "wrong_token_kind", claims(oid="adm@novaruud.example")),
    TokenCase("an account that is a list", 401, "malformed_token", claims(oid=["a", "b"])),
    TokenCase("scopes that contradict each other", 401, "malformed_token", claims(scope="context.admin")),
    TokenCase("agents that contradict each other", 401, "malformed_token", claims(client_id="another-agent")),
    TokenCase("an agent that is no text", 401, "malformed_token", claims(azp="agent-\ud800")),
    TokenCase("an unknown account", 401, "unknown_account", claims(oid="00000000-0000-4000-8000-00000000dead")),
    TokenCase("a disabled account", 401, "disabled_account", _another("member", enabled=False)),
    TokenCase("without the scope", 403, "forbidden", minted(scopes=["user.read"])),
    TokenCase("no scopes", 403, "forbidden", minted(drop=["scp"])),
    TokenCase("a scope that begins like ours", 403, "forbidden", minted(scopes=["context.read.all"])),
    TokenCase("an application on its own", 403, "forbidden", _another("service")),
    TokenCase("an application by its shape", 403, "forbidden", _application()),
    TokenCase("an application that says so", 403, "forbidden", _application(idtyp="app", scp="context.read")),
    TokenCase("an application by RFC 9068", 403, "forbidden", claims(sub="agent-7", azp="agent-7")),
    TokenCase("a service account of Keycloak", 403, "forbidden", claims(preferred_username="service-account-reports")),
)

TOKEN_CASES: Final = GOOD + BAD
