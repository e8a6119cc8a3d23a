"""Engines on worlds for tests: the real stores, the real connectors, the real API over HTTP on loopback."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from context_engine.embedded import EmbeddedEngine
from context_engine.http_server import LoopbackServer
from context_engine.questions import Question, load_questions
from context_engine.worlds import AUDIENCE
from core.embedding.cache import CachingEmbedder
from core.embedding.port import Embedder
from core.embedding.sentence_transformers import SentenceTransformersEmbedder
from fixtures.sandbox.world_models import World
from tests.support.postgres import PostgresServer

WORLDS = Path(__file__).resolve().parents[2] / "fixtures" / "worlds"
WORLD_NAMES = ("contoso", "havenlicht")

Body = dict[str, Any]


@dataclass
class LiveEngine:
    """An open, synced engine with its API on a port."""

    engine: EmbeddedEngine
    client: httpx.Client

    def token(self, person: str) -> str:
        """A token of the world's issuer."""
        assert self.engine.sandbox is not None
        return self.engine.sandbox.token(person, audience=AUDIENCE)

    def post(self, person: str, body: Body, **headers: str) -> httpx.Response:
        """Ask as `person`."""
        return self.client.post(
            "/v1/context", json=body, headers={"Authorization": f"Bearer {self.token(person)}", **headers}
        )

    def ask(self, person: str, body: Body | str) -> Body:
        """Ask as `person`; the bundle as JSON."""
        answer = self.post(person, {"question": body} if isinstance(body, str) else body)
        assert answer.status_code == 200, answer.text
        data: Body = answer.json()
        return data

    def expand(self, person: str, uri: str) -> httpx.Response:
        """Open one item as `person`."""
        return self.client.get(
            "/v1/items", params={"uri": uri}, headers={"Authorization": f"Bearer {self.token(person)}"}
        )


@pytest.fixture(scope="session")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedder]:
    """The shipped model, with every vector kept for the session: worlds are built many times over, by every process
    that tests run in."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    made = CachingEmbedder(SentenceTransformersEmbedder(None, threads=2), shared / "vectors.sqlite")
    yield made
    made.close()


@contextmanager
def live_engine(
    world: Path | World, postgres: PostgresServer, embedder: Embedder, *, sync: bool = True, **overrides: Any
) -> Iterator[LiveEngine]:
    """An engine on `world` in a temporary folder and a database of its own."""
    folder = Path(tempfile.mkdtemp(prefix="context-engine-world-"))
    database = postgres.fresh_database()
    # Shared engines live as long as the session: on a slow machine their scopes would shut in the middle of a test.
    patient = {"revocation_sla": 86_400}
    urls = {
        "postgres_url": database.ingest_dsn,
        "postgres_query_url": database.query_dsn,
        "postgres_audit_url": database.audit_dsn,
    }
    try:
        with ExitStack() as stack:
            engine = stack.enter_context(
                EmbeddedEngine(data=folder, world=world, embedder=embedder, overrides={**patient, **urls, **overrides})
            )
            if sync:
                for report in engine.sync():
                    assert report.state == "complete", report
            server = stack.enter_context(LoopbackServer(engine.app))
            client = stack.enter_context(httpx.Client(base_url=server.url, timeout=60))
            yield LiveEngine(engine, client)
    finally:
        postgres.drop(database)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def engines(postgres: PostgresServer, embedder: Embedder) -> Iterator[dict[str, LiveEngine]]:
    """A live engine a world, before any event. Shared by the session: tests must not change them."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(live_engine(WORLDS / name, postgres, embedder)) for name in WORLD_NAMES}


@pytest.fixture(params=WORLD_NAMES)
def world_engine(request: pytest.FixtureRequest, engines: dict[str, LiveEngine]) -> LiveEngine:
    """Each world in turn."""
    live = engines[request.param]
    live.engine.keep_access_fresh()
    return live


def questions_of(name: str) -> list[Question]:
    """The golden questions of a world that are asked before any event."""
    return [q for q in load_questions(WORLDS / name / "questions.yaml").questions if q.after is None]
