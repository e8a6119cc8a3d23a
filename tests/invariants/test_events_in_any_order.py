"""Whatever happens at the sources, and however deliveries come, what was refused there is shown here no longer than
was promised, and after the polls the stores are what a fresh engine would make of the sources.

Each row is a random history: changes of every kind, deliveries that come late, twice, in another order or never, and
time that passes, on a clock that is turned by hand, while the real schedule runs what becomes due over real stores,
real connectors and the real receiver. After every step everybody's view is held against the world's own rules.
TEST_HISTORIES sets how many rows are tried, TEST_HISTORY_STEPS how long each is.
"""

from __future__ import annotations

import os
from datetime import timedelta
from random import Random

import pytest

from fixtures.sandbox.hooks.delivery import Delivery
from fixtures.sandbox.server import SandboxServer
from tests.support.histories import OF_ACCESS, Refusals, subscribed_side
from tests.support.ingest_side import whole_read
from tests.support.postgres import PostgresServer
from tests.support.random_events import change
from tests.support.state_dump import differences
from tests.support.virtual_side import TurnedClock, VirtualSide

HISTORIES = int(os.environ.get("TEST_HISTORIES", "3"))
STEPS = int(os.environ.get("TEST_HISTORY_STEPS", "9"))
# How deliveries come: what share is lost, and what share comes twice.
WAYS = {"all": (0.0, 0.0), "never": (1.0, 0.0), "anyhow": (0.3, 0.3)}


class History:
    """One row: what happens, and what of it is told to the engine."""

    def __init__(self, side: VirtualSide, seed: int) -> None:
        self.side, self.chance = side, Random(seed)
        self.lost, self.twice = WAYS[("all", "never", "anyhow", "anyhow")[seed % 4]]
        self.held: list[Delivery] = []
        self.done: list[str] = []
        self.refusals = Refusals()
        self.refusals.look(side)

    def step(self) -> None:
        """Something happens, or is told, or time passes."""
        kind = self.chance.choices((self._change, self._deliver, self._wait), (5, 4, 4))[0]
        kind()
        self._check()

    def _check(self) -> None:
        self.refusals.look(self.side)
        broken = self.refusals.broken(self.side, self.side.shown())
        assert not broken, "\n".join([*self.done, "---", *broken])

    def _change(self) -> None:
        for _ in range(self.chance.choice((1, 1, 2, 4))):
            number = self.chance.randrange(10**6)
            kinds = OF_ACCESS if number % 2 else None
            self.done.append(f"{number} {change(self.side.sandbox.state, number, kinds)}")
            self.refusals.look(self.side)
        self.held += [d for d in self.side.sandbox.hooks.take() if self.chance.random() >= self.lost]

    def _deliver(self) -> None:
        self.chance.shuffle(self.held)
        for delivery in self.held[: self.chance.randrange(len(self.held) + 1)]:
            answer = self.side.sandbox.hooks.deliver(delivery)
            assert answer.status_code in (200, 202), (delivery.about, answer.status_code, answer.text)
            self.done.append(f"told of {delivery.about}")
            if self.chance.random() >= self.twice:
                self.held.remove(delivery)

    def _wait(self) -> None:
        how_long = timedelta(seconds=self.chance.choice((1, 5, 20, 70, 130)))
        self.done.append(f"{how_long.total_seconds():.0f} s pass")
        for result in self.side.wait(how_long):
            if result.state == "failed":
                self.done.append(f"  {result.job.name} failed: {result.reason}")

    def settle(self) -> None:
        """Every poll comes round, until what vanished was missed twice."""
        self.side.sandbox.hooks.take()
        for _ in range(3):
            self.side.clock.advance(timedelta(seconds=130))
            self.side.agenda.run_due(self.side.clock.now())
            self._check()


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_refusals_are_obeyed_in_time_and_the_end_is_that_of_a_fresh_engine(
    seed: int, hooked_sandbox: SandboxServer, postgres: PostgresServer, turned_clock: TurnedClock
) -> None:
    with subscribed_side(hooked_sandbox, postgres, turned_clock) as side:
        history = History(side, seed)
        for _ in range(STEPS):
            history.step()
        history.settle()
        differing = differences(side.dump(), whole_read(hooked_sandbox, postgres))
        assert not differing, "\n".join([*history.done, "---", *differing])
