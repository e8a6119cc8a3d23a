"""Every claim that can influence anything is classified; nothing else in a token changes anything."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.errors import IdentityError
from query import claims as module
from query.claims import CLASSIFIED, Claims, Use, read_claims
from tests.identity.issuer import entra

PERSON = {**entra(), "aud": "api://context-engine", "exp": 2, "iat": 1, "azp": "agent"}
APPLICATION = {**{k: v for k, v in PERSON.items() if k != "scp"}, "sub": PERSON["oid"], "roles": ["context.read"]}
KEYCLOAK = {
    "iss": "https://sso.example/realms/work", "sub": "f0000000-1111-4222-8333-444444444444", "typ": "Bearer",
    "azp": "agent", "scope": "openid context.read", "preferred_username": "iris", "exp": 2, "iat": 1,
}  # fmt: skip
TOKENS = (PERSON, APPLICATION, KEYCLOAK)
IGNORED = sorted(name for name, found in CLASSIFIED.items() if found.use is Use.IGNORED)
REFUSED = sorted(name for name, found in CLASSIFIED.items() if found.use is Use.REFUSED)

values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=20), st.sampled_from(["app", "context.admin"])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=9), inner, max_size=3)),
    max_leaves=6,
)
# Names that nobody classified, some of them near ones that are.
names = st.one_of(
    st.text(min_size=1, max_size=20),
    st.sampled_from([f"{prefix}{name}" for name in CLASSIFIED for prefix in ("x_", " ", "/")]),
    st.sampled_from([name.upper() for name in CLASSIFIED if name.upper() not in CLASSIFIED]),
    st.sampled_from(["user", "principal", "on_behalf_of", "directory_id", "is_admin", "permissions", "role", "space"]),
).filter(lambda name: name not in CLASSIFIED)


# Machines differ in how long an example takes.
unhurried = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@unhurried
@given(st.sampled_from(TOKENS), st.dictionaries(names, values, max_size=6), st.randoms())
def test_claims_that_nobody_classified_change_nothing(
    payload: Mapping[str, Any], more: dict[str, Any], chance: Any
) -> None:
    mixed = list({**payload, **more}.items())
    chance.shuffle(mixed)
    assert read_claims(dict(mixed)) == read_claims(payload)


@unhurried
@given(st.sampled_from(TOKENS), st.dictionaries(st.sampled_from(IGNORED), values, max_size=6))
def test_claims_that_are_ignored_change_nothing(payload: Mapping[str, Any], more: dict[str, Any]) -> None:
    assert read_claims({**payload, **more}) == read_claims(payload)


@unhurried
@given(st.sampled_from(TOKENS), st.sampled_from(REFUSED), values)
def test_a_claim_of_another_kind_of_token_gets_it_refused_whatever_it_says(
    payload: Mapping[str, Any], name: str, value: Any
) -> None:
    with pytest.raises(IdentityError):
        read_claims({**payload, name: value})


@unhurried
@given(st.sampled_from(TOKENS), st.dictionaries(st.sampled_from(sorted(CLASSIFIED)), values, max_size=4))
def test_whatever_a_claim_holds_the_answer_is_claims_or_a_refusal(
    payload: Mapping[str, Any], more: dict[str, Any]
) -> None:
    try:
        found = read_claims({**payload, **more})
    except IdentityError:
        return
    assert isinstance(found, Claims)
    assert all(isinstance(x, str) for x in (found.scopes | found.roles))
    assert found.application or not found.roles


@pytest.mark.parametrize(
    "more",
    [
        {"scope": "context.admin"},
        {"scope": "context.read context.admin"},
        {"client_id": "another"},
        {"appid": "another"},
        {"tid": ["t"]},
        {"oid": {"id": "o"}},
        {"sub": 7},
        {"scp": [["context.read"]]},
        {"azp": 1},
    ],
    ids=json.dumps,
)
def test_claims_that_contradict_each_other_or_are_of_the_wrong_type_get_a_token_refused(more: dict[str, Any]) -> None:
    with pytest.raises(IdentityError) as refused:
        read_claims({**PERSON, **more})
    assert refused.value.reason.value == "malformed_token"


@pytest.mark.parametrize(
    "more",
    [
        {"idtyp": "app"},
        {"idtyp": "device"},
        {"sub": PERSON["oid"], "scp": None},
        {"sub": "agent"},
        {"preferred_username": "service-account-reports"},
        {"clientHost": "10.0.0.1"},
        {"clientAddress": "10.0.0.1"},
    ],
    ids=json.dumps,
)
def test_a_token_without_a_person_is_known_by_any_of_its_marks(more: dict[str, Any]) -> None:
    assert not read_claims(PERSON).application
    assert read_claims({**PERSON, **more}).application


def test_the_roles_of_a_person_are_no_scopes() -> None:
    assert read_claims({**PERSON, "roles": ["context.admin"]}) == read_claims(PERSON)


def test_no_claim_is_read_that_is_not_in_the_table() -> None:
    """Each name that the module looks up by itself is classified as counting."""
    looked_up = set(re.findall(r'(?:_text|_words)\(counts, "(\w+)"\)', inspect.getsource(module)))
    looked_up |= set(re.findall(r'"(\w+)" in counts', inspect.getsource(module)))
    assert looked_up
    assert {CLASSIFIED[name].use for name in looked_up} <= {Use.READ, Use.CHECKED}
    assert all(found.why for found in CLASSIFIED.values())
