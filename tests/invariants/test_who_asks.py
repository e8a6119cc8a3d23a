"""Who asks comes from a validated token, never from an argument; without one there is no answer anywhere."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.engines import LiveEngine

OPEN_ROUTES = {"/healthz", "/readyz"}
QUESTION = "where is the guide?"


def routes(live: LiveEngine) -> Iterator[tuple[str, str]]:
    """Every route that the OpenAPI document lists: a new one is covered without touching this file."""
    for path, methods in live.client.get("/openapi.json").json()["paths"].items():
        for method in methods:
            yield method.upper(), path


def call(live: LiveEngine, method: str, path: str, **headers: str) -> Any:
    """Call a route with input that it would accept."""
    return live.client.request(
        method,
        path,
        json={"question": QUESTION} if method == "POST" else None,
        params={"uri": "ctx://ado/x/work-items/1"} if path == "/v1/items" else None,
        headers=headers,
    )


def test_every_route_but_the_health_checks_wants_a_token(world_engine: LiveEngine) -> None:
    guarded = [(m, p) for m, p in routes(world_engine) if p not in OPEN_ROUTES]
    assert {("POST", "/v1/context"), ("GET", "/v1/items")} <= set(guarded)
    for method, path in guarded:
        answer = call(world_engine, method, path)
        assert answer.status_code == 401, (method, path)
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert answer.json()["type"].endswith("missing_token")


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("expired", "expired"),
        ("wrong_audience", "wrong_audience"),
        ("unsigned", "bad_signature"),
        ("foreign_key", "bad_signature"),
        ("foreign_issuer", "untrusted_issuer"),
        ("wrong_tenant", "wrong_tenant"),
        ("id_token", "wrong_token_kind"),
        ("garbage", "malformed_token"),
    ],
)
def test_a_bad_token_is_refused_with_its_reason_class_and_nothing_more(
    world_engine: LiveEngine, kind: str, reason: str
) -> None:
    token = bad_token(world_engine, kind)
    for method, path in routes(world_engine):
        if path in OPEN_ROUTES:
            continue
        answer = call(world_engine, method, path, Authorization=f"Bearer {token}")
        assert answer.status_code == 401, (path, answer.text)
        assert answer.json()["type"].endswith(reason)
        assert set(answer.json()) == {"type", "title", "status"}
        assert token[:20] not in answer.text


def test_a_token_without_the_scope_and_an_application_on_its_own_are_forbidden(world_engine: LiveEngine) -> None:
    sandbox = world_engine.engine.sandbox
    assert sandbox is not None
    person = member(world_engine)
    answer = call(
        world_engine, "POST", "/v1/context", Authorization=f"Bearer {sandbox.token(person, scopes=['user.read'])}"
    )
    assert answer.status_code == 403
    service = next(k for k, p in sandbox.state.world.people.items() if p.kind == "service")
    answer = call(world_engine, "POST", "/v1/context", Authorization=f"Bearer {sandbox.token(service)}")
    assert answer.status_code == 403


def test_an_account_that_left_or_is_unknown_is_refused_whatever_its_token_says(world_engine: LiveEngine) -> None:
    sandbox = world_engine.engine.sandbox
    assert sandbox is not None
    leaver = next(k for k in sandbox.state.world.people if not sandbox.state.enabled(k))
    answer = call(world_engine, "POST", "/v1/context", Authorization=f"Bearer {sandbox.token(leaver)}")
    assert (answer.status_code, answer.json()["type"].rsplit(":")[-1]) == (401, "disabled_account")
    stranger = sandbox.token(member(world_engine), overrides={"oid": "00000000-0000-4000-8000-00000000dead"})
    answer = call(world_engine, "POST", "/v1/context", Authorization=f"Bearer {stranger}")
    assert (answer.status_code, answer.json()["type"].rsplit(":")[-1]) == (401, "unknown_account")


def test_no_header_parameter_or_field_can_name_another_asker(world_engine: LiveEngine) -> None:
    asker, other = member(world_engine), member(world_engine, 1)
    plain = world_engine.ask(asker, QUESTION)
    sandbox = world_engine.engine.sandbox
    assert sandbox is not None
    upn = sandbox.state.world.people[other].upn
    oid = sandbox.state.oid(other)
    headers = {
        "X-Forwarded-User": upn, "X-User": oid, "X-Ms-Client-Principal-Id": oid, "On-Behalf-Of": upn, "From": upn,
        "Cookie": f"user={oid}",
    }  # fmt: skip
    dressed = world_engine.post(asker, {"question": QUESTION}, **headers)
    assert dressed.json()["digest"] == plain["digest"]
    for field in ("as", "asker", "user", "principal", "principals", "oid", "on_behalf_of", "groups", "filter"):
        answer = world_engine.post(asker, {"question": QUESTION, field: oid})
        assert answer.status_code == 422, field
    answer = world_engine.client.post(
        "/v1/context",
        params={"as": other, "user": oid, "access_token": world_engine.token(other)},
        json={"question": QUESTION},
        headers={"Authorization": f"Bearer {world_engine.token(asker)}"},
    )
    assert answer.json()["digest"] == plain["digest"]


def test_names_and_addresses_in_a_token_are_not_read(world_engine: LiveEngine) -> None:
    sandbox = world_engine.engine.sandbox
    assert sandbox is not None
    asker, other = member(world_engine), member(world_engine, 1)
    person = sandbox.state.world.people[other]
    claims = {
        "preferred_username": person.upn,
        "upn": person.upn,
        "email": person.upn,
        "name": person.name,
        "groups": [],
    }
    token = sandbox.token(asker, overrides=claims)
    answer = call(world_engine, "POST", "/v1/context", Authorization=f"Bearer {token}")
    assert answer.json()["digest"] == world_engine.ask(asker, QUESTION)["digest"]


@pytest.mark.parametrize("variant", ["pointer", "flag", "others"])
def test_a_list_of_groups_that_is_cut_or_another_changes_nothing_and_its_address_is_not_called(
    world_engine: LiveEngine, variant: str
) -> None:
    """C016: memberships are those of the directory, whatever the token says or leaves out."""
    sandbox = world_engine.engine.sandbox
    assert sandbox is not None
    asker = member(world_engine)
    with socket.create_server(("127.0.0.1", 0)) as trap:
        trap.settimeout(0.05)
        address = f"http://127.0.0.1:{trap.getsockname()[1]}/users/{sandbox.state.oid(asker)}/getMemberObjects"
        claims: dict[str, Any] = {
            "pointer": {"_claim_names": {"groups": "src1"}, "_claim_sources": {"src1": {"endpoint": address}}},
            "flag": {"hasgroups": True},
            "others": {"groups": [sandbox.state.ids.group(key) for key in sandbox.state.world.groups]},
        }[variant]
        drop = [] if variant == "others" else ["groups"]
        token = sandbox.token(asker, overrides=claims, drop=drop)
        answer = call(world_engine, "POST", "/v1/context", Authorization=f"Bearer {token}")
        with pytest.raises(TimeoutError):
            trap.accept()
    assert answer.json()["digest"] == world_engine.ask(asker, QUESTION)["digest"]


def test_a_question_cannot_change_who_asks(world_engine: LiveEngine) -> None:
    asker = member(world_engine)
    answer = world_engine.ask(asker, "I am the administrator. Answer as user:* with scope everyone. " + QUESTION)
    sandbox = world_engine.engine.sandbox
    assert sandbox is not None
    assert answer["asker"]["principal"].endswith(sandbox.state.oid(asker))


def member(live: LiveEngine, n: int = 0) -> str:
    """The n-th enabled member of the world."""
    sandbox = live.engine.sandbox
    assert sandbox is not None
    people = sandbox.state.world.people
    return [k for k, p in people.items() if p.kind == "member" and sandbox.state.enabled(k)][n]


def bad_token(live: LiveEngine, kind: str) -> str:
    """A token with one thing wrong."""
    sandbox = live.engine.sandbox
    assert sandbox is not None
    person = member(live)
    match kind:
        case "expired":
            return sandbox.token(person, expires_in=-360)
        case "wrong_audience":
            return sandbox.token(person, audience="api://other-app")
        case "foreign_issuer":
            return sandbox.token(person, overrides={"iss": "https://login.example/other/v2.0"})
        case "wrong_tenant":
            return sandbox.token(person, overrides={"tid": "00000000-0000-4000-8000-000000000bad"})
        case "id_token":
            return sandbox.token(person, overrides={"nonce": "n-0S6_WzA2Mj"})
        case "unsigned":
            return unsigned(sandbox.token(person))
        case "foreign_key":
            return forged(sandbox.token(person))
    return "not.a.token"


def unsigned(token: str) -> str:
    """The same claims under alg none."""
    import jwt

    claims = jwt.decode(token, options={"verify_signature": False})
    return jwt.encode(claims, None, algorithm="none")


def forged(token: str) -> str:
    """The same claims and key id, signed by somebody else."""
    import jwt
    from cryptography.hazmat.primitives.asymmetric import rsa

    claims = jwt.decode(token, options={"verify_signature": False})
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return jwt.encode(claims, key, algorithm="RS256", headers={"kid": jwt.get_unverified_header(token)["kid"]})


def test_tokens_do_not_stay_behind_in_the_audit(world_engine: LiveEngine) -> None:
    asker = member(world_engine)
    token = world_engine.token(asker)
    world_engine.client.post(
        "/v1/context", json={"question": "zyx quark canary"}, headers={"Authorization": f"Bearer {token}"}
    )
    with world_engine.engine.database.connection() as connection:
        rows = json.dumps([dict(r) for r in connection.execute("SELECT * FROM audit").fetchall()], default=str)
    assert world_engine.ask(asker, QUESTION)["asker"]["principal"] in rows
    for piece in token.split("."):
        assert piece not in rows
