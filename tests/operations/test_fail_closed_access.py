"""What can't be read of permissions lets nobody in who was not in before; runs count it and `doctor` tells it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from context_engine import cli
from context_engine.commands.access_health import access_findings
from context_engine.commands.finding import Finding, Health
from context_engine.embedded import EmbeddedEngine
from context_engine.postgres import EmbeddedPostgres
from context_engine.running import Running, announced
from context_engine.stores import Index
from context_engine.wiring import build_synchronizer
from core.embedding.port import Embedder
from core.index.edge import EdgeIndex
from core.settings import AzureDevOpsSettings, Settings
from fixtures.sandbox.state_events import apply_event
from graph.db import Database
from graph.runs import RunStore
from ingestion.sync import RunReport
from tests.ingestion.azure_devops.canned import GIT, PROJECT, acl, listed, organization
from tests.ingestion.azure_devops.test_odd_answers import IRIS, claims, open_table
from tests.sandbox import small
from tests.sandbox.small import PEOPLE, allow, deny, item, page
from tests.support.engines import WORLDS, LiveEngine, live_engine
from tests.support.postgres import PostgresServer

ADO = r"/ado/[^/]+"
WORLD: dict[str, Any] = {
    "acl": allow("group:everyone", "gil"),
    "areas": {"/Pay": {"inherit": False, "acl": [*allow("group:everyone"), *deny("group:kept-out")]}},
    "work_items": [item(1), item(2, "/Pay")],
    "wikis": {"Handbook": {"inherit": False, "acl": allow("group:ops"), "pages": {"Start": page("Begin here.")}}},
    "repos": {"crane": {"commits": [small.commit("k", crane_py="lift()")], "inherit": False, "acl": allow("ben")}},
}
GROUPS: dict[str, Any] = {
    **small.GROUPS,
    "kept-out": {"name": "Kept out", "kind": "azure_devops", "members": ["ann"]},
}
EVENTS: list[dict[str, Any]] = [
    {"id": "wider-repo", "after": "1m", "set_acl": {"on": "repo:crane", "acl": allow("ann", "ben")}},
    {"id": "gil-joins-ops", "after": "2m", "add_member": {"group": "ops", "who": "gil"}},
    {"id": "ben-is-kept-out", "after": "3m", "add_member": {"group": "kept-out", "who": "ben"}},
    {"id": "dan-gets-basic", "after": "4m", "set_access_level": {"who": "dan", "access_level": "basic"}},
]
Sees = set[tuple[str, str]]


@pytest.fixture
def live(postgres: PostgresServer, embedder: Embedder) -> Iterator[LiveEngine]:
    """A small world, synced."""
    with live_engine(small.world(WORLD, groups=GROUPS, events=EVENTS), postgres, embedder) as made:
        yield made


def sees(live: LiveEngine) -> Sees:
    """Every person and item that the API opens to them."""
    with live.engine.database.connection() as connection:
        uris = [r["uri"] for r in connection.execute("SELECT uri FROM items ORDER BY uri").fetchall()]
    return {(p, uri) for p in PEOPLE if p != "bot" for uri in uris if live.expand(p, uri).status_code == 200}


def happens(live: LiveEngine, event_id: str) -> None:
    """One event of the world, and none before it."""
    assert live.engine.sandbox is not None
    state = live.engine.sandbox.state
    with state.lock:
        apply_event(state, next(e for e in state.world.events if e.id == event_id))


def read_again(live: LiveEngine) -> RunReport:
    """Permissions are read again; the run of Azure DevOps."""
    return next(r for r in live.engine.sync_access() if r.connector == "azure_devops")


def findings(live: LiveEngine) -> dict[str, Finding]:
    """What doctor says of permissions."""
    names = [c.name for c in live.engine.connectors]
    return {f.what: f for f in access_findings(live.engine.database, names, live.engine.settings.revocation_limit)}


@pytest.mark.invariant("INV-5")
def test_while_memberships_of_a_source_are_not_known_to_the_end_nobody_is_answered(live: LiveEngine) -> None:
    """C016: 503, and never a smaller answer."""
    assert live.post("ann", {"question": "begin here"}).status_code == 200
    with live.engine.database.connection() as connection:
        connection.execute("UPDATE directory_syncs SET completed_at = NULL WHERE source = 'azure_devops'")
        connection.execute("UPDATE access_epoch SET epoch = epoch + 1")
    answer = live.post("ann", {"question": "begin here"})
    assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == (503, "identity-unresolved")
    assert set(answer.json()) == {"type", "title", "status"}
    assert float(answer.headers["Retry-After"]) > 0
    assert read_again(live).state == "complete"
    assert live.post("ann", {"question": "begin here"}).status_code == 200


@pytest.mark.invariant("INV-5")
def test_an_unreadable_acl_shuts_its_scopes_even_where_it_just_became_wider(live: LiveEngine) -> None:
    assert live.engine.sandbox is not None
    before = sees(live)
    assert any("/repos/" in uri for _, uri in before)
    happens(live, "wider-repo")
    live.engine.sandbox.faults.fail(rf"{ADO}/_apis/accesscontrollists/2e9eb7ed", status=403, times=None)
    run = read_again(live)
    assert run.state == "partial"
    assert "permissions of git" in (run.reason or "")
    after = sees(live)
    assert after < before
    assert not any("/repos/" in uri or "/wikis/" in uri for _, uri in after)
    told = findings(live)["scopes of azure_devops"]
    assert told.health is Health.WARNING
    assert "P/crane" in told.found
    live.engine.sandbox.faults.clear()
    assert read_again(live).state == "complete"
    assert ("ann", next(uri for p, uri in before if p == "ben" and "/files/" in uri)) in sees(live)


@pytest.mark.invariant("INV-5")
def test_a_group_that_can_t_be_read_keeps_its_members_and_shuts_what_denies_it(live: LiveEngine) -> None:
    """C019: a page that is refused deletes no membership; the run is partial and says whose."""
    assert live.engine.sandbox is not None
    before = sees(live)
    pay = "ctx://ado/small/work-items/2"
    assert ("ben", pay) in before
    assert ("ann", pay) not in before
    for event in ("gil-joins-ops", "ben-is-kept-out"):
        happens(live, event)
    live.engine.sandbox.faults.fail(rf"(?i){ADO}/_apis/graph/memberships", status=403, times=None)
    run = read_again(live)
    assert run.state == "partial"
    assert run.counts["unread_containers"] == 2
    after = sees(live)
    # Who was in `ops` still is, nobody else came in, and nobody passes a rule that denies a group not fully known.
    assert after == {(p, uri) for p, uri in before if uri != pay}
    told = findings(live)["groups of azure_devops"]
    assert told.health is Health.WARNING
    assert "[Small]\\Kept out" in told.found
    assert "1 scopes that deny them stay shut" in told.found
    live.engine.sandbox.faults.clear()
    assert read_again(live).state == "complete"
    whole = sees(live)
    assert ("ben", pay) not in whole
    assert ("gil", pay) not in whole
    assert any(p == "gil" and "/wikis/" in uri for p, uri in whole)
    assert "groups of azure_devops" not in findings(live)


def test_access_levels_that_are_not_listed_open_nothing_new(live: LiveEngine) -> None:
    assert live.engine.sandbox is not None
    before = sees(live)
    happens(live, "dan-gets-basic")
    live.engine.sandbox.faults.fail(rf"{ADO}/_apis/userentitlements", status=403, times=None)
    run = read_again(live)
    assert run.state == "partial"
    assert "access levels" in (run.reason or "")
    assert sees(live) == before
    told = findings(live)["groups of azure_devops"]
    assert "basic access to small" in told.found
    live.engine.sandbox.faults.clear()
    read_again(live)
    assert {p for p, _ in sees(live) - before} == {"dan"}


def test_levels_that_were_never_listed_let_nobody_in(postgres: PostgresServer, embedder: Embedder) -> None:
    with live_engine(small.world(WORLD, groups=GROUPS), postgres, embedder, sync=False) as live:
        assert live.engine.sandbox is not None
        live.engine.sandbox.faults.fail(rf"{ADO}/_apis/userentitlements", status=403, times=None)
        live.engine.sync()
        assert sees(live) == set()


@pytest.mark.invariant("INV-5")
def test_permissions_beyond_the_promise_shut_every_scope_and_doctor_says_how_many(live: LiveEngine) -> None:
    names = [c.name for c in live.engine.connectors]
    told = {f.what: f for f in access_findings(live.engine.database, names, timedelta(microseconds=1))}
    late = told["permissions of azure_devops"]
    assert late.health is Health.WARNING
    assert "4 scopes are shut by age" in late.found
    assert "run `serve` or `sync`" in late.do
    assert "memberships count no more" in told["directory"].found


def test_while_the_directory_is_not_read_nothing_of_azure_devops_is_shown_either(live: LiveEngine) -> None:
    before = sees(live)
    assert before
    with live.engine.database.connection() as connection:
        connection.execute("UPDATE directory_syncs SET seen_at = seen_at - interval '2 days' WHERE source = 'teams'")
    assert sees(live) == set()
    assert "directory" in findings(live)
    live.engine.sync_access()
    assert sees(live) == before
    assert "directory" not in findings(live)


# --- answers that the sandbox does not give


@pytest.fixture
def synced(ingest_db: Database, embedder: Embedder, tmp_path: Path) -> Callable[[Mapping[str, Any]], RunReport]:
    """Reads the permissions of an organization that answers from a table."""

    def read(table: Mapping[str, Any]) -> RunReport:
        edge = EdgeIndex(tmp_path / "qdrant", embedder=embedder.name, size=embedder.size)
        settings = Settings(
            azure_devops=AzureDevOpsSettings(organization="x", base_url="http://x", tenant="t", pat=SecretStr("p"))
        )
        index = Index(edge.reader, edge.writer, edge.close)
        try:
            with organization(table) as connector:
                return build_synchronizer(settings, ingest_db, index, embedder).sync_access(connector)
        finally:
            edge.close()

    return read


def test_descriptors_of_no_known_kind_are_counted_by_kind_and_told(
    ingest_db: Database, synced: Callable[[Mapping[str, Any]], RunReport]
) -> None:
    """C008: an entry of a kind that is not understood adds nobody, and the run says of which kind it was."""
    odd, build = "Some.New.Identity;1", "Microsoft.TeamFoundation.ServiceIdentity;build:1"
    run = synced(open_table({claims(IRIS): (2, 0), odd: (0, 2), build: (2, 0)}))
    assert run.counts["unknown_principal_kind:Some.New.Identity"] == 1
    assert run.counts["unknown_principal_kind:Microsoft.TeamFoundation.ServiceIdentity"] == 1
    told = {f.what: f for f in access_findings(ingest_db, ["azure_devops"], timedelta(hours=1))}
    assert told["principals of azure_devops"].health is Health.WARNING
    assert "1 × Some.New.Identity" in told["principals of azure_devops"].found


def test_identities_of_services_alone_are_told_without_alarm(
    ingest_db: Database, synced: Callable[[Mapping[str, Any]], RunReport]
) -> None:
    table = open_table({})
    build = "Microsoft.TeamFoundation.ServiceIdentity;build:1"
    table[rf"/_apis/accesscontrollists/{GIT}"] = listed(acl(f"repoV2/{PROJECT}/R1", {build: (2, 0)}))
    synced(table)
    told = {f.what: f for f in access_findings(ingest_db, ["azure_devops"], timedelta(hours=1))}
    assert told["principals of azure_devops"].health is Health.OK


# --- the command


def test_doctor_tells_of_permissions_runs_and_failures_alone_and_beside_a_serving_engine(
    embedder: Embedder, tmp_path: Path
) -> None:
    world = ["--world", str(WORLDS / "havenlicht"), "--data", str(tmp_path)]
    with EmbeddedEngine(data=tmp_path, world=WORLDS / "havenlicht", embedder=embedder) as engine:
        engine.sync_access()
        runs = RunStore(engine.database)
        runs.start("azure_devops", "code")
        runs.fail("wikis", "ctx://ado/unread", "404", engine.clock.now())
    alone = CliRunner().invoke(cli.app, ["doctor", *world]).stdout
    with EmbeddedPostgres(tmp_path), announced(tmp_path, Running(os.getpid(), "http://127.0.0.1:9", None)):
        beside = CliRunner().invoke(cli.app, ["doctor", *world]).stdout
    for said in (alone, beside):
        assert "permissions of azure_devops: read" in said
        assert "azure_devops/access: complete: scopes" in said
        assert "ctx://ado/unread: 404" in said
        assert max(map(len, said.splitlines())) <= 80
    assert "does not answer" in beside
    # What has not ended was cut short, unless an engine is there to end it.
    assert "warning  azure_devops/code: running" in alone
    assert "ok       azure_devops/code: running" in beside
