"""Fixtures for every test."""

from tests.support.engines import embedder, engines, world_engine
from tests.support.postgres import fresh_database, ingest_db, open_database, postgres, query_db

__all__ = [
    "embedder",
    "engines",
    "fresh_database",
    "ingest_db",
    "open_database",
    "postgres",
    "query_db",
    "world_engine",
]
