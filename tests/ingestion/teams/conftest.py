"""A live sandbox for a world that a test names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.ingestion.teams.small import small_world
from tests.ingestion.teams.support import Data, Live, live

Serve = Callable[..., Live]


@pytest.fixture(scope="session")
def sandbox_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where sandboxes keep their keys: making them takes longer than everything else."""
    return tmp_path_factory.mktemp("sandbox-home")


@pytest.fixture
def serve(sandbox_home: Path) -> Iterator[Serve]:
    """Serve teams of a small world: `serve(teams, people=…, events=…, page=…)`."""
    with ExitStack() as stack:

        def start(teams_of_world: Data, **options: Any) -> Live:
            shape = {k: options.pop(k) for k in ("people", "events", "groups", "labels") if k in options}
            return stack.enter_context(live(small_world(teams_of_world, **shape), sandbox_home, **options))

        yield start
