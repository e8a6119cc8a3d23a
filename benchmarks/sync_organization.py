"""What a sync of a generated organization costs: a full one, one after 1% changed, one after nothing did.

    .venv/bin/python -m benchmarks.sync_organization [--scale 0.05] [--seed N] [--data DIR] [--json]

The sandbox runs in a process of its own, so that memory is the engine's. Each step is timed by its own clock, less the
steps inside it. The embedder's own rate is taken in the same run, on texts of the same organization. Shares, ratios
and counts of requests can be compared between machines, times can't.
"""

from __future__ import annotations

import argparse
import functools
import json
import re
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import psycopg

from benchmarks.get_context import Spans, machine
from benchmarks.organization_server import served, settings_for
from context_engine.embedded import EmbeddedEngine
from ingestion.sync import RunReport

STEPS = {
    "embedding": "embedding",
    "index": "index",
    "postgres": "Postgres, waiting for it",
    "source": "source, waiting for it",
    "rest": "our own code",
}
RUNS = {"full": "full", "changed": "after 1% changed", "idle": "after nothing did"}
_WRITES = (
    "replace_item",
    "replace_items",
    "delete_items",
    "move_item",
    "set_access",
    "vectors_of",
    "flush",
    "count_points",
)
_SAMPLE = 400
_WORD = re.compile(
    r"^(_apis|wit|git|wiki|graph|reporting|repositories|users|groups|projects|[a-z]{4,})$", re.IGNORECASE
)


@dataclass
class Leg:
    """One run of one reader, or of the permission export, less what is nested in it."""

    name: str
    seconds: float = 0.0
    requests: Counter[str] = field(default_factory=Counter)
    report: RunReport | None = None


@dataclass
class Watch:
    """Clocks and counters on an engine, and its memory as the sync goes on."""

    spans: Spans = field(default_factory=Spans)
    legs: list[Leg] = field(default_factory=list)
    memory: list[tuple[float, float]] = field(default_factory=list)
    _open: list[Leg] = field(default_factory=list)

    def watch_legs(self, synchronizer: Any, method: str) -> None:
        """Note each run of a reader: permissions are read again in the middle of a long one."""
        original: Callable[..., RunReport] = getattr(synchronizer, method)

        @functools.wraps(original)
        def run(connector: Any, *rest: Any, **options: Any) -> RunReport:
            leg = Leg(f"{connector.name}/{rest[0].name if rest else 'access'}")
            self._open.append(leg)
            self.legs.append(leg)
            started = time.perf_counter()
            try:
                leg.report = original(connector, *rest, **options)
                return leg.report
            finally:
                took = time.perf_counter() - started
                leg.seconds += took
                self._open.pop()
                if self._open:
                    self._open[-1].seconds -= took

        setattr(synchronizer, method, run)

    def begin(self) -> None:
        """Forget what was before."""
        self.legs = []
        self.spans.take()

    @contextmanager
    def sampling(self) -> Iterator[None]:
        """Sample the memory of this process, once in a while."""
        stop, started = threading.Event(), time.perf_counter()

        def sample() -> None:
            while not stop.wait(0.25):
                self.memory.append((time.perf_counter() - started, rss()))

        thread = threading.Thread(target=sample, daemon=True)
        self.memory.append((0.0, rss()))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
            self.memory.append((time.perf_counter() - started, rss()))

    def attach(self, engine: EmbeddedEngine) -> None:
        """Put clocks on everything that a sync waits for."""
        for method in ("sync_access", "sync_reader"):
            self.watch_legs(engine.synchronizer, method)
        self.spans.watch(engine.embedder, "embed_documents", "embedding")
        for method in _WRITES:
            if hasattr(engine.index.writer, method):
                self.spans.watch(engine.index.writer, method, "index")
        self.spans.watch(psycopg.Connection, "wait", "postgres")
        send = httpx.Client.send

        def counted(client: httpx.Client, request: httpx.Request, **options: Any) -> httpx.Response:
            if self._open:
                self._open[-1].requests[kind_of(request.url.path)] += 1
            with self.spans.step("source"):
                return send(client, request, **options)

        httpx.Client.send = counted  # type: ignore[method-assign, assignment]


