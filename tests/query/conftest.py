"""The small company, built once for the tests that only ask."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from core.embedding.port import Embedder
from core.items import Item
from graph.db import Database
from tests.query.company import ITEMS, Company, company
from tests.support.postgres import PostgresServer


def _built(postgres: PostgresServer, embedder: Embedder, items: tuple[Item, ...]) -> Iterator[Company]:
    made = postgres.fresh_database()
    ingest, query = Database(made.ingest_dsn), Database(made.query_dsn)
    try:
        with company(ingest, query, embedder, items) as built:
            yield built
    finally:
        ingest.close()
        query.close()
        postgres.drop(made)


@pytest.fixture(scope="session")
def harbor(postgres: PostgresServer, embedder: Embedder) -> Iterator[Company]:
    """The company. Tests only ask it."""
    yield from _built(postgres, embedder, ITEMS)


@pytest.fixture(scope="session")
def harbor_without_secrets(postgres: PostgresServer, embedder: Embedder) -> Iterator[Company]:
    """The same company as if what only the board and Sarah may read had never been written."""
    hidden = ("secret", "teams/19:private@thread.tacv2")
    yield from _built(postgres, embedder, tuple(i for i in ITEMS if i.scope not in hidden))
