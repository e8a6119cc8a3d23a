"""Who asks too often is told so, the same whatever they asked, before anything else is looked at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from context_engine.http_server import LoopbackServer
from context_engine.stores import Index
from context_engine.wiring import build_api
from core.guards import RateLimitSettings
from query.api import create_app
from tests.support.engines import LiveEngine

ABSENT = "ctx://ado/contoso/work-items/999999999"
ONE = RateLimitSettings(asker_per_minute=1, asker_burst=1)


@pytest.fixture
def limited(engines: dict[str, LiveEngine]) -> Iterator[tuple[LiveEngine, httpx.Client]]:
    """An API that answers one question of each asker."""
    live = engines["contoso"]
    engine = live.engine
    assert isinstance(engine.index, Index)
    settings = engine.settings.model_copy(update={"rate_limits": ONE})
    services = build_api(settings, engine.query_database, engine.index, engine.embedder, engine.clock)
    with LoopbackServer(create_app(services)) as server, httpx.Client(base_url=server.url, timeout=60) as client:
        yield live, client


def answers(live: LiveEngine, client: httpx.Client, person: str) -> list[httpx.Response]:
    """What the person is answered to everything that can be asked."""
    headers = {"Authorization": f"Bearer {live.token(person)}"}
    hers: str = live.ask("priya", "partner onboarding")["evidence"][0]["uri"]
    hidden = next(uri for uri in everything(live) if live.expand(person, uri).status_code == 404)
    items = [hers, ABSENT, hidden]
    sent: list[tuple[str, str, dict[str, Any]]] = [
        *(("GET", "/v1/items", {"params": {"uri": uri}}) for uri in items),
        ("GET", "/v1/people", {"params": {"topic": "certificates"}}),
        ("GET", "/v1/definitions", {"params": {"term": "CSR"}}),
        ("GET", "/v1/status", {}),
        ("POST", "/v1/context", {"json": {"question": "partner?"}}),
        ("POST", "/v1/context", {"json": {"question": "\x00"}}),
    ]
    return [client.request(method, path, headers=headers, **more) for method, path, more in sent]


def everything(live: LiveEngine) -> list[str]:
    """Addresses of all items."""
    with live.engine.database.connection() as connection:
        return [r["uri"] for r in connection.execute("SELECT uri FROM items WHERE shown ORDER BY uri")]


@pytest.mark.invariant("INV-4")
def test_too_many_is_one_answer_whatever_was_asked(limited: tuple[LiveEngine, httpx.Client]) -> None:
    live, client = limited
    ask = {"Authorization": f"Bearer {live.token('oliver')}"}
    assert client.post("/v1/context", json={"question": "partner?"}, headers=ask).status_code == 200
    told = answers(live, client, "oliver")
    assert {a.status_code for a in told} == {429}
    assert {a.headers["content-type"] for a in told} == {"application/problem+json"}
    assert len({a.content for a in told}) == 1
    assert all(1 <= int(a.headers["Retry-After"]) <= 60 for a in told)
    kept = [{k: v for k, v in a.headers.items() if k not in ("date", "retry-after")} for a in told]
    assert all(headers == kept[0] for headers in kept)


def test_it_counts_before_it_is_known_whether_there_is_such_an_account(
    limited: tuple[LiveEngine, httpx.Client],
) -> None:
    live, client = limited
    sandbox = live.engine.sandbox
    assert sandbox is not None
    unknown = sandbox.token("oliver", overrides={"oid": "99999999-9999-4999-8999-999999999999"})
    headers = {"Authorization": f"Bearer {unknown}"}
    statuses = [client.get("/v1/items", params={"uri": ABSENT}, headers=headers).status_code for _ in range(2)]
    assert statuses == [401, 429]


def test_what_one_asker_used_up_another_still_has(limited: tuple[LiveEngine, httpx.Client]) -> None:
    live, client = limited
    for person in ("gita", "jonas"):
        headers = {"Authorization": f"Bearer {live.token(person)}"}
        assert client.get("/v1/items", params={"uri": ABSENT}, headers=headers).status_code == 404
        assert client.get("/v1/items", params={"uri": ABSENT}, headers=headers).status_code == 429
