"""What tests of random histories share: a hooked sandbox and a side on one turned clock, and what was refused when."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Final

import pytest

from fixtures.sandbox.server import SandboxServer
from tests.support.ingest_side import ingest_side
from tests.support.postgres import PostgresServer
from tests.support.small_organization import small_organization
from tests.support.source_says import Source
from tests.support.virtual_side import PROMISED, TurnedClock, VirtualSide

# Every second change is one of these: they refuse somebody something, or let them in.
OF_ACCESS: Final = (
    *("acl", "acl", "member", "member in teams", "licence", "visibility", "disable person", "move item"),
    *("delete in teams", "restore in teams", "delete message", "delete item", "delete page", "delete file"),
)


class Refusals:
    """Since when the source has refused what to whom."""

    def __init__(self) -> None:
        self._allowed_at: dict[tuple[str, str], datetime] = {}

    def look(self, side: VirtualSide) -> None:
        """Take down what the source allows at this moment."""
        source, now = Source(side.sandbox.state), side.clock.now()
        there = list(source.addresses())
        for person in side.sandbox.state.world.people:
            self._allowed_at |= {(person, address): now for address in there if source.says(person, address)}

    def broken(self, side: VirtualSide, shown: dict[str, set[str]]) -> list[str]:
        """What is shown to somebody although the source has refused it for longer than was promised."""
        now, told = side.clock.now(), []
        for person, addresses in sorted(shown.items()):
            for address in sorted(addresses):
                allowed = self._allowed_at.get((person, address))
                if allowed is None:
                    told.append(f"{person} is shown {address}, which was never theirs to see")
                elif now - allowed > PROMISED:
                    since = int((now - allowed).total_seconds())
                    told.append(f"{person} is shown {address}, refused for {since} s")
        return told


@pytest.fixture(scope="module")
def turned_clock() -> TurnedClock:
    """The clock of whichever side is driven now."""
    return TurnedClock()


@pytest.fixture(scope="module")
def hooked_sandbox(tmp_path_factory: pytest.TempPathFactory, turned_clock: TurnedClock) -> Iterator[SandboxServer]:
    """One server for all rows of a module; its deliveries and subscriptions live by the turned clock."""
    folder = tmp_path_factory.mktemp("sandbox")
    world = small_organization(teams=True)
    with SandboxServer(world, folder, remember=False, hooks_clock=turned_clock) as server:
        yield server


@contextmanager
def subscribed_side(sandbox: SandboxServer, postgres: PostgresServer, clock: TurnedClock) -> Iterator[VirtualSide]:
    """A side that has read everything once, and is subscribed to everything."""
    sandbox.state.reset()
    with ingest_side(sandbox, postgres, VirtualSide) as side:
        clock.follow(side.clock)
        side.wait(timedelta(seconds=1))
        side.subscribe_to_azure_devops()
        yield side
