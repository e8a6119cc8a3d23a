"""Killed at any step, the next runs lose nothing and double nothing.

A process dies before or after any request, transaction, write to the index, flush or embedding, again and again, and
new ones go on over the same stores until a run comes to its end. Then everything that the stores hold is what one
undisturbed run makes; and after every single death, what readers are shown is whole. TEST_KILLS sets how
many deaths there are.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from random import Random

import pytest

from fixtures.sandbox.server import SandboxServer
from tests.support.ingest_side import ingest_side, whole_read
from tests.support.mortal import MortalSide
from tests.support.postgres import PostgresServer
from tests.support.random_events import change
from tests.support.small_organization import small_organization
from tests.support.state_dump import Dump, differences, shown_in_pieces

KILLS = int(os.environ.get("TEST_KILLS", "160"))
PER_ROUND = 10


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxServer]:
    """One server for all deaths."""
    with SandboxServer(small_organization(), tmp_path_factory.mktemp("sandbox"), remember=False) as server:
        yield server


@pytest.fixture(scope="module")
def whole(sandbox: SandboxServer, postgres: PostgresServer) -> Dump:
    """What an undisturbed first run makes."""
    sandbox.state.reset()
    return whole_read(sandbox, postgres)


def die_often(side: MortalSide, chance: Random, most: int, times: int) -> list[str]:
    """Let the process die up to so many times in a row while it syncs; where."""
    deaths: list[str] = []
    for _ in range(times):
        # Some die early, since that is where a run repairs what the last one left.
        where = side.die(chance.randint(1, chance.choice((most // 8, most // 2, most))), side.sync)
        if where is not None:
            deaths.append(where)
            broken = shown_in_pieces(side.database, side.index)
            assert not broken, f"after a death {where}: {broken}"
    return deaths


@pytest.mark.parametrize("seed", range(KILLS // 2 // PER_ROUND))
def test_a_first_run_that_is_killed_again_and_again_ends_as_an_undisturbed_one(
    seed: int, sandbox: SandboxServer, whole: Dump, postgres: PostgresServer
) -> None:
    sandbox.state.reset()
    chance = Random(seed)
    with ingest_side(sandbox, postgres, MortalSide) as side:
        assert isinstance(side, MortalSide)
        deaths = die_often(side, chance, 1400, PER_ROUND)
        problems = [*side.settle(), *differences(side.dump(), whole)]
        assert not problems, (deaths, problems)


@pytest.mark.parametrize("seed", range(max(1, KILLS // 2 // (3 * PER_ROUND))))
def test_later_runs_that_are_killed_again_and_again_end_as_a_whole_read(
    seed: int, sandbox: SandboxServer, postgres: PostgresServer
) -> None:
    sandbox.state.reset()
    chance = Random(1000 + seed)
    done: list[str] = []
    with ingest_side(sandbox, postgres, MortalSide) as side:
        assert isinstance(side, MortalSide)
        side.sync()
        for _ in range(3):
            for _ in range(6):
                done.append(change(sandbox.state, chance.randrange(10**6)))
            done += die_often(side, chance, 500, PER_ROUND)
        problems = [*side.settle(), *differences(side.dump(), whole_read(sandbox, postgres))]
        assert not problems, (done, problems)


@pytest.mark.parametrize("seed", range(2))
def test_an_exchange_of_permissions_that_is_killed_is_made_good_by_the_next(
    seed: int, sandbox: SandboxServer, postgres: PostgresServer
) -> None:
    sandbox.state.reset()
    chance = Random(2000 + seed)
    kinds = ("acl", "member", "licence", "visibility")
    with ingest_side(sandbox, postgres, MortalSide) as side:
        assert isinstance(side, MortalSide)
        side.sync()
        for _ in range(PER_ROUND // 2):
            for _ in range(4):
                change(sandbox.state, chance.randrange(10**6), kinds)
            side.die(chance.randint(1, 150), lambda: [side.synchronizer.sync_access(c) for c in side.connectors])
        problems = [*side.settle(1), *differences(side.dump(), whole_read(sandbox, postgres))]
        assert not problems, problems
