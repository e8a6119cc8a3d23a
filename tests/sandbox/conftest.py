"""One running sandbox with an Azure DevOps organization, which no test may change, and its clients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fixtures.sandbox.server import SandboxServer
from tests.sandbox.ado import Rest, ado_world, sdk


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
