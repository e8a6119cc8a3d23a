"""What an engine that was killed still held keeps nobody waiting who owns its data folder now."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from context_engine.embedded import EmbeddedEngine
from graph.leases import LeaseStore
from tests.support.postgres import PostgresServer
from tests.support.quick_embedder import QuickEmbedder
from tests.support.small_organization import small_organization

HOUR = timedelta(hours=1)


def test_the_leases_of_a_killed_engine_are_let_go_and_those_of_others_are_not(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    database = postgres.fresh_database()
    urls = {"postgres_url": database.ingest_dsn, "postgres_query_url": database.query_dsn}

    def start() -> EmbeddedEngine:
        return EmbeddedEngine(data=tmp_path, world=small_organization(), embedder=QuickEmbedder(), overrides=urls)

    with start() as engine:
        leases = LeaseStore(engine.database)
        assert leases.acquire("teams/access", engine.holder, HOUR) is not None
        assert leases.acquire("azure_devops/code", "a worker", HOUR) is not None
    with start() as engine:
        leases = LeaseStore(engine.database)
        assert (leases.holder("teams/access"), leases.holder("azure_devops/code")) == (None, "a worker")
    postgres.drop(database)
