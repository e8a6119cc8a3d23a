"""A chain of incremental reads ends where one whole read of the same final state does, byte for byte.

Random changes of a small organization, with a sync after some of them, then the record and the index are compared
with those of an engine that began with nothing: items, chunks, aliases, links, people edges, glossary, supersessions,
scopes and their rules, memberships, and every point with its payload and vectors. A failing row of changes is told
with its numbers, shortened as far as it goes. TEST_EVENT_ROWS sets how many rows are tried.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from random import Random

import pytest

from core.items import Source
from fixtures.sandbox import state_additions as add
from fixtures.sandbox.server import SandboxServer
from fixtures.sandbox.state_events import apply_event
from fixtures.sandbox.world_models import Event
from graph.records import ItemStore
from tests.support.ingest_side import ingest_side, whole_read
from tests.support.postgres import PostgresServer
from tests.support.random_events import change
from tests.support.small_organization import small_organization
from tests.support.state_dump import differences

ROWS = int(os.environ.get("TEST_EVENT_ROWS", "5"))
SYNC = -1  # stands between the numbers of changes


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxServer]:
    """One server for all rows; each begins at the beginning of its world."""
    with SandboxServer(small_organization(teams=True), tmp_path_factory.mktemp("sandbox"), remember=False) as server:
        yield server


def row(seed: int) -> list[int]:
    """Numbers of changes, with a sync after none, one or several of them."""
    chance = Random(seed)
    steps: list[int] = []
    for _ in range(chance.choice((2, 3, 4))):
        steps += [chance.randrange(10**6) for _ in range(chance.choice((0, 1, 1, 2, 3, 5, 8)))]
        steps.append(SYNC)
    return steps


def disagreement(sandbox: SandboxServer, postgres: PostgresServer, steps: Sequence[int]) -> tuple[list[str], list[str]]:
    """What a chain of syncs made otherwise than a whole read, and what was done."""
    sandbox.state.reset()
    done: list[str] = []
    with ingest_side(sandbox, postgres) as side:
        side.sync()
        for step in steps:
            if step == SYNC:
                side.sync()
                done.append("sync")
            else:
                done.append(f"{step} {change(sandbox.state, step)}")
        problems = side.settle()
        return [*problems, *differences(side.dump(), whole_read(sandbox, postgres))], done


def shortened(sandbox: SandboxServer, postgres: PostgresServer, steps: Sequence[int]) -> list[int]:
    """The row without every step that the disagreement does not need."""
    found = list(steps)
    for n in reversed(range(len(steps))):
        fewer = found[:n] + found[n + 1 :]
        try:
            still = bool(disagreement(sandbox, postgres, fewer)[0])
        except AssertionError:
            still = False
        found = fewer if still else found
    return found


@pytest.mark.invariant("INV-12")
@pytest.mark.parametrize("seed", range(ROWS))
def test_incremental_reads_end_where_a_whole_read_does(
    seed: int, sandbox: SandboxServer, postgres: PostgresServer
) -> None:
    steps = row(seed)
    if disagreement(sandbox, postgres, steps)[0]:
        short = shortened(sandbox, postgres, steps)
        told, done = disagreement(sandbox, postgres, short)
        pytest.fail(f"the row {short} disagrees:\n" + "\n".join([*done, "---", *told]), pytrace=False)


def test_a_file_that_a_set_back_branch_brings_back_is_read_again_although_its_version_is_old(
    sandbox: SandboxServer, postgres: PostgresServer
) -> None:
    sandbox.state.reset()
    with ingest_side(sandbox, postgres) as side:
        side.sync()
        items = ItemStore(side.database)
        (before,) = (u for u in items.uris(Source.CODE) if u.endswith("/files/l.py"))
        move = {"item": "file:lab/l.py", "to": "file:lab/m.py"}
        apply_event(sandbox.state, Event.model_validate({"id": "moved", "after": "1h", "move": move}))
        side.sync()
        assert before not in items.uris(Source.CODE)
        add.reset_branch(sandbox.state, "lab", 1, forget=False)
        side.settle()
        assert before in items.uris(Source.CODE)
        assert not differences(side.dump(), whole_read(sandbox, postgres))