def kind_of(path: str) -> str:
    """What a request asks for, without the names in it: `git/repositories/commits/changes`."""
    parts = path.partition("/_apis/")[2].split("/") if "/_apis/" in path else path.strip("/").split("/")
    kept = [p for p in parts if re.fullmatch(r"[A-Za-z]+(\$?[A-Za-z])*", p) and not re.fullmatch(r"[0-9a-f]{7,}", p)]
    return "/".join(kept).lower().removeprefix("graph/v")


def rss() -> float:
    """Memory of this process in MB."""
    text = Path("/proc/self/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", text).group(1)) / 1024  # type: ignore[union-attr]


def sync(engine: EmbeddedEngine, watch: Watch) -> dict[str, Any]:
    """One sync, and what it took."""
    watch.begin()
    started = time.perf_counter()
    engine.sync()
    seconds = time.perf_counter() - started
    taken, calls = watch.spans.take()
    spent = {**taken, "rest": seconds - sum(taken.values())}
    counts: Counter[str] = Counter()
    legs: dict[str, Leg] = {}
    for leg in watch.legs:
        assert leg.report is not None
        if not leg.name.endswith("/access"):
            counts.update({k: n for k, n in leg.report.counts.items() if ":" not in k})
        same = legs.setdefault(leg.name, Leg(leg.name, report=leg.report))
        same.seconds += leg.seconds
        same.requests += leg.requests
    requests = sum((leg.requests for leg in watch.legs), Counter[str]())
    runs = Counter(leg.name for leg in watch.legs)
    return {
        "seconds": round(seconds, 2),
        "complete": all(leg.report is not None and leg.report.state == "complete" for leg in watch.legs),
        "reasons": [leg.report.reason for leg in watch.legs if leg.report is not None and leg.report.reason],
        "counts": dict(counts),
        "requests": requests.total(),
        "requests_by_kind": dict(requests.most_common()),
        "steps": {name: round(spent.get(name, 0.0) / seconds, 3) for name in STEPS},
        "embedding_seconds": round(taken["embedding"], 2),
        "postgres_waits": calls["postgres"],
        "legs": {
            leg.name: {"runs": runs[leg.name], "seconds": round(leg.seconds, 2), "requests": leg.requests.total()}
            for leg in legs.values()
        },
    }


def items_of(engine: EmbeddedEngine) -> dict[str, int]:
    """How many items of each kind the record holds."""
    with engine.database.connection() as connection:
        rows = connection.execute("SELECT kind, count(*) AS n FROM items WHERE lifecycle = 'live' GROUP BY kind")
        return {row["kind"]: row["n"] for row in rows.fetchall()}


def own_rate(engine: EmbeddedEngine) -> float:
    """Chunks a second that the embedder does on its own, on texts of this organization."""
    with engine.database.connection() as connection:
        rows = connection.execute("SELECT embedded_text FROM chunks ORDER BY md5(uri || ordinal) LIMIT %s", [_SAMPLE])
        texts = [row["embedded_text"] for row in rows.fetchall()]
    started = time.perf_counter()
    engine.embedder.embed_documents(texts)
    return len(texts) / (time.perf_counter() - started)


