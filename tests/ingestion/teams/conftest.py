"""A live sandbox for a world that a test names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from graph.db import Database
from tests.ingestion.teams.small import small_world
from tests.ingestion.teams.stores import Engine
from tests.ingestion.teams.support import Data, Live, live
from tests.support.postgres import PostgresServer
from tests.support.quick_embedder import QuickEmbedder

Serve = Callable[..., Live]
MakeEngine = Callable[..., Engine]


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


@pytest.fixture
def engine(postgres: PostgresServer, open_database: Callable[[str], Database], tmp_path: Path) -> Iterator[MakeEngine]:
    """Makes engines, each on a database and index of its own."""
    made: list[tuple[Engine, Any]] = []

    def make(**options: Any) -> Engine:
        fresh = postgres.fresh_database()
        database = open_database(fresh.ingest_dsn)
        made.append((Engine(database, tmp_path / f"index-{len(made)}", QuickEmbedder(), **options), (database, fresh)))
        return made[-1][0]

    yield make
    for one, (database, fresh) in made:
        one.index.close()
        database.close()
        postgres.drop(fresh)
