"""What a process that goes on polling makes of permissions is what one that begins anew makes of them, at any moment:
nothing that it kept from the last reading, or that the record vouches for, ever stands in for a change."""

from __future__ import annotations

import os
from collections.abc import Iterator
from random import Random
from threading import Thread
from typing import Any

import pytest

from core.access import NOBODY
from core.errors import SourceThrottledError
from fixtures.sandbox.server import SandboxServer
from fixtures.sandbox.state import SandboxState
from graph.scopes import ScopeStore
from ingestion.azure_devops.throttle import Throttle
from tests.ingestion.azure_devops.support import connect
from tests.support.ingest_side import IngestSide, ingest_side
from tests.support.postgres import PostgresServer
from tests.support.random_events import change
from tests.support.small_organization import small_organization
from tests.support.state_dump import differences

SEEDS = int(os.environ.get("TEST_ACCESS_ROWS", "1"))
KINDS = (
    "acl",
    "member",
    "licence",
    "visibility",
    "label",
    "rename area",
    "rename container",
    "delete container",
    "restore container",
    "move repo",
    "switch repo",
    "disable person",
)


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxServer]:
    """One server; each test begins at the beginning of its world."""
    with SandboxServer(small_organization(teams=True), tmp_path_factory.mktemp("sandbox"), remember=False) as server:
        yield server


@pytest.fixture
def organization(sandbox: SandboxServer) -> SandboxServer:
    sandbox.state.reset()
    sandbox.faults.clear()
    return sandbox


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_connector_that_remembers_reads_what_a_new_one_reads(seed: int, organization: SandboxServer) -> None:
    chance, kept = Random(seed), connect(organization)
    kept.access()
    for _ in range(8):
        done = [change(organization.state, chance.randrange(10**6), KINDS) for _ in range(chance.choice((0, 1, 2)))]
        fresh = connect(organization)
        whole = fresh.access()
        if chance.random() < 0.5:
            belonging = {c.principal: c for c in kept.memberships().containers}
            now = {c.principal: c for c in whole.containers}
            # It may lack a group that only a rule names which this connector has not read yet, and has one less at most
            # by that; of those that it has, it says what is.
            assert all(now[p] == c for p, c in belonging.items() if p in now), done
        assert kept.access() == whole, done
        assert {c.principal for c in kept.memberships().containers} == {c.principal for c in whole.containers}, done
        fresh.close()
    kept.close()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_polls_of_every_kind_lead_the_record_where_one_whole_reading_leads(
    seed: int, organization: SandboxServer, postgres: PostgresServer
) -> None:
    """Random changes of access, and after some of them one poll of a kind by one of two processes."""
    chance = Random(100 + seed)
    with ingest_side(organization, postgres) as side, ingest_side(organization, postgres) as fresh:
        both = [side.make_connectors(), side.make_connectors()]
        everything(side, both[0])
        for _ in range(10):
            for _ in range(chance.choice((0, 0, 1, 2))):
                change(organization.state, chance.randrange(10**6), KINDS)
            for connector in chance.choice(both):
                if chance.random() < 0.4:
                    report = side.synchronizer.sync_memberships(connector)
                else:
                    report = side.synchronizer.sync_access(connector)
                assert report.state == "complete", report
        everything(side, both[0])
        everything(fresh, fresh.connectors)
        assert differences(side.dump(), fresh.dump()) == []
        for connectors in both:
            for connector in connectors:
                connector.close()


def everything(side: IngestSide, connectors: list[Any]) -> None:
    """One whole reading of each source's permissions."""
    for connector in connectors:
        assert side.synchronizer.sync_access(connector).state == "complete"


def test_a_poll_that_found_nothing_new_moves_the_times_and_nothing_else(
    organization: SandboxServer, postgres: PostgresServer
) -> None:
    with ingest_side(organization, postgres) as side:
        everything(side, side.connectors)
        # A source that writes lets the other one be compared once more.
        everything(side, side.connectors)
        before = state_of(side)
        everything(side, side.connectors)
        after = state_of(side)
        for table in ("directory_syncs", "permission_syncs"):
            assert all(new > old for old, new in zip(before.pop(table), after.pop(table), strict=True))
        assert after == before