def measure(scale: float, seed: int, data: Path) -> dict[str, Any]:
    """Serve an organization and sync it three times."""
    watch = Watch()
    with (
        served(scale, seed, data / "organization") as told,
        EmbeddedEngine(data=data / "engine", settings=settings_for(told, data / "engine")) as engine,
    ):
        engine.embedder.embed_documents(["warm"])
        watch.attach(engine)
        with watch.sampling():
            full = sync(engine, watch)
        memory = watch.memory
        checkpoints = checkpoint_sizes(engine)
        chunks, kinds = engine.index.writer.count_points(), items_of(engine)
        httpx.post(f"{told['url']}/_sandbox/events/{told['last_event']}", timeout=600).raise_for_status()
        changed = sync(engine, watch)
        idle = sync(engine, watch)
        rate = own_rate(engine)
    items = sum(kinds.values())
    at = [next(m for t, m in memory if t >= share * memory[-1][0]) for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
    return {
        "scale": scale,
        "sandbox_seconds": told["seconds"],
        "items": items,
        "kinds": kinds,
        "chunks": chunks,
        "embedder_chunks_per_second": round(rate, 1),
        "full_chunks_per_second": round(chunks / full["seconds"], 1),
        "items_per_second": round(items / full["seconds"], 1),
        "share_of_embedder": round(chunks / full["seconds"] / rate, 2),
        "requests_per_item": round(full["requests"] / items, 2),
        "memory_mb": {"start": at[0], "25%": at[1], "50%": at[2], "75%": at[3], "end": at[4]},
        "memory_peak_mb": max(m for _, m in memory),
        "checkpoint_bytes": checkpoints,
        "full": full,
        "changed": changed,
        "idle": idle,
        "machine": machine(),
        "date": datetime.now(UTC).date().isoformat(),
    }


def checkpoint_sizes(engine: EmbeddedEngine) -> dict[str, int]:
    """Bytes of each reader's checkpoint, as it is rewritten with each batch."""
    with engine.database.connection() as connection:
        rows = connection.execute("SELECT reader, octet_length(data::text) AS bytes FROM checkpoints ORDER BY reader")
        return {row["reader"]: row["bytes"] for row in rows.fetchall()}


def show(result: dict[str, Any]) -> None:
    """The result as Markdown, at most 80 columns wide."""
    print(f"{result['date']}, {result['machine']}")
    print(f"Scale {result['scale']}: {result['items']} items, {result['chunks']} chunks.\n")
    print("| sync | seconds | requests | embedded | Postgres waits |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, label in RUNS.items():
        run = result[name]
        embedded = run["counts"].get("embedded", 0)
        print(f"| {label} | {run['seconds']:.1f} | {run['requests']} | {embedded} | {run['postgres_waits']} |")
        if not run["complete"]:
            print(f"\nNot complete: {'; '.join(run['reasons'])}\n")
    print("\n| reader: seconds (requests) | full | 1% changed | nothing |\n| --- | ---: | ---: | ---: |")
    for reader in result["full"]["legs"]:
        cells = []
        for name in RUNS:
            leg = result[name]["legs"].get(reader, {"runs": 0, "seconds": 0.0, "requests": 0})
            each = max(leg["runs"], 1)
            cells.append(f"{leg['seconds'] / each:.1f} ({leg['requests'] // each})")
        print(f"| {reader} | {' | '.join(cells)} |")
    print("\n| step of the full sync | share |\n| --- | ---: |")
    for name, label in STEPS.items():
        print(f"| {label} | {result['full']['steps'][name]:.0%} |")
    print("\n| memory (MB) | " + " | ".join(result["memory_mb"]) + " | peak |")
    print("| --- |" + " ---: |" * 6)
    print(
        f"| engine | {' | '.join(f'{m:.0f}' for m in result['memory_mb'].values())} | {result['memory_peak_mb']:.0f} |"
    )
    print(
        f"\n{result['items_per_second']} items/s; {result['full_chunks_per_second']} chunks/s, "
        f"{result['share_of_embedder']:.0%} of the\nembedder's own {result['embedder_chunks_per_second']}; "
        f"{result['requests_per_item']} requests an item."
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", type=Path, help="where to ingest to, kept (default: a folder that is removed)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="context-engine-benchmark-") as folder:
        result = measure(options.scale, options.seed, options.data or Path(folder))
    if options.json:
        json.dump(result, sys.stdout)
    else:
        show(result)


if __name__ == "__main__":
    main()
