"""Every golden question of every world passes, over HTTP, with a token of its asker, without one leak."""

from __future__ import annotations

import pytest

from context_engine.evaluate import Report, evaluate
from context_engine.questions import load_questions
from core.embedding.port import Embedder
from tests.support.engines import WORLD_NAMES, WORLDS, live_engine
from tests.support.postgres import PostgresServer


@pytest.fixture(scope="module", params=WORLD_NAMES)
def report(request: pytest.FixtureRequest, postgres: PostgresServer, embedder: Embedder) -> Report:
    with live_engine(WORLDS / request.param, postgres, embedder) as live:
        return evaluate(live.engine, load_questions(WORLDS / request.param / "questions.yaml"))


def test_nothing_leaks(report: Report) -> None:
    leaks = {r.question.id: [f for f in r.verdict.failures if f.expect == "absent"] for r in report.results}
    assert {k: v for k, v in leaks.items() if v} == {}
    assert report.leaks == 0


def test_every_golden_question_passes(report: Report) -> None:
    failed = {r.question.id: [f.to_json() for f in r.verdict.failures] for r in report.results if not r.passed}
    assert failed == {}
    assert len(report.results) >= 20
    assert report.exit_status == 0
