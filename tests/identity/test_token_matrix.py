"""Each token of the table is answered as the table says, by the one verifier that HTTP and MCP ask."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from core.errors import ContextEngineError, ForbiddenError, IdentityError
from core.principals import user
from core.settings import IssuerSettings
from fixtures.sandbox.oidc import AUDIENCE
from fixtures.sandbox.server import SandboxServer
from query.identity import TokenVerifier
from tests.sandbox import small
from tests.support.token_cases import TOKEN_CASES, TokenCase

# A verifier knows tokens; whether there is such an account is the directory's to say.
DIRECTORY = {"unknown_account", "disabled_account"}
CASES = [case for case in TOKEN_CASES if case.reason not in DIRECTORY]


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxServer]:
    with SandboxServer(small.world(), tmp_path_factory.mktemp("issuer"), remember=False) as server:
        yield server


@pytest.fixture(scope="module")
def verifier(sandbox: SandboxServer) -> TokenVerifier:
    issuer = IssuerSettings(issuer=sandbox.issuer, tenant=small.TENANT, audience=(AUDIENCE,))
    return TokenVerifier([issuer], required_scope="context.read", required_role="context.read")


def answer(verifier: TokenVerifier, authorization: str | None) -> tuple[int, str | None]:
    """Status and reason, as the API tells them."""
    try:
        verifier.verify(authorization)
    except IdentityError as e:
        return 401, e.reason.value
    except ForbiddenError:
        return 403, "forbidden"
    return 200, None


@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_token_is_answered_as_the_table_says(
    sandbox: SandboxServer, verifier: TokenVerifier, case: TokenCase
) -> None:
    assert answer(verifier, case.authorization(sandbox, "ann")) == (case.status, case.reason)


@pytest.mark.parametrize("case", [c for c in CASES if c.status == 200], ids=str)
def test_whoever_is_believed_is_the_account_of_the_token_and_nobody_else(
    sandbox: SandboxServer, verifier: TokenVerifier, case: TokenCase
) -> None:
    asker = verifier.verify(case.authorization(sandbox, "ann"))
    assert asker.principal == user(small.TENANT, sandbox.state.oid("ann"))
    assert (asker.tenant, asker.application, asker.spaces) == (small.TENANT, False, None)
    assert "context.admin" not in asker.scopes or "more scopes" in case.name


def test_person_and_agent_are_both_known(sandbox: SandboxServer, verifier: TokenVerifier) -> None:
    asker = verifier.verify(f"Bearer {sandbox.token('ann', overrides={'azp': 'AGENT-7'})}")
    assert (asker.principal, asker.agent) == (user(small.TENANT, sandbox.state.oid("ann")), "AGENT-7")


@pytest.mark.parametrize(
    "text", ["Bearer ", "Bearer  \t", "Bearer " + "a" * 2**20, "Bearer " + "." * 2**20, "Bearer a.b.\x00"]
)
def test_no_header_is_too_odd_to_be_refused(verifier: TokenVerifier, text: str) -> None:
    assert answer(verifier, text) in [(401, "missing_token"), (401, "malformed_token")]


def test_no_refusal_says_what_the_token_said(sandbox: SandboxServer, verifier: TokenVerifier) -> None:
    for case in CASES:
        authorization = case.authorization(sandbox, "ann")
        if case.status == 200 or authorization is None:
            continue
        with pytest.raises(ContextEngineError) as refused:
            verifier.verify(authorization)
        told = f"{refused.value} {refused.value!r}"
        assert not any(len(part) > 20 and part in told for part in authorization.split()[-1].split(".")), case.name
