"""Fixtures for every test."""

from tests.support.postgres import fresh_database, ingest_db, open_database, postgres, query_db

__all__ = ["fresh_database", "ingest_db", "open_database", "postgres", "query_db"]
