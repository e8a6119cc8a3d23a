"""Where the time of a warm get_context over HTTP goes, in one run over the demo world's golden questions.

    .venv/bin/python -m benchmarks.get_context [--world DIR] [--data DIR] [--rounds N] [--json]

The client, the API and the embedded stores share one process and machine. Every step is timed by its own clock, less
the steps inside it, so the shares add up to the whole. Shares and ratios can be compared between machines, times can't.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import psycopg

import query.api.app
import query.compose
from benchmarks.report import machine, tell
from context_engine.commands.target import DEMO_WORLD
from context_engine.embedded import EmbeddedEngine
from context_engine.evaluate import request_body
from context_engine.http_server import LoopbackServer
from context_engine.questions import load_questions
from context_engine.worlds import AUDIENCE
from fixtures.sandbox import references

STEPS = {
    "embedding": "query embedding",
    "search": "index search",
    "postgres": "Postgres, waiting for it",
    "identity": "token and principals",
    "ranking": "interpreting, ranking, people, meanings",
    "packing": "packing to size",
    "rendering": "rendering Markdown",
    "http": "HTTP, JSON, models",
}


class Spans:
    """Time by step, each less what is nested in it. One request at a time."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self._stack = threading.local()

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Count the time inside as `name`'s."""
        stack: list[float] = self._stack.__dict__.setdefault("nested", [])
        stack.append(0.0)
        started = time.perf_counter()
        try:
            yield
        finally:
            took = time.perf_counter() - started
            self.seconds[name] += took - stack.pop()
            self.calls[name] += 1
            if stack:
                stack[-1] += took

    def watch(self, owner: Any, method: str, name: str) -> None:
        """Count every call of `owner.method` as `name`."""
        original: Callable[..., Any] = getattr(owner, method)

        @functools.wraps(original)
        def timed(*args: Any, **kwargs: Any) -> Any:
            with self.step(name):
                return original(*args, **kwargs)

        setattr(owner, method, timed)

    def take(self) -> tuple[Counter[str], Counter[str]]:
        """Times and calls since the last take."""
        taken = self.seconds, self.calls
        self.seconds, self.calls = Counter(), Counter()
        return taken


def watch(engine: EmbeddedEngine) -> Spans:
    """Put clocks on the steps of a question."""
    spans = Spans()
    services = engine.services
    spans.watch(engine.embedder, "embed_query", "embedding")
    spans.watch(engine.index.reader, "search", "search")
    # Every exchange with the server goes through here.
    spans.watch(psycopg.Connection, "wait", "postgres")
    spans.watch(services.service.verifier, "verify", "identity")
    spans.watch(services.service.resolver, "resolve", "identity")
    spans.watch(services.service.engine, "get_context", "ranking")
    spans.watch(query.compose, "pack", "packing")
    spans.watch(query.api.app, "render_markdown", "rendering")
    return spans


def measure(world: Path, data: Path, rounds: int) -> dict[str, Any]:
    """Ask every golden question that comes before any event `rounds` times, after one round to warm up."""
    with EmbeddedEngine(data=data, world=world) as engine:
        engine.sync()
        assert engine.sandbox is not None
        sandbox = engine.sandbox
        questions = [q for q in load_questions(world / "questions.yaml").questions if q.after is None]
        asks = [
            (
                sandbox.token(q.as_, audience=AUDIENCE),
                request_body(q, lambda reference: references.target(sandbox.state, reference).uri),
            )
            for q in questions
        ]
        spans = watch(engine)
        chunks = engine.index.writer.count_points()
        totals: list[float] = []
        seconds: Counter[str] = Counter()
        calls: Counter[str] = Counter()
        with LoopbackServer(engine.app) as server, httpx.Client(base_url=server.url, timeout=60) as client:
            for turn in range(rounds + 1):
                engine.keep_access_fresh()
                for token, body in asks:
                    spans.take()
                    started = time.perf_counter()
                    answer = client.post(
                        "/v1/context",
                        json=body,
                        headers={"Authorization": f"Bearer {token}", "Accept": "text/markdown"},
                    )
                    took = time.perf_counter() - started
                    if answer.status_code != 200 or turn == 0:
                        continue
                    inner, counted = spans.take()
                    inner["http"] = took - inner.total()
                    totals.append(took)
                    seconds += inner
                    calls += counted
    whole = sum(totals)
    return {
        "world": world.name,
        "chunks": chunks,
        "requests": len(totals),
        "p50_ms": round(statistics.median(totals) * 1000, 1),
        "p95_ms": round(statistics.quantiles(totals, n=20)[18] * 1000, 1),
        "steps": {
            name: {
                "share": round(seconds[name] / whole, 3),
                "mean_ms": round(seconds[name] / len(totals) * 1000, 2),
                "calls": round(calls[name] / len(totals), 1) if name != "http" else 1.0,
            }
            for name in STEPS
        },
        "whole_per_embedding_and_search": round(whole / (seconds["embedding"] + seconds["search"]), 2),
        "machine": machine(),
        "date": datetime.now(UTC).date().isoformat(),
    }


def show(result: dict[str, Any]) -> None:
    """The result as Markdown."""
    print(f"{result['date']}, {result['machine']}")
    print(f"World {result['world']}: {result['chunks']} chunks; {result['requests']} requests.\n")
    print(f"Whole request over HTTP: p50 {result['p50_ms']} ms, p95 {result['p95_ms']} ms.\n")
    print("| step | share | mean ms | calls |\n| --- | ---: | ---: | ---: |")
    for name, label in STEPS.items():
        step = result["steps"][name]
        print(f"| {label} | {step['share']:.0%} | {step['mean_ms']} | {step['calls']:g} |")
    print(f"\nThe whole is {result['whole_per_embedding_and_search']} times its query embedding and index search.")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", type=Path, default=DEMO_WORLD)
    parser.add_argument("--data", type=Path, help="where to ingest to, kept (default: a folder that is removed)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="context-engine-benchmark-") as data:
        result = measure(options.world, options.data or Path(data), options.rounds)
    tell(result, show, as_json=options.json)


if __name__ == "__main__":
    main()
