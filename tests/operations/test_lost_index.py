"""The index can be lost: the record builds it again, with the same answers and nothing asked of the sources."""

from __future__ import annotations

import shutil
from pathlib import Path

import httpx

from context_engine.embedded import EmbeddedEngine
from context_engine.http_server import LoopbackServer
from context_engine.stores import edge_folder
from context_engine.worlds import AUDIENCE
from core.embedding.port import Embedder
from tests.support.engines import WORLDS
from tests.support.postgres import PostgresServer

QUESTION = "why is the NCTS adapter slow?"


def ask(engine: EmbeddedEngine) -> tuple[str, list[str]]:
    """Digest and evidence of one question."""
    assert engine.sandbox is not None
    token = engine.sandbox.token("femke", audience=AUDIENCE)
    with LoopbackServer(engine.app) as server:
        answer = httpx.post(
            f"{server.url}/v1/context", json={"question": QUESTION}, headers={"Authorization": f"Bearer {token}"}
        )
    assert answer.status_code == 200, answer.text
    bundle = answer.json()
    return bundle["digest"], [e["uri"] for e in bundle["evidence"]]


def test_a_lost_index_is_built_again_at_the_next_start(
    tmp_path: Path, postgres: PostgresServer, embedder: Embedder
) -> None:
    database = postgres.fresh_database()
    urls = {"postgres_url": database.ingest_dsn, "postgres_query_url": database.query_dsn}

    def opened() -> EmbeddedEngine:
        return EmbeddedEngine(data=tmp_path, world=WORLDS / "havenlicht", embedder=embedder, overrides=urls)

    try:
        with opened() as engine:
            engine.sync()
            before, evidence = ask(engine)
            assert evidence
        shutil.rmtree(edge_folder(tmp_path))
        with opened() as engine:
            reports = engine.bring_up_to_date()
            assert {r.reader for r in reports} == {"access"}
            assert ask(engine) == (before, evidence)
    finally:
        postgres.drop(database)
