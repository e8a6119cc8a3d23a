"""A refused, broken or partial read deletes nothing, opens nothing to anybody, and is made good by the next.

Random faults meet random requests during a sync: refusals, failures, time-outs, answers cut in half, sign-in pages,
lists that come empty. Then nothing that the source still has is deleted, nobody is shown what neither the time before
nor an undisturbed read shows them, and once the faults are over the stores settle to what an undisturbed read makes.
(An answer that is short and says that it is whole can't be told from the truth. That lie is told of the lists of what
there is: work items, pages, files, pull requests.) TEST_FAULT_ROUNDS sets how often.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from random import Random

import pytest

from fixtures.sandbox.server import SandboxServer
from graph.runs import RunStore
from ingestion.azure_devops.client import AdoClient
from tests.support.faulty import Rule, random_rules, spoil
from tests.support.ingest_side import IngestSide, ingest_side, whole_read
from tests.support.postgres import PostgresServer
from tests.support.random_events import change
from tests.support.shown import gained, shown_to_each
from tests.support.small_organization import small_organization
from tests.support.state_dump import Dump, differences

ROUNDS = int(os.environ.get("TEST_FAULT_ROUNDS", "6"))
IN_A_ROW = 6


class FaultySide(IngestSide):
    """An ingestion side whose requests to Azure DevOps meet `rules`."""

    rules: list[Rule]

    def make_client(self) -> AdoClient:
        """The client, with connections that can be spoilt."""
        self.rules = []
        client = super().make_client()
        spoil(client, self.rules)
        return client


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxServer]:
    """One server for all rounds."""
    with SandboxServer(small_organization(), tmp_path_factory.mktemp("sandbox"), remember=False) as server:
        yield server


@pytest.fixture(scope="module")
def paths(sandbox: SandboxServer, postgres: PostgresServer) -> list[str]:
    """Every path below Azure DevOps that a first run asks for."""
    sandbox.state.reset()
    sandbox.faults.clear()
    whole_read(sandbox, postgres)
    found = {key.partition(" ")[2] for key in sandbox.faults.seen}
    return sorted(path for path in found if path.startswith("/ado/"))


def buried(side: IngestSide, there: Dump) -> list[str]:
    """Items that are there and yet have a tombstone."""
    with side.database.connection() as connection:
        rows = connection.execute("SELECT uri FROM items WHERE lifecycle = 'deleted'").fetchall()
    return sorted({r["uri"] for r in rows} & there["items"].keys())


def calm(side: FaultySide) -> list[str]:
    """The trouble is over: what was parked is tried again, and what was missed is found."""
    side.rules.clear()
    RunStore(side.database).retry_now()
    return side.settle()


@pytest.mark.invariant("INV-5", "INV-12")
@pytest.mark.parametrize("seed", range(max(1, ROUNDS // IN_A_ROW)))
def test_faults_in_a_sync_delete_nothing_and_show_nobody_more(
    seed: int, sandbox: SandboxServer, paths: list[str], postgres: PostgresServer
) -> None:
    sandbox.state.reset()
    chance = Random(seed)
    for _ in range(4):
        change(sandbox.state, chance.randrange(10**6))
    with ingest_side(sandbox, postgres, FaultySide) as side:
        assert isinstance(side, FaultySide)
        side.sync()
        whole, everyone = side.dump(), shown_to_each(side)
        for _ in range(IN_A_ROW):
            side.rules += random_rules(chance, paths)
            told = [str(rule) for rule in side.rules]
            side.sync()
            assert not buried(side, whole), told
            assert not gained(shown_to_each(side), everyone), told
            problems = [*calm(side), *differences(side.dump(), whole)]
            assert not problems, (told, problems)


@pytest.mark.parametrize("seed", range(max(1, ROUNDS // IN_A_ROW)))
def test_faults_while_much_is_changing_lose_none_of_the_changes(
    seed: int, sandbox: SandboxServer, paths: list[str], postgres: PostgresServer
) -> None:
    sandbox.state.reset()
    chance = Random(500 + seed)
    with ingest_side(sandbox, postgres, FaultySide) as side:
        assert isinstance(side, FaultySide)
        first = seed % 2 == 0
        if not first:
            side.sync()
        done = [change(sandbox.state, chance.randrange(10**6)) for _ in range(5)]
        before = shown_to_each(side)
        views, graves = [], []
        for _ in range(2):
            # A list that comes empty in two runs in a row is believed, so that lie is told once.
            side.rules[:] = random_rules(chance, paths, lies=not views)
            done += [str(rule) for rule in side.rules]
            side.sync()
            views.append(shown_to_each(side))
            with side.database.connection() as connection:
                rows = connection.execute("SELECT uri FROM items WHERE lifecycle = 'deleted'").fetchall()
            graves += [r["uri"] for r in rows]
        problems = calm(side)
        there = whole_read(sandbox, postgres)
        problems += differences(side.dump(), there)
        assert not problems, (done, problems)
        assert not sorted(set(graves) & there["items"].keys()), done
        after = shown_to_each(side)
        assert not [more for view in views if (more := gained(view, before, after))], done
