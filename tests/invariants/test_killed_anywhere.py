"""Killed at any step, the next runs lose nothing and double nothing.

A process dies before or after any request, transaction, write to the index, flush or embedding, again and again, and
new ones go on over the same stores until a run comes to its end. Then everything that the stores hold is what one
undisturbed run makes; and after every single death, what readers are shown is whole. TEST_KILLS sets how
many deaths there are: a first run dies at every step however few they are, later runs at all of them from 400 on.
"""

from __future__ import annotations

import os
import re
from collections import Counter
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

KILLS = int(os.environ.get("TEST_KILLS", "50"))
FIRST, LATER, OF_ACCESS = max(1, KILLS // 50), max(1, KILLS // 100), max(1, KILLS // 200)
# A later run that dies is followed by another whole one each time, so by default every fourth step has its turn.
SHARES = max(LATER, 400 // KILLS)
_REQUEST = re.compile(r"^(before|after) (GET|POST|OPTIONS)\b")
_OF_DELETIONS = ("after tombstone", "before record_removed", "after miss", "before record_withheld")


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxServer]:
    """One server for all deaths."""
    with SandboxServer(small_organization(), tmp_path_factory.mktemp("sandbox"), remember=False) as server:
        yield server


@pytest.fixture(scope="module")
def undisturbed(sandbox: SandboxServer, postgres: PostgresServer) -> tuple[Dump, Counter[str]]:
    """What a first run makes that nobody disturbs, and the steps that it takes."""
    sandbox.state.reset()
    with ingest_side(sandbox, postgres, MortalSide) as side:
        assert isinstance(side, MortalSide)
        assert not side.settle(1)
        return side.dump(), side.fate.seen


def whole_for_readers(side: MortalSide, where: str) -> None:
    """After a death nobody may be shown an item of which the index holds another state."""
    broken = shown_in_pieces(side.database, side.index)
    assert not broken, f"after a death {where}: {broken}"


def drawn(steps: Counter[str], seed: int, rounds: int) -> list[str]:
    """This round's share of all the steps that the stores are written and read by: every one is in some round."""
    names = sorted(name for name in steps if not _REQUEST.search(name))
    Random(rounds).shuffle(names)
    return names[seed::rounds]


@pytest.mark.invariant("INV-12")
@pytest.mark.parametrize("seed", range(FIRST))
def test_a_first_run_that_is_killed_again_and_again_ends_as_an_undisturbed_one(
    seed: int, sandbox: SandboxServer, undisturbed: tuple[Dump, Counter[str]], postgres: PostgresServer
) -> None:
    sandbox.state.reset()
    whole, steps = undisturbed
    chance, names = Random(seed), drawn(undisturbed[1], seed, FIRST)
    while names:
        deaths: list[str] = []
        with ingest_side(sandbox, postgres, MortalSide) as side:
            assert isinstance(side, MortalSide)
            while names:
                name = names.pop()
                some = chance.random() < 0.3
                where = side.die(after=chance.randint(1, sum(steps.values()) // 2)) if some else None
                where = where or side.die(at=name, nth=chance.randint(1, min(3, steps[name])))
                if where is None:
                    break
                deaths.append(where)
                whole_for_readers(side, where)
            problems = [*side.settle(), *differences(side.dump(), whole)]
            assert not problems, (deaths, problems)


@pytest.mark.invariant("INV-12")
@pytest.mark.parametrize("seed", range(LATER))
def test_later_runs_that_are_killed_again_and_again_end_as_a_whole_read(
    seed: int, sandbox: SandboxServer, undisturbed: tuple[Dump, Counter[str]], postgres: PostgresServer
) -> None:
    sandbox.state.reset()
    chance, done = Random(1000 + seed), list[str]()
    with ingest_side(sandbox, postgres, MortalSide) as side:
        assert isinstance(side, MortalSide)
        side.sync()
        for name in [*drawn(undisturbed[1], seed, SHARES), *_OF_DELETIONS]:
            done += [change(sandbox.state, chance.randrange(10**6)) for _ in range(chance.choice((1, 2, 3)))]
            for where in (side.die(at=name), side.die(after=chance.randint(1, 400))):
                if where is not None:
                    done.append(where)
                    whole_for_readers(side, where)
        problems = [*side.settle(), *differences(side.dump(), whole_read(sandbox, postgres))]
        assert not problems, (done, problems)


class AccessOnly(MortalSide):
    """A process that reads permissions and nothing else."""

    def work(self) -> None:
        """Permissions of every source."""
        for connector in self.connectors:
            self.synchronizer.sync_access(connector)


@pytest.mark.parametrize("seed", range(OF_ACCESS))
def test_an_exchange_of_permissions_that_is_killed_is_made_good_by_the_next(
    seed: int, sandbox: SandboxServer, postgres: PostgresServer
) -> None:
    sandbox.state.reset()
    chance = Random(2000 + seed)
    kinds = ("acl", "member", "licence", "visibility")
    with ingest_side(sandbox, postgres, AccessOnly) as side:
        assert isinstance(side, AccessOnly)
        side.sync()
        side.fate.seen.clear()
        side.work()
        steps = Counter(side.fate.seen)
        for name in chance.sample(sorted(steps), 8):
            for _ in range(4):
                change(sandbox.state, chance.randrange(10**6), kinds)
            side.die(at=name, nth=chance.randint(1, steps[name]))
        problems = [*side.settle(1), *differences(side.dump(), whole_read(sandbox, postgres))]
        assert not problems, problems
