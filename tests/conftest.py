"""Fixtures for every test, and the order in which files of tests are begun."""

from __future__ import annotations

import pytest

from tests.support import memory  # noqa: F401 - first: temporary folders are in memory from here on
from tests.support.engines import embedder, engines, world_engine
from tests.support.postgres import audit_db, fresh_database, ingest_db, open_database, postgres, query_db

__all__ = [
    "audit_db",
    "embedder",
    "engines",
    "fresh_database",
    "ingest_db",
    "open_database",
    "postgres",
    "query_db",
    "world_engine",
]

# What takes longest is begun first: a long file that is begun last keeps one process busy while the others have ended.
_LONGEST_FIRST = (
    "tests/invariants/test_non_interference.py",
    "tests/worlds/test_golden.py",
    *("tests/invariants/", "tests/operations/", "tests/command_line/", "tests/worlds/", "tests/ingestion/"),
    *("tests/schedule/", "tests/webhooks/"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of slow folders first; the order within a file stays."""

    def place(item: pytest.Item) -> int:
        return next((n for n, start in enumerate(_LONGEST_FIRST) if item.nodeid.startswith(start)), len(_LONGEST_FIRST))

    items.sort(key=place)
