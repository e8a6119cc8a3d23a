"""Changes at the sources while both threads of the embedded schedule run: what they make of it, whatever meets what, is
what a fresh engine makes of the sources, and refusals are obeyed in time.

TEST_RACES sets how many histories are tried, TEST_STEPS how long each is.
"""

from __future__ import annotations

import os
import threading
import time
from datetime import timedelta
from random import Random

import pytest

from context_engine.schedule import Schedule
from context_engine.scheduling import build_runner
from fixtures.sandbox.server import SandboxServer
from graph.jobs import JobStore
from tests.support.histories import OF_ACCESS, Refusals, subscribed_side
from tests.support.ingest_side import whole_read
from tests.support.postgres import PostgresServer
from tests.support.random_events import change
from tests.support.state_dump import differences
from tests.support.virtual_side import TurnedClock, VirtualSide

RACES = int(os.environ.get("TEST_RACES", "1"))
STEPS = int(os.environ.get("TEST_STEPS", "4"))
TURN = timedelta(seconds=20)


class Racing:
    """A side whose schedule runs in its two threads, by a clock that goes on only while they have nothing to do."""

    def __init__(self, side: VirtualSide) -> None:
        self.side, self.jobs = side, JobStore(side.database, side.clock)
        self._stop = threading.Event()
        runner = build_runner(
            side.settings, side.database, side.synchronizer, side.connectors, holder="two threads", clock=side.clock
        )
        self.schedule = Schedule(runner, self.jobs, side.clock, self._stop)

    def turn(self, how_long: timedelta = TURN) -> None:
        """Let some time pass."""
        self.side.clock.advance(how_long)
        self.schedule._wake()

    def rest(self) -> None:
        """Wait until nothing runs and nothing is due; time creeps, since who met another waits a second for it."""
        names = {p.job.name for agenda in self.schedule._agendas.values() for p in agenda.plan}
        end, turns = time.monotonic() + 120, 0
        while time.monotonic() < end:
            states = self.jobs.states()
            now = self.side.clock.now()
            busy = [n for n in names if n not in states or states[n].unfinished or states[n].due_at <= now]
            if not busy:
                return
            turns += 1
            if turns % 20 == 0:
                self.side.clock.advance(timedelta(seconds=1.1))
            self.schedule._wake()
            time.sleep(0.05)
        raise AssertionError(f"it never rests: {busy}")


@pytest.mark.parametrize("seed", range(RACES))
def test_what_meets_a_running_crawl_is_obeyed_in_time_and_ends_as_a_fresh_engine(
    seed: int, hooked_sandbox: SandboxServer, postgres: PostgresServer, turned_clock: TurnedClock
) -> None:
    with subscribed_side(hooked_sandbox, postgres, turned_clock) as side, (run := Racing(side)).schedule:
        chance, refusals = Random(seed), Refusals()
        done: list[str] = []

        def look() -> None:
            shown = side.shown()
            refusals.look(side)
            broken = refusals.broken(side, shown)
            assert not broken, "\n".join([*done, "---", *broken])

        for _ in range(STEPS):
            run.turn()
            for _ in range(chance.choice((1, 2, 4))):
                number = chance.randrange(10**6)
                done.append(f"{number} {change(side.sandbox.state, number, OF_ACCESS if number % 2 else None)}")
                refusals.look(side)
                time.sleep(chance.random() * 0.1)
            look()
            for delivery in side.sandbox.hooks.take():
                if chance.random() < 0.7:
                    side.sandbox.hooks.deliver(delivery)
                    run.schedule.nudge(chance.choice(["teams", "azure_devops"]))
            if chance.random() < 0.5:
                run.rest()
                look()
        side.sandbox.hooks.take()
        for _ in range(4):
            run.rest()
            look()
            run.turn(timedelta(seconds=130))
        run.rest()
        look()
        differing = differences(side.dump(), whole_read(hooked_sandbox, postgres))
        assert not differing, "\n".join([*done, "---", *differing])
