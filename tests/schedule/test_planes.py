"""A process that holds another plane's credential, or lacks one of its own, does not start, and says which."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from context_engine import heartbeats
from context_engine.health import main as health
from context_engine.planes import API, AUDIT, BEAT, WEBHOOKS, WORKER, Plane, check
from context_engine.wiring import build_connectors, known_readers
from context_engine.workers import _share_of
from core.errors import ConfigError
from core.settings import Settings, load_settings

COMMON = {"redis_url": "redis://r", "sources": '["teams", "azure_devops"]', "qdrant_url": "http://q"}
GRAPH = {"graph__tenant": "t", "graph__client_id": "c", "graph__client_secret": "s"}
ADO = {"azure_devops__organization": "o", "azure_devops__base_url": "http://a", "azure_devops__tenant": "t"}
ISSUER = '[{"issuer": "https://i", "tenant": "t", "audience": ["a"]}]'
ENOUGH: dict[str, dict[str, str]] = {
    "api": {
        "sources": COMMON["sources"],
        "qdrant_url": "http://q",
        "qdrant_read_key": "r",
        "postgres_query_url": "postgresql://q",
        "issuers": ISSUER,
    },
    "worker": {
        **COMMON,
        **GRAPH,
        **ADO,
        "azure_devops__pat": "p",
        "postgres_url": "postgresql://i",
        "qdrant_api_key": "w",
        "webhooks__client_state_key": "k",
    },
    "beat": {"redis_url": "redis://r", "sources": COMMON["sources"]},
    "webhooks": {"redis_url": "redis://r", "postgres_hooks_url": "postgresql://h", "webhooks__password": "p"},
    "audit work": {
        "sources": COMMON["sources"],
        "qdrant_url": "http://q",
        "qdrant_audit_key": "a",
        "postgres_audit_url": "postgresql://a",
    },
}
PLANES = {p.name: p for p in (API, WORKER, BEAT, WEBHOOKS, AUDIT)}
SECRETS: dict[str, dict[str, str]] = {
    "azure_devops.pat": {**ADO, "azure_devops__pat": "hunter2"},
    "graph.client_secret": GRAPH | {"graph__client_secret": "hunter2"},
    "postgres_url": {"postgres_url": "hunter2"},
    "postgres_query_url": {"postgres_query_url": "hunter2"},
    "postgres_hooks_url": {"postgres_hooks_url": "hunter2"},
    "qdrant_api_key": {"qdrant_api_key": "hunter2"},
    "qdrant_read_key": {"qdrant_read_key": "hunter2"},
    "qdrant_audit_key": {"qdrant_audit_key": "hunter2"},
    "postgres_audit_url": {"postgres_audit_url": "hunter2"},
    "redis_url": {"redis_url": "hunter2"},
    "query_redis_url": {"query_redis_url": "hunter2"},
    "principal_cache_key": {"principal_cache_key": "hunter2" * 5},
    "late_binding.client_secret": {"late_binding__client_secret": "hunter2"},
    "webhooks.password": {"webhooks__password": "hunter2"},
    "webhooks.client_state_key": {"webhooks__client_state_key": "hunter2"},
    "webhooks.certificate_key": {"webhooks__certificate_key": "/hunter2"},
}


def settings(given: dict[str, str]) -> Settings:
    """As a process would read them from its environment."""
    return load_settings(environ={f"CONTEXT_ENGINE_{k.upper()}": v for k, v in given.items()})


@pytest.mark.invariant("INV-2")
@pytest.mark.parametrize("plane", PLANES.values(), ids=PLANES)
def test_each_starts_with_its_own_and_with_nothing_that_it_lacks(plane: Plane) -> None:
    check(settings(ENOUGH[plane.name]), plane)
    for names, _ in plane.needs:
        prefixes = tuple(name.replace(".", "__") for name in names.split("|"))
        less = {k: v for k, v in ENOUGH[plane.name].items() if not k.startswith(prefixes)}
        with pytest.raises(ConfigError) as caught:
            check(settings(less), plane)
        assert caught.value.where == names.split("|")[0]


@pytest.mark.parametrize(("plane", "secret"), [(p, s) for p in PLANES.values() for s in p.refuses])
def test_each_refuses_what_belongs_to_another(plane: Plane, secret: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check(settings(ENOUGH[plane.name] | SECRETS[secret]), plane)
    assert secret in caught.value.message
    assert "hunter2" not in str(caught.value)
    assert f"CONTEXT_ENGINE_{secret.upper().replace('.', '__')}" in str(caught.value)


LATE = {"labels": '["Public", "Secret"]', "late_binding__label": "Secret"}
EXCHANGE = {
    "late_binding__tenant": "t",
    "late_binding__client_id": "c",
    "late_binding__client_secret": "hunter2",
    "late_binding__graph_url": "https://graph.microsoft.com/v1.0",
}


def test_the_query_plane_holds_a_credential_for_late_binding_only_where_that_is_on() -> None:
    check(settings(ENOUGH["api"] | LATE | EXCHANGE), API)
    by_rule = ENOUGH["api"] | LATE | {"late_binding__method": "permissions"} | GRAPH | ADO | {"azure_devops__pat": "p"}
    check(settings(by_rule), API)
    for odd, named in (
        (EXCHANGE, "late_binding.client_secret"),
        (LATE | EXCHANGE | SECRETS["graph.client_secret"], "graph.client_secret"),
        (by_rule | EXCHANGE, "late_binding.client_secret"),
        (by_rule | SECRETS["qdrant_api_key"], "qdrant_api_key"),
    ):
        with pytest.raises(ConfigError) as caught:
            check(settings(ENOUGH["api"] | odd), API)
        assert caught.value.where == named


def test_the_query_plane_and_the_receiver_hold_no_credential_of_a_source_and_no_key_that_writes() -> None:
    for plane in (API, WEBHOOKS, BEAT):
        assert {"azure_devops.pat", "graph.client_secret", "qdrant_api_key", "postgres_url"} <= set(plane.refuses)


def test_processes_that_know_sources_by_name_know_the_readers_that_connectors_have() -> None:
    made = settings(ENOUGH["worker"])
    found = {c.name: tuple(r.name for r in c.readers()) for c in build_connectors(made)}
    assert known_readers(settings(ENOUGH["beat"])) == found


def test_workers_share_what_graph_allows_the_application() -> None:
    made = settings(ENOUGH["worker"] | {"source_concurrency": "3"})
    share = _share_of(made).graph
    assert made.graph is not None
    assert share is not None
    assert share.team_requests_per_second * 3 == pytest.approx(made.graph.team_requests_per_second)
    assert share.message_requests_per_second * 3 == pytest.approx(made.graph.message_requests_per_second)


@pytest.mark.parametrize("url", ["http://r", "redis://", "redis://r:many", "r:6379", ""])
def test_an_address_that_is_no_brokers_is_told_before_anything_starts(url: str) -> None:
    with pytest.raises(ConfigError, match="redis_url"):
        check(settings(ENOUGH["beat"] | {"redis_url": url}), BEAT)
    with pytest.raises(ConfigError, match="query_redis_url"):
        check(settings(ENOUGH["api"] | {"query_redis_url": url}), API)


def test_health_is_a_fresh_heartbeat_or_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CONTEXT_ENGINE_DATA", str(tmp_path))
    monkeypatch.setenv("CONTEXT_ENGINE_PORT", "1")
    assert health(["beat"]) == 1
    heartbeats.beat(tmp_path, "beat")
    assert health(["beat"]) == 0
    assert health(["worker-access"]) == 1
    assert health(["api"]) == 1
    assert health(["engine"]) == 64
    assert health([]) == 64
    told: Any = capsys.readouterr()
    assert "Known: api" in told.err
