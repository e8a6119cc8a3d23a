"""Every hidden item holds words that stand nowhere else: no response, header, error, log line or metric ever does.

All ways in are gone by askers who may not read, with questions of every kind, the hidden words themselves among them
(then only the word that was typed may come back). The asker who may read finds them, so the traps are set.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from opentelemetry import trace
from prometheus_client import CollectorRegistry, generate_latest

from context_engine.metrics import EngineCollector
from core.errors import StoreUnavailableError
from fixtures.sandbox import references
from tests.support import ways_in
from tests.support.canary_world import Canaries, canary_world
from tests.support.engines import LiveEngine, live_engine
from tests.support.postgres import PostgresServer
from tests.support.quick_embedder import QuickEmbedder
from tests.support.ways_in import Client

READER, ASKERS = "ann", ("ben", "cat", "gil")
QUESTIONS = (
    "How are harbor invoices settled?",
    "what does SLA mean?",
    "who knows about the settlement window?",
    "what changed last month?",
    "which decision was taken?",
)
WAYS = [
    *((name, way) for kinds in (ways_in.ASK, ways_in.PEOPLE, ways_in.DEFINE) for name, way in kinds.items()),
]
# The test's own client says which addresses it calls.
_CLIENT = ("httpx", "httpcore")


class Trap:
    """The engine over the world, everything that came back, and everything that was logged meanwhile."""

    def __init__(self, live: LiveEngine, canaries: Canaries) -> None:
        self.live, self.canaries = live, canaries
        self.told: list[tuple[str, str]] = []
        live.client.event_hooks = {"response": [self._keep]}
        sandbox = live.engine.sandbox
        assert sandbox is not None
        self.state = sandbox.state

    def _keep(self, response: httpx.Response) -> None:
        response.read()
        headers = " ".join(f"{k}: {v}" for k, v in response.headers.items())
        self.told.append((str(response.request.url), f"{response.status_code} {headers} {response.text}".lower()))

    def hidden(self, person: str) -> set[str]:
        """The words that a person must never be told."""
        return self.canaries.hidden_from(self.state, person)

    def addresses(self) -> list[str]:
        """Addresses of everything there is, and of what was deleted."""
        found = (references.target(self.state, str(ref)).uri for ref in self.state.everything())
        return sorted({uri for uri in found if uri is not None})

    def ask(self, person: str, way: Callable[[Client, str], ways_in.Told], text: str) -> str:
        """Go one way, and return all that came back, without what was typed."""
        start = len(self.told)
        way(Client(self.live.client, self.live.token(person)), text)
        return " ".join(answer for _, answer in self.told[start:]).replace(text.lower(), "")


@pytest.fixture(scope="module")
def trap(postgres: PostgresServer) -> Iterator[Trap]:
    """The world of canaries, crawled by the real connectors."""
    world, canaries = canary_world()
    with live_engine(world, postgres, QuickEmbedder()) as live:
        yield Trap(live, canaries)


@pytest.fixture
def logged() -> Iterator[list[str]]:
    """Every line that is logged meanwhile, at any level, by anybody but the test's own client."""
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if not record.name.startswith(_CLIENT):
                lines.append(self.format(record).lower())

    root, handler = logging.getLogger(), Keep(logging.DEBUG)
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield lines
    root.setLevel(level)
    root.removeHandler(handler)


def escaped(words: set[str], told: str) -> list[str]:
    """Which of the words stand in an answer."""
    return sorted(word for word in words if word in told)


def test_the_traps_are_set(trap: Trap) -> None:
    """Who may read the words is told them, and each asker has some that are hidden from them."""
    found = {
        word
        for word, of in trap.canaries.planted.items()
        if of is not None and word in trap.ask(READER, ways_in.ASK["context as JSON"], f"{word} settled")
    }
    told = " ".join(answer for _, answer in trap.told)
    mine = {word for word, of in trap.canaries.planted.items() if of is not None}
    assert len({w for w in mine if w in told}) > 0.7 * len(mine), sorted(mine - found)
    assert all(len(trap.hidden(person)) > 15 for person in ASKERS)


