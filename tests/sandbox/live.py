"""A live sandbox for tests, on a loopback port of its own; test modules name it in `pytest_plugins`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from fixtures.sandbox.oidc import Keys
from fixtures.sandbox.server import SandboxServer
from fixtures.sandbox.world import World
from tests.sandbox.small import Client, Serve


@pytest.fixture(scope="session")
def made_keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key that many sandboxes begin with: making one takes longer than all the rest."""
    folder = tmp_path_factory.mktemp("keys")
    Keys(folder)
    return folder / "oidc-keys.json"


@pytest.fixture
def serve(tmp_path: Path, made_keys: Path) -> Iterator[Serve]:
    """Start sandboxes that stop with the test."""
    with ExitStack() as stack:

        def start(world: World, **more: Any) -> SandboxServer:
            (tmp_path / "sandbox").mkdir()
            shutil.copy(made_keys, tmp_path / "sandbox")
            return stack.enter_context(SandboxServer(world, tmp_path, **more))

        yield start


@pytest.fixture
def graph_client() -> Iterator[Client]:
    """Make clients that carry the connector's token for Graph."""
    with ExitStack() as stack:

        def make(server: SandboxServer) -> httpx.Client:
            headers = {"Authorization": f"Bearer {server.graph_token()}"}
            client = httpx.Client(base_url=server.graph_url, headers=headers, trust_env=False, verify=False)
            return stack.enter_context(client)

        yield make
