"""The eval command: ingest a world through the connectors, ask every golden question over HTTP with a token of its
asker, and judge each bundle."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import httpx
from pydantic import ValidationError

from context_engine.embedded import EmbeddedEngine
from context_engine.http_server import LoopbackServer
from context_engine.judge import Failed, Judge, Verdict
from context_engine.questions import FocusRef, Question, QuestionFile
from context_engine.worlds import AUDIENCE
from core.bundle import Bundle
from core.errors import ContextEngineError, InputError
from fixtures.sandbox import references

ASK_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Result:
    """One question's outcome."""

    question: Question
    verdict: Verdict
    latency_ms: float

    @property
    def passed(self) -> bool:
        """Whether every expectation was met."""
        return not self.verdict.failures


@dataclass(frozen=True, slots=True)
class Report:
    """All outcomes, in the file's order."""

    world: str
    results: tuple[Result, ...]
    notes: tuple[str, ...] = field(default=())

    @property
    def leaks(self) -> int:
        """How many absent items were found."""
        return sum(r.verdict.leaks for r in self.results)

    @property
    def exit_status(self) -> int:
        """2 for a leak, 1 for a failed question, else 0."""
        if self.leaks:
            return 2
        return 0 if all(r.passed for r in self.results) else 1

    def to_json(self) -> dict[str, Any]:
        """The documented shape of `eval --json`."""
        recalls = [r.verdict.recall_at_10 for r in self.results if r.verdict.recall_at_10 is not None]
        ranks = [r.verdict.reciprocal_rank for r in self.results if r.verdict.reciprocal_rank is not None]
        latencies = [r.latency_ms for r in self.results]
        return {
            "world": self.world,
            "questions": [
                {
                    "id": r.question.id,
                    "passed": r.passed,
                    "latency_ms": round(r.latency_ms, 1),
                    "failures": [f.to_json() for f in r.verdict.failures],
                }
                for r in self.results
            ],
            "totals": {
                "asked": len(self.results),
                "passed": sum(r.passed for r in self.results),
                "leaks": self.leaks,
                "recall_at_10": _mean(recalls),
                "mrr": _mean(ranks),
                "latency_ms": {"p50": percentile(latencies, 0.5), "p95": percentile(latencies, 0.95)},
            },
        }


def evaluate(
    engine: EmbeddedEngine,
    questions: QuestionFile,
    *,
    on_result: Callable[[Result], None] = lambda _: None,
    on_event: Callable[[str], None] = lambda _: None,
) -> Report:
    """Ask all questions of a world's engine, which must be open and synced.

    Questions are asked in the order of their events (those without first), and reported in the file's order. Raises
    InputError for a question that names an event, person or item that the world does not have.
    """
    sandbox = engine.sandbox
    if sandbox is None:
        raise InputError("eval runs on a world", mend="Give one with --world")
    judge = _judge(engine)
    order = _event_order(engine, questions)
    results: dict[str, Result] = {}
    with (
        LoopbackServer(engine.app) as server,
        httpx.Client(base_url=server.url, timeout=ASK_SECONDS, trust_env=False) as client,
    ):
        _warm_up(client)
        applied: str | None = None
        for question in sorted(questions.questions, key=lambda q: order[q.after]):
            if question.after is not None and question.after != applied:
                applied = question.after
                on_event(applied)
                sandbox.apply(applied)
                engine.sync()
            else:
                engine.keep_access_fresh()
            result = _ask(engine, client, judge, question)
            results[question.id] = result
            on_result(result)
    return Report(questions.world, tuple(results[q.id] for q in questions.questions))


def request_body(question: Question, resolve: Callable[[str], str | None]) -> dict[str, Any]:
    """The API's request for a golden question; `resolve` turns a world's reference into a ctx:// address, None where
    it names what has none (a person, a container). Raises InputError for such a focus."""
    body: dict[str, Any] = {"question": question.ask}
    if question.focus is not None:
        several = question.focus if isinstance(question.focus, tuple) else (question.focus,)
        focus = [_focus(f, resolve) for f in several]
        body["focus"] = focus if isinstance(question.focus, tuple) else focus[0]
    if question.max_tokens is not None:
        body["max_tokens"] = question.max_tokens
    if question.as_of is not None:
        body["as_of"] = question.as_of.isoformat()
    return body


def percentile(values: Iterable[float], share: float) -> float:
    """The nearest-rank percentile of `values` (0 where there are none), to a tenth."""
    ordered = sorted(values)
    if not ordered:
        return 0.0
    return round(ordered[max(0, math.ceil(share * len(ordered)) - 1)], 1)


def _ask(engine: EmbeddedEngine, client: httpx.Client, judge: Judge, question: Question) -> Result:
    assert engine.sandbox is not None
    state = engine.sandbox.state
    try:
        token = engine.sandbox.token(question.as_.removeprefix("person:"), audience=AUDIENCE)
        body = request_body(question, lambda ref: references.target(state, ref).uri)
    except ContextEngineError as e:
        raise InputError(f"question {question.id!r}: {e}", where="questions") from e
    started = time.perf_counter()
    answer = client.post("/v1/context", json=body, headers={"Authorization": f"Bearer {token}"})
    latency = (time.perf_counter() - started) * 1000
    bundle = None
    if answer.status_code == 200:
        try:
            bundle = Bundle.model_validate_json(answer.content)
        except ValidationError as e:
            failure = Failed("bundle", "a valid bundle", str(e.errors()[0]["msg"]))
            return Result(question, Verdict((failure,), 0, None, None), latency)
    return Result(question, judge.judge(question, answer.status_code, bundle), latency)


def _judge(engine: EmbeddedEngine) -> Judge:
    assert engine.sandbox is not None
    state = engine.sandbox.state
    return Judge(
        target=lambda ref: references.target(state, ref),
        oid=state.oid,
        tenant=str(state.world.tenant_id),
    )


def _event_order(engine: EmbeddedEngine, questions: QuestionFile) -> dict[str | None, int]:
    assert engine.sandbox is not None
    events = [e.id for e in engine.sandbox.state.world.events]
    order: dict[str | None, int] = {None: -1, **{e: i for i, e in enumerate(events)}}
    for question in questions.questions:
        if question.after not in order:
            raise InputError(
                f"question {question.id!r}: the world has no event {question.after!r}",
                where="questions",
                mend=f"Events: {', '.join(events) or 'none'}",
            )
    return order


def _focus(focus: FocusRef, resolve: Callable[[str], str | None]) -> dict[str, str]:
    given: dict[str, str] = focus.model_dump(exclude_none=True)
    if "item" in given:
        address = resolve(given["item"])
        if address is None:
            raise InputError(f"{given['item']!r} is no item", where="focus.item", mend="Name one, as in work_item:4711")
        given["item"] = address
    for key in ("file", "channel"):
        if key in given:
            given[key] = given[key].removeprefix(f"{key}:")
    return given


def _warm_up(client: httpx.Client) -> None:
    """The first request of a connection pays for set-up that no asker should be charged with."""
    client.get("/healthz")
    client.get("/readyz")


def _mean(values: list[float]) -> float:
    return round(sum(values) / len(values), 4) if values else 0.0