@pytest.mark.invariant("INV-3", "INV-4", "INV-8")
@pytest.mark.parametrize("person", ASKERS)
def test_no_answer_and_no_log_line_holds_a_hidden_word(person: str, trap: Trap, logged: list[str]) -> None:
    hidden = trap.hidden(person)
    for question in QUESTIONS:
        for name, way in WAYS:
            assert escaped(hidden, trap.ask(person, way, question)) == [], (name, question)
    for n, word in enumerate(sorted(hidden)):
        name, way = WAYS[n % len(WAYS)]
        assert escaped(hidden - {word}, trap.ask(person, way, word)) == [], (name, word)
    for n, uri in enumerate(trap.addresses()):
        name, way = list(ways_in.OPEN.items())[n % len(ways_in.OPEN)]
        told = trap.ask(person, way, uri)
        typed = {word for word in hidden if word in uri}
        assert escaped(hidden - typed, told) == [], (name, uri)
    assert [line for line in logged if escaped(hidden, line)] == []


@pytest.mark.invariant("INV-3")
def test_a_focus_on_what_is_hidden_tells_nothing(trap: Trap, logged: list[str]) -> None:
    for person in ASKERS:
        hidden = trap.hidden(person)
        for uri in trap.addresses()[:: 1 + len(ASKERS)]:
            body = {
                "question": "what is this?",
                "focus": [{"item": uri}, {"channel": "Core/Board"}, {"file": "vault/x"}],
            }
            told = trap.ask(person, lambda c, _, b=body: c.post("/v1/context", b), uri)
            assert escaped(hidden - {w for w in hidden if w in uri}, told) == []
        assert [line for line in logged if escaped(hidden, line)] == []


@pytest.mark.invariant("INV-3")
def test_what_comes_to_grief_over_a_hidden_text_tells_nothing_of_it(
    trap: Trap, logged: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    word = next(iter(sorted(trap.hidden("ben"))))
    failures = (
        RuntimeError(f"row of {word}"),
        KeyError(word),
        StoreUnavailableError("qdrant", f"could not read {word}", mend=word),
        ValueError(f"{word} is no value"),
    )
    for failure in failures:

        def fail(*_: object, error: Exception = failure, **__: object) -> None:
            raise error

        monkeypatch.setattr(trap.live.engine.services.service.engine._gatherer._retriever, "search", fail)
        for name, way in ways_in.ASK.items():
            assert escaped({word}, trap.ask("ben", way, "How are harbor invoices settled?")) == [], (name, failure)
        monkeypatch.undo()
    assert any("unexpected error" in line for line in logged), "the failures were not logged: this proves nothing"
    assert [line for line in logged if word in line] == []


@pytest.mark.invariant("INV-3")
def test_no_span_of_a_trace_holds_a_word_of_an_item_or_of_a_question(
    trap: Trap, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Libraries beneath us trace by themselves wherever a process sets up a tracer."""
    spans: list[str] = []

    class Spy(trace.NoOpTracer):
        def start_span(self, name: str, *given: Any, **named: Any) -> trace.Span:
            spans.append(f"{name} {given} {named}".lower())
            return super().start_span(name, *given, **named)

        @contextmanager
        def start_as_current_span(self, name: str, *given: Any, **named: Any) -> Iterator[trace.Span]:
            spans.append(f"{name} {given} {named}".lower())
            yield trace.INVALID_SPAN

    class Provider(trace.TracerProvider):
        def get_tracer(self, *_: Any, **__: Any) -> trace.Tracer:
            return Spy()

    monkeypatch.setattr(trace, "_TRACER_PROVIDER", Provider())
    with trace.get_tracer("probe").start_as_current_span("probe"):
        assert len(spans) == 1
    typed = sorted(trap.hidden("ben"))[0]
    for _, way in (*WAYS, *ways_in.OPEN.items()):
        trap.ask("ben", way, f"{typed} settled")
    told = " ".join(spans)
    assert escaped(set(trap.canaries.planted), told) == []
    assert "settled" not in told


@pytest.mark.invariant("INV-4")
def test_no_metric_holds_a_planted_word(trap: Trap) -> None:
    registry = CollectorRegistry()
    registry.register(EngineCollector(trap.live.engine.database, trap.live.engine.settings))
    told = generate_latest(registry).decode().lower() + generate_latest().decode().lower()
    assert "context_engine_up 1.0" in told
    assert escaped(set(trap.canaries.planted), told) == []


@pytest.mark.invariant("INV-3")
def test_no_audit_entry_holds_text_of_an_item(trap: Trap) -> None:
    """What was asked is kept as a digest, and what was given as addresses (an address may hold a file's name)."""
    with trap.live.engine.database.connection() as connection:
        rows = connection.execute("SELECT * FROM audit").fetchall()
    assert rows
    titled = {word for word, of in trap.canaries.planted.items() if of is not None and not of.startswith("repo:")}
    answered = [str({k: v for k, v in row.items() if k not in ("interpreted_as", "asked", "question")}) for row in rows]
    assert [row for row in answered if escaped(titled, row.lower())] == []
