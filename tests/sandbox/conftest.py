"""One running sandbox with an Azure DevOps organization, which no test may change, and its clients; and one whose
present and subscriptions are each test's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from core.clock import FixedClock
from fixtures.sandbox.hooks.outbox import HookSettings
from fixtures.sandbox.server import SandboxServer
from tests.sandbox.ado import Rest, ado_world, sdk
from tests.sandbox.hooked import NOW, PROJECT, TEAMS, Hooked
from tests.sandbox.receiver import Receiver, listening


@pytest.fixture(scope="package")
def ado(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxServer]:
    """The server."""
    with SandboxServer(ado_world(), tmp_path_factory.mktemp("ado")) as running:
        yield running


@pytest.fixture(scope="package")
def rest(ado: SandboxServer) -> Iterator[Rest]:
    """Plain REST."""
    made = Rest(ado)
    yield made
    made.client.close()


@pytest.fixture(scope="package")
def clients(ado: SandboxServer) -> Any:
    """The official SDK."""
    return sdk(ado)


@pytest.fixture(scope="package")
def hooked_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SandboxServer, httpx.Client]]:
    """A sandbox whose subscriptions live by a clock that is turned by hand, and a client for it."""
    world = ado_world({"P": PROJECT, "Q": {}}, teams=TEAMS)
    folder = tmp_path_factory.mktemp("hooked")
    with (
        SandboxServer(world, folder, hooks_clock=FixedClock(NOW), remember=False) as running,
        httpx.Client(trust_env=False) as client,
    ):
        yield running, client


@pytest.fixture(scope="package")
def receiving() -> Iterator[Receiver]:
    """A receiver."""
    with listening() as made:
        yield made


@pytest.fixture
def hooked(hooked_server: tuple[SandboxServer, httpx.Client], receiving: Receiver) -> Iterator[Hooked]:
    """That sandbox at its beginning, with a receiver to which nothing has come."""
    server, client = hooked_server
    clock = server.hooks.book.clock = FixedClock(NOW)
    server.state.reset()
    receiving.clear()
    yield Hooked(server, receiving, clock, client)
    server.hooks.mode = "hold"
    server.hooks.settings = HookSettings()
