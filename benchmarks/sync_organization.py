"""What a sync of a generated organization costs: a full one, one after 1% changed, one after nothing did.

    .venv/bin/python -m benchmarks.sync_organization [--scale 0.05] [--seed N] [--data DIR] [--json] [--cheap-vectors]

The sandbox runs in a process of its own, so that memory is the engine's. Each step is timed by its own clock, less the
steps inside it. The embedder's own rate is taken in the same run, on texts of the same organization. Shares, ratios
and counts of requests can be compared between machines, times can't. With --cheap-vectors texts are cut as for the
model and not embedded by it: what a sync costs besides.
"""

from __future__ import annotations

import argparse
import hashlib
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from benchmarks.organization_server import served, settings_for
from benchmarks.report import machine, tell
from benchmarks.sync_watch import Leg, Watch
from context_engine.embedded import EmbeddedEngine
from core.embedding.sentence_transformers import SentenceTransformersEmbedder
from core.index.port import DenseVector

STEPS = {
    "embedding": "embedding",
    "index": "index",
    "postgres": "Postgres, waiting for it",
    "source": "source, waiting for it",
    "rest": "our own code",
}
RUNS = {"full": "full", "changed": "after 1% changed", "idle": "after nothing did"}
_SAMPLE = 400


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
            leg.name: {
                "runs": runs[leg.name],
                "seconds": round(leg.seconds, 2),
                "requests": leg.requests.total(),
                "items": leg.report.counts.get("seen", 0) if leg.report else 0,
            }
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


class CheapVectors(SentenceTransformersEmbedder):
    """Counts tokens as the model does, and makes vectors of digests."""

    def embed_documents(self, texts: Sequence[str]) -> list[DenseVector]:
        """A unit vector of a text's digest."""
        found = []
        for text in texts:
            seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
            drawn = np.random.default_rng(seed).standard_normal(self.size)
            found.append((drawn / np.linalg.norm(drawn)).astype(np.float32))
        return found


def measure(scale: float, seed: int, data: Path, *, cheap_vectors: bool = False) -> dict[str, Any]:
    """Serve an organization and sync it three times."""
    watch = Watch()
    embedder = CheapVectors(threads=2) if cheap_vectors else SentenceTransformersEmbedder(threads=2)
    with (
        served(scale, seed, data / "organization") as told,
        EmbeddedEngine(data=data / "engine", settings=settings_for(told, data / "engine"), embedder=embedder) as engine,
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
    shares = {"start": 0.0, "25%": 0.25, "50%": 0.5, "75%": 0.75, "end": 1.0}
    at = {name: next(m for t, m in memory if t >= share * memory[-1][0]) for name, share in shares.items()}
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
        "memory_mb": {name: m._asdict() for name, m in at.items()},
        "memory_peak_mb": max(m.resident for _, m in memory),
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
        rows = connection.execute(
            "SELECT source || '/' || reader AS name, octet_length(data::text) AS bytes FROM checkpoints ORDER BY name"
        )
        return {row["name"]: row["bytes"] for row in rows.fetchall()}


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
    print("\n| reader: s (requests) | full | 1% changed | nothing | requests an item |\n| --- |" + " ---: |" * 4)
    for reader, whole in result["full"]["legs"].items():
        cells = []
        for name in RUNS:
            leg = result[name]["legs"].get(reader, {"runs": 0, "seconds": 0.0, "requests": 0})
            each = max(leg["runs"], 1)
            cells.append(f"{leg['seconds'] / each:.1f} ({leg['requests'] // each})")
        an_item = f"{whole['requests'] / whole['items']:.2f}" if whole["items"] else ""
        print(f"| {reader.removeprefix('azure_devops/')} | {' | '.join(cells)} | {an_item} |")
    print("\n| step of the full sync | share |\n| --- | ---: |")
    for name, label in STEPS.items():
        print(f"| {label} | {result['full']['steps'][name]:.0%} |")
    memory = result["memory_mb"]
    print("\n| memory (MB) | " + " | ".join(memory) + " |")
    print("| --- |" + " ---: |" * len(memory))
    print(f"| resident | {' | '.join(str(round(m['resident'])) for m in memory.values())} |")
    print(f"| of it the index's mapped files | {' | '.join(str(round(m['mapped'])) for m in memory.values())} |")
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
    parser.add_argument("--cheap-vectors", action="store_true", help="embed nothing: what a sync costs besides")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="context-engine-benchmark-") as folder:
        result = measure(options.scale, options.seed, options.data or Path(folder), cheap_vectors=options.cheap_vectors)
    tell(result, show, as_json=options.json)


if __name__ == "__main__":
    main()
