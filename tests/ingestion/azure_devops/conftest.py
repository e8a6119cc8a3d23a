"""Sandboxes for the connector's tests: one a module that is only read, and fresh ones that events may change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fixtures.sandbox.server import SandboxServer
from tests.ingestion.azure_devops.small_worlds import Serve
from tests.ingestion.azure_devops.support import WORLD_NAMES, WORLDS, Store, connect
from tests.sandbox.small import world


@pytest.fixture(scope="package", params=WORLD_NAMES)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxServer]:
    """A sandbox of each world; nothing may change it."""
    with SandboxServer(WORLDS / request.param, tmp_path_factory.mktemp("sandbox"), remember=False) as running:
        yield running


@pytest.fixture(scope="package")
def crawled(server: SandboxServer) -> Store:
    """Everything that a first run reads."""
    store = Store()
    connector = connect(server)
    store.sync(connector)
    connector.close()
    return store


@pytest.fixture
def contoso(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxServer]:
    """A sandbox of the demo world of its own."""
    with SandboxServer(WORLDS / "contoso", tmp_path_factory.mktemp("sandbox"), remember=False) as running:
        yield running


@pytest.fixture
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    """Serves small worlds of one project `P` with these work items (more of the project and the world by keyword)."""
    running: list[SandboxServer] = []

    def start(*items: dict[str, Any], project: dict[str, Any] | None = None, **more: Any) -> SandboxServer:
        made = world({"work_items": list(items), **(project or {})}, **more)
        server = SandboxServer(made, tmp_path_factory.mktemp("small"), remember=False)
        server.start()
        running.append(server)
        return server

    yield start
    for server in running:
        server.stop()