def state_of(side: IngestSide) -> dict[str, Any]:
    """Times of reading; the epoch; and the physical versions of all rows, which any write changes."""
    with side.database.connection() as connection:
        columns = {
            "directory_syncs": "seen_at",
            "permission_syncs": "at",
            "access_epoch": "epoch",
            **dict.fromkeys(("people", "containers", "memberships", "scopes", "applied_snapshots"), "ctid::text"),
        }
        return {
            table: [r["value"] for r in connection.execute(f"SELECT {column} AS value FROM {table} ORDER BY 1")]  # type: ignore[call-overload]
            for table, column in columns.items()
        }


def test_rules_whose_list_breaks_off_and_comes_back_are_worked_out_anew(organization: SandboxServer) -> None:
    connector = connect(organization)
    whole = connector.access()
    organization.faults.fail(r"/ado/[^/]+/_apis/accesscontrollists/2e9eb7ed", status=403, times=None)
    refused = connector.access()
    assert not refused.complete
    assert {s.acl for s in refused.scopes if s.kind in ("repo", "wiki")} == {NOBODY}
    # Again the same, and told again: a rule that was kept tells what kept it shut.
    assert connector.access() == refused
    organization.faults.clear()
    assert connector.access() == whole
    connector.close()


def test_the_first_reading_of_memberships_in_a_process_finds_out_which_groups_matter(
    organization: SandboxServer,
) -> None:
    connector, other = connect(organization), connect(organization)
    belonging, whole = connector.memberships(), other.access()
    assert belonging.memberships_only
    assert belonging.scopes == ()
    assert belonging.containers == whole.containers
    before = connector.traffic
    assert connector.memberships() == belonging
    asked = connector.traffic.since(before).requests
    assert not any("accesscontrollists" in area or "classificationnodes" in area for area in asked)
    connector.close()
    other.close()


def test_a_reading_of_memberships_never_takes_a_group_that_another_process_met_as_gone(
    organization: SandboxServer, postgres: PostgresServer
) -> None:
    with ingest_side(organization, postgres) as side:
        (first, second) = (side.make_connectors()[1], side.make_connectors()[1])
        side.synchronizer.sync_access(first)
        set_acl(organization.state, "repo:tools", {"to": "group:ops", "allow": ["read"]})
        side.synchronizer.sync_access(second)
        scopes = ScopeStore(side.database, revocation_limit=side.settings.revocation_limit)
        before = side.dump()["memberships"]
        assert before
        assert scopes.epoch() > 0
        assert side.synchronizer.sync_memberships(first).state == "complete"
        assert side.dump()["memberships"] == before
        first.close()
        second.close()


def set_acl(state: SandboxState, on: str, *entries: dict[str, Any]) -> None:
    """Give a node these entries."""
    from tests.support.chance import Chance

    Chance(state, Random(0)).happen(set_acl={"on": on, "acl": list(entries), "inherit": False})


def test_runs_of_two_threads_have_a_budget_each() -> None:
    """Permissions are polled while a long crawl goes on: neither uses up what the other may ask."""
    throttle = Throttle(
        max_wait=1, max_requests=2, max_waits=None, sleep=lambda _: None, jitter=lambda: 0.0, now=lambda: 0.0
    )
    refused: list[str] = []

    def crawl() -> None:
        throttle.begin()
        for _ in range(2):
            throttle.admit("/_apis/git", "git")
        with throttle.apart():
            for _ in range(5):
                throttle.admit("/_apis/graph/groups", "graph")
        try:
            throttle.admit("/_apis/git", "git")
        except SourceThrottledError as e:
            refused.append(e.message)

    threads = [Thread(target=crawl) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 4
    assert throttle.traffic.total == 4 * 7
