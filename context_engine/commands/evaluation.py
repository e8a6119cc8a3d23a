"""eval: golden questions, a line each, then the totals."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from context_engine.commands.screen import Screen
from context_engine.commands.target import Target
from context_engine.embedded import owned
from context_engine.evaluate import Report, Result, evaluate
from context_engine.questions import load_questions
from context_engine.stores import build_embedder
from context_engine.worlds import forget
from core.embedding.cache import CachingEmbedder
from core.errors import ConfigError
from core.settings import load_settings

VECTORS = "vectors.sqlite"


def run_eval(target: Target, questions: Path | None, *, as_json: bool) -> int:
    """Evaluate on a data folder of its own, since questions after events change the world."""
    if target.world is None:
        raise ConfigError("eval runs on a world", mend="Give one with --world")
    file = questions or target.world / "questions.yaml"
    asked = load_questions(file)
    out = Console(width=80, quiet=as_json)
    target = Target(_fresh(target.data / "eval"), target.world, None, target.real_clock)
    with ExitStack() as stack:
        screen = stack.enter_context(Screen(quiet=as_json))
        cache = CachingEmbedder(build_embedder(load_settings()), target.data / VECTORS)
        engine = stack.enter_context(target.open(on_progress=screen.progress, on_step=screen.step, embedder=cache))
        screen.reports(engine.sync())
        screen.__exit__(None, None, None)
        report = evaluate(
            engine,
            asked,
            on_result=lambda r: _line(out, r),
            on_event=lambda e: out.print(f"[dim]after {e}[/dim]"),
        )
    if as_json:
        print(json.dumps(report.to_json(), ensure_ascii=False))
    else:
        _totals(out, report)
    return report.exit_status


def _fresh(data: Path) -> Path:
    """An eval begins before the world's first event: its stores are made anew, only the vectors of texts are kept."""
    data.mkdir(parents=True, exist_ok=True)
    with owned(data):
        forget(data)
    return data


def _line(out: Console, result: Result) -> None:
    if result.passed:
        out.print(f"[green]passed[/green] {result.question.id}  [dim]{result.latency_ms:.0f} ms[/dim]")
        return
    out.print(f"[red]failed[/red] {result.question.id} as {result.question.as_}: {escape(result.question.ask)}")
    for f in result.verdict.failures:
        leak = "[bold red]LEAK[/bold red] " if f.expect == "absent" else ""
        out.print(f"       {leak}{f.expect}: wanted {escape(_short(f.wanted))}", highlight=False)
        out.print(f"       found {escape(_short(f.found))}", highlight=False)


def _totals(out: Console, report: Report) -> None:
    totals = report.to_json()["totals"]
    out.print(
        f"\n{totals['passed']} of {totals['asked']} passed, {totals['leaks']} leaks, "
        f"recall@10 {totals['recall_at_10']:.2f}, MRR {totals['mrr']:.2f}, "
        f"p50 {totals['latency_ms']['p50']} ms, p95 {totals['latency_ms']['p95']} ms",
        highlight=False,
    )


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 600 else f"{text[:600]}…"
