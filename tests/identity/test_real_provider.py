"""Tokens of a provider that nobody here wrote (npm `oidc-provider`) are accepted and refused as they should be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from core.errors import ForbiddenError, IdentityError
from core.principals import user
from core.settings import ApplicationSettings, IssuerSettings
from query.identity import TokenVerifier
from tests.identity.issuer import IRIS, T1, verifier
from tests.identity.real_provider import OTHER, OURS, Provider, Tokens, provider
from tests.support.node import node_with

MACHINE = ApplicationSettings(tenant="provider", account="machine", spaces=("project:Harbor",))


@pytest.fixture(scope="module")
def node() -> Path:
    return node_with("oidc-provider")


@pytest.fixture(scope="module")
def running(node: Path) -> Iterator[Provider]:
    with provider(node, directory_id=IRIS) as made:
        yield made


@pytest.fixture(scope="module")
def signed_in(running: Provider) -> Tokens:
    return running.sign_in("iris")


def settings(issuer: str, **more: object) -> IssuerSettings:
    """It as an issuer whose accounts are its own."""
    given = {"tenant": "provider", "subject_claim": "sub", "audience": (OURS,), **more}
    return IssuerSettings(issuer=issuer, **given)  # type: ignore[arg-type]


def why(verify: TokenVerifier, token: str) -> str:
    """Why a token is refused."""
    with pytest.raises((IdentityError, ForbiddenError)) as refused:
        verify.verify(f"Bearer {token}")
    return refused.value.reason.value if isinstance(refused.value, IdentityError) else "forbidden"


def test_a_persons_token_is_theirs_and_names_their_agent(running: Provider, signed_in: Tokens) -> None:
    asker = verifier(settings(running.issuer)).verify(f"Bearer {signed_in.access}")
    assert (asker.principal, asker.agent) == (user("provider", "iris"), "agent")
    assert (asker.application, asker.scopes) == (False, {"context.read"})


def test_a_person_is_the_directorys_account_where_the_provider_says_which(running: Provider, signed_in: Tokens) -> None:
    linked = settings(running.issuer, link_claim="directory_id", link_tenant=T1)
    assert verifier(linked).verify(f"Bearer {signed_in.access}").principal == user(T1, IRIS)


def test_a_token_for_another_service_is_refused(running: Provider) -> None:
    other = running.sign_in("iris", resource=OTHER)
    assert why(verifier(settings(running.issuer)), other.access) == "wrong_audience"
    assert verifier(settings(running.issuer, audience=(OTHER,))).verify(f"Bearer {other.access}").agent == "agent"


def test_an_id_token_is_refused_even_where_its_audience_is_ours(running: Provider, signed_in: Tokens) -> None:
    assert why(verifier(settings(running.issuer)), signed_in.identity) == "wrong_audience"
    assert why(verifier(settings(running.issuer, audience=("agent",))), signed_in.identity) == "wrong_token_kind"


def test_another_issuers_token_is_refused_without_asking_it(running: Provider, signed_in: Tokens) -> None:
    assert why(verifier(settings("http://127.0.0.1:9")), signed_in.access) == "untrusted_issuer"


def test_a_token_without_the_scope_is_refused(running: Provider) -> None:
    admin = running.sign_in("iris", scope="openid context.admin")
    assert why(verifier(settings(running.issuer)), admin.access) == "forbidden"


def test_an_application_on_its_own_needs_a_policy(running: Provider) -> None:
    machine = running.machine()
    assert why(verifier(settings(running.issuer)), machine) == "forbidden"
    asker = verifier(settings(running.issuer), applications=[MACHINE]).verify(f"Bearer {machine}")
    assert (asker.principal, asker.application) == (user("provider", "machine"), True)
    assert (asker.agent, asker.spaces) == (None, {"project:harbor"})
    powerless = running.machine(scope="context.admin")
    assert why(verifier(settings(running.issuer), applications=[MACHINE]), powerless) == "forbidden"


@pytest.mark.parametrize(("skew", "reason"), [(-600, "expired"), (600, "not_yet_valid")])
def test_a_token_of_another_time_is_refused(node: Path, skew: int, reason: str) -> None:
    with provider(node, skew=skew, directory_id=IRIS) as wrong:
        assert why(verifier(settings(wrong.issuer)), wrong.machine()) == reason


def test_a_restart_with_new_keys_locks_nobody_out_and_lets_nobody_in(node: Path) -> None:
    clock = [0.0]
    with provider(node, directory_id=IRIS) as first:
        verify = verifier(settings(first.issuer), monotonic=lambda: clock[0], applications=[MACHINE])
        before = first.machine()
        assert verify.verify(f"Bearer {before}").application
    with provider(node, port=first.port, directory_id=IRIS) as second:
        assert second.issuer == first.issuer
        clock[0] += 60
        assert verify.verify(f"Bearer {second.machine()}").application
        assert why(verify, before) == "bad_signature"
