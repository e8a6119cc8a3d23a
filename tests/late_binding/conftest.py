"""The organization with its secrets and without them, each synced once; what a source says is put back after each
test, and the engines never learn of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from context_engine.stores import Index
from context_engine.wiring import build_api
from core.bundle import Bundle, ContextRequest, Focus
from core.embedding.port import Embedder
from core.guards import LateBindingSettings
from core.principals import VerifiedAsker
from core.views import ItemView
from fixtures.sandbox.server import SandboxServer
from query.service import ContextService
from tests.late_binding.harbour import BEN_LEAVES, BOARD_IS_SHUT, QUESTION, harbour, on_behalf_of
from tests.support.engines import LiveEngine, live_engine
from tests.support.postgres import PostgresServer

Data = dict[str, Any]


@dataclass
class Side:
    """One organization, and the query plane over it with late binding as given."""

    live: LiveEngine

    @property
    def sandbox(self) -> SandboxServer:
        """The services."""
        assert self.live.engine.sandbox is not None
        return self.live.engine.sandbox

    def service(self, late_binding: LateBindingSettings | None = None) -> ContextService:
        """The query plane; by default it asks the sources as the person."""
        engine = self.live.engine
        given = late_binding if late_binding is not None else on_behalf_of(self.sandbox)
        settings = engine.settings.model_copy(update={"late_binding": given})
        assert isinstance(engine.index, Index)
        return build_api(settings, engine.query_database, engine.index, engine.embedder, engine.clock).service

    def asker(self, service: ContextService, person: str) -> VerifiedAsker:
        """Who a token of that person proves."""
        return service.asker(f"Bearer {self.live.token(person)}")

    def ask(
        self,
        person: str | VerifiedAsker,
        question: str = QUESTION,
        *,
        service: ContextService | None = None,
        **more: Any,
    ) -> Bundle:
        """The bundle for a question, with its factors shown. A person comes with a new token each time."""
        service = service or self.service()
        focus = tuple(Focus(**f) for f in more.pop("focus", ()))
        request = ContextRequest(question=question, explain=True, focus=focus or None, **more)
        return service.context(self.asker(service, person) if isinstance(person, str) else person, request)

    def open(self, person: str, uri: str, *, service: ContextService | None = None) -> ItemView:
        """One item in full."""
        service = service or self.service()
        return service.item(self.asker(service, person), uri)


@contextmanager
def _side(postgres: PostgresServer, embedder: Embedder, **given: Any) -> Iterator[Side]:
    with live_engine(harbour(events=[*BOARD_IS_SHUT, BEN_LEAVES], **given), postgres, embedder) as live:
        yield Side(live)


@pytest.fixture(scope="session")
def _sides(postgres: PostgresServer, embedder: Embedder) -> Iterator[Callable[[bool], Side]]:
    with ExitStack() as stack:
        made: dict[bool, Side] = {}

        def of(secret: bool) -> Side:
            if secret not in made:
                made[secret] = stack.enter_context(_side(postgres, embedder, secret=secret))
            return made[secret]

        yield of


@pytest.fixture
def side(_sides: Callable[[bool], Side]) -> Iterator[Side]:
    """The organization with its secrets."""
    made = _sides(True)
    yield made
    made.sandbox.state.reset()
    made.sandbox.faults.clear()


@pytest.fixture
def without_secrets(_sides: Callable[[bool], Side]) -> Iterator[Side]:
    """The organization as if nothing secret had ever been written."""
    made = _sides(False)
    yield made
    made.sandbox.state.reset()
