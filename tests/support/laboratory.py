"""A laboratory: the query plane whole, with its HTTP API, over real stores into which a test writes what it likes.

No source is crawled, so a company of some dozen items stands in less than a second. Tokens come from the sandbox's
issuer, the stores are the real ones, and the way in of items is the real pipeline.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from context_engine.stores import Index
from context_engine.wiring import build_api, build_pipeline
from context_engine.worlds import AUDIENCE, world_settings
from core import principals
from core.access import Scope, ScopeId, Trim
from core.clock import FixedClock, SystemClock
from core.directory import Container, DirectoryPerson, PersonKind
from core.embedding.port import Embedder
from core.guards import RateLimitSettings
from core.index.edge import EdgeIndex
from core.items import Item
from core.principals import Principal, PrincipalSet, issue_asker
from core.settings import Settings
from fixtures.sandbox.server import SandboxServer
from fixtures.sandbox.world import build_world
from graph.db import Database
from graph.directory import DirectoryStore
from graph.records import ItemStore
from graph.scopes import ScopeStore
from ingestion.pipeline import Pipeline, Tally
from query.api import ApiServices, create_app
from query.principals import PrincipalResolver
from tests.sandbox import small
from tests.support.postgres import FreshDatabase, PostgresServer

NOW = datetime.fromisoformat(small.NOW)
CONNECTORS = ("azure_devops", "teams")
LABELS = ("Public", "Internal", "Secret")


@contextmanager
def issuer_of(people: Mapping[str, Any]) -> Iterator[SandboxServer]:
    """The sandbox's issuer for these people (as a world has them), and nothing behind it."""
    folder = Path(tempfile.mkdtemp(prefix="context-engine-issuer-"))
    data = {"format": 1, "name": "lab", "now": small.NOW, "tenant_id": small.TENANT, "people": dict(people)}
    try:
        with SandboxServer(build_world(data), folder, remember=False) as server:
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class Lab:
    """Open stores, the service over them, and a client of its API."""

    sandbox: SandboxServer
    settings: Settings
    ingest: Database
    query: Database
    index: EdgeIndex
    pipeline: Pipeline
    scopes: ScopeStore
    items: ItemStore
    services: ApiServices
    client: TestClient

    def who(self, person: str) -> Principal:
        """A person's principal."""
        return principals.user(small.TENANT, self.sandbox.state.oid(person))

    def directory(self, containers: Iterable[Container]) -> None:
        """Let the directory hold the issuer's people and these containers, and nothing else."""
        people = [
            DirectoryPerson(
                principal=self.who(key),
                name=person.name,
                kind=PersonKind(person.kind),
                enabled=self.sandbox.state.enabled(key),
                manager=self.who(person.manager) if person.manager else None,
            )
            for key, person in self.sandbox.state.world.people.items()
        ]
        store, at = DirectoryStore(self.ingest), SystemClock().now()
        store.apply("teams", people, containers, complete=True, at=at)
        store.apply("azure_devops", (), (), complete=True, at=at)

    def permissions(self, scopes: Iterable[Scope], *, at: datetime | None = None) -> None:
        """Take these for all scopes there are; every one of them was read just now (or at `at`)."""
        when = at or SystemClock().now()
        self.scopes.apply("azure_devops", tuple(scopes), complete=True, at=when)
        for connector in CONNECTORS:
            self.scopes.touch(connector, when)

    def write(self, items: Iterable[Item]) -> None:
        """Bring items into record, index and what is derived."""
        for _, error in self.pipeline.upsert_all(list(items), at=SystemClock().now(), tally=Tally()):
            raise error

    def rewrite_index(self) -> None:
        """Let every rule reach the index, as the background does."""
        for scope_id, allowed, version in self.scopes.pending():
            self.index.writer.set_access(scope_id, allowed, version)
            self.scopes.mark_indexed(scope_id, version)

    def token(self, person: str, **odd: Any) -> str:
        """A person's token; keywords as for `Issuer.mint`."""
        return self.sandbox.token(person, **{"audience": AUDIENCE, **odd})

    def call(self, person: str, method: str, path: str, **given: Any) -> Any:
        """One request as a person."""
        headers = {"Authorization": f"Bearer {self.token(person)}", **given.pop("headers", {})}
        return self.client.request(method, path, headers=headers, **given)

    def ask(self, person: str, question: str, **more: Any) -> dict[str, Any]:
        """A bundle for a person."""
        answer = self.call(person, "POST", "/v1/context", json={"question": question, "explain": True, **more})
        assert answer.status_code == 200, answer.text
        data: dict[str, Any] = answer.json()
        return data

    def principals(self, person: str) -> PrincipalSet:
        """Everything that a person counts as, by the directory."""
        asker = issue_asker(principal=self.who(person), tenant=small.TENANT, agent=None, scopes=frozenset())
        directory = DirectoryStore(self.query, required=CONNECTORS)
        return PrincipalResolver(directory, self._reading_scopes()).resolve(asker)

    def trim(self, person: str) -> Trim:
        """What a person may read, worked out anew."""
        return self._reading_scopes().trim_for(self.principals(person))

    def _reading_scopes(self) -> ScopeStore:
        return ScopeStore(self.query, revocation_limit=self.settings.revocation_limit)


@contextmanager
def laboratory(postgres: PostgresServer, embedder: Embedder, sandbox: SandboxServer, **overrides: Any) -> Iterator[Lab]:
    """An empty laboratory in stores of its own. `overrides` are settings."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="context-engine-lab-", dir=memory if memory.is_dir() else None))
    made = postgres.fresh_database()
    try:
        with ExitStack() as stack:
            yield _opened(stack, folder, made, embedder, sandbox, overrides)
    finally:
        postgres.drop(made)
        shutil.rmtree(folder, ignore_errors=True)


def _opened(
    stack: ExitStack,
    folder: Path,
    made: FreshDatabase,
    embedder: Embedder,
    sandbox: SandboxServer,
    overrides: Mapping[str, Any],
) -> Lab:
    unlimited = RateLimitSettings(asker_per_minute=0, agent_per_minute=0)
    given = {"revocation_sla": 86_400, "sources": CONNECTORS, "labels": LABELS, "rate_limits": unlimited}
    settings = world_settings(sandbox, folder, {**given, **overrides})
    ingest = stack.enter_context(closing(Database(made.ingest_dsn)))
    query = stack.enter_context(closing(Database(made.query_dsn)))
    edge = EdgeIndex(folder / "qdrant", embedder=embedder.name, size=embedder.size)
    stack.callback(edge.close)
    scopes = ScopeStore(ingest, revocation_limit=settings.revocation_limit)
    services = build_api(settings, query, Index(edge.reader, edge.writer, edge.close), embedder, FixedClock(NOW))
    client = TestClient(create_app(services), base_url="http://127.0.0.1", raise_server_exceptions=False)
    stack.callback(client.close)
    pipeline = build_pipeline(settings, ingest, edge.writer, embedder, scopes)
    return Lab(sandbox, settings, ingest, query, edge, pipeline, scopes, ItemStore(ingest), services, client)


def days_ago(days: float) -> datetime:
    """A time before the laboratory's present."""
    return NOW - timedelta(days=days)


def in_scope(name: str) -> ScopeId:
    """A scope's id."""
    return ScopeId(name)
