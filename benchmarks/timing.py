"""Whether the time of an answer tells of what its asker may not read.

    .venv/bin/python -m benchmarks.timing [--world DIR] [--as PERSON] [--copies N] [--rounds N] [--json]

The world stands three times: as it is, once more as it is, and with `copies` near-duplicates of every page that the
asker may read, in a wiki that only somebody else may read. The asker's questions are put to all three over HTTP, in an
order drawn anew each time, so that whatever else the machine does falls on all alike. The first against the third is
the question; the first against the second is what the machine makes of nothing.

Two statistics say whether two samples of latencies can be told apart, as somebody who measures them from outside would
try to: the share of pairs in which one is slower (Mann and Whitney 1947; 0.5: no difference), and the largest distance
between the two distributions (Kolmogorov and Smirnov; 0: none). Their significance is that of a permutation test: under
the hypothesis that nothing can be told, the latencies of one question in one round may be exchanged, so that is done at
random `PERMUTATIONS` times. p is the share of exchanges with a statistic at least as far off. With n pairs, a
difference of 2.8 standard errors is found in 80 of 100 runs at a level of 5%: that is told as the detectable effect.
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray

from benchmarks.report import machine, tell
from context_engine.commands.target import DEMO_WORLD
from context_engine.embedded import EmbeddedEngine
from context_engine.http_server import LoopbackServer
from context_engine.questions import load_questions
from context_engine.worlds import AUDIENCE
from core.embedding.port import Embedder
from core.embedding.sentence_transformers import SentenceTransformersEmbedder
from core.guards import RateLimitSettings
from fixtures.sandbox import world_models as m
from fixtures.sandbox.access import may_read
from fixtures.sandbox.refs import Ref
from fixtures.sandbox.state import SandboxState
from fixtures.sandbox.world import load_world

PERMUTATIONS = 2_000
VARIANTS = ("alone", "alone again", "with hidden copies")
HIDDEN_WIKI = "Hidden copies"
Sample = NDArray[np.float64]


def with_hidden_copies(world: m.World, asker: str, copies: int) -> tuple[m.World, int]:
    """The world with near-duplicates of what the asker may read of its wikis, for somebody else's eyes; how many."""
    state = SandboxState(world)
    made = world.model_copy(deep=True)
    assert made.azure_devops is not None
    other = next(k for k in world.people if k != asker and state.enabled(k))
    pages: dict[str, m.Page] = {}
    for wiki, found in sorted(state.lookup.pages.items()):
        for path in sorted(found):
            if not may_read(state, asker, Ref("page", (wiki, path))):
                continue
            text = state.page_now(wiki, path).page.revisions[-1].content
            for n in range(copies):
                said = m.PageRevision(by=other, at=world.now, content=f"{text}\n\nCopy {n} of {path}.")
                pages[f"{path.rpartition('/')[2]} {wiki} {n}"] = m.Page(revisions=[said])
    project = next(iter(made.azure_devops.projects.values()))
    only_other = [m.AclEntry(to=other, allow=["read"])]
    project.wikis[HIDDEN_WIKI] = m.Wiki(acl=only_other, inherit=False, pages=pages)
    return made, len(pages)


def measure(
    world: Path | m.World,
    data: Path,
    *,
    questions: list[str],
    asker: str,
    copies: int = 3,
    rounds: int = 20,
    embedder: Embedder | None = None,
    seed: int = 1,
    stores: Callable[[], Mapping[str, Any]] = dict,
) -> dict[str, Any]:
    """Put every question `rounds` times to each variant, after two rounds to warm up. `stores` are settings of each
    engine's own; where there are none, it starts its own."""
    whole = load_world(world) if isinstance(world, Path) else world
    model = embedder or SentenceTransformersEmbedder(None, threads=2)
    crowded, hidden = with_hidden_copies(whole, asker, copies)
    chance = Random(seed)  # noqa: S311 - an order of questions is no secret
    times = {name: list[float]() for name in VARIANTS}
    unlimited = {"rate_limits": RateLimitSettings(asker_per_minute=0, agent_per_minute=0), "revocation_sla": 86_400}
    with ExitStack() as stack:
        clients, digests = {}, {name: list[str]() for name in VARIANTS}
        for name in VARIANTS:
            variant = crowded if name == VARIANTS[2] else whole
            folder = data / name.replace(" ", "-")
            engine = stack.enter_context(
                EmbeddedEngine(data=folder, world=variant, embedder=model, overrides={**unlimited, **stores()})
            )
            engine.sync()
            assert engine.sandbox is not None
            server = stack.enter_context(LoopbackServer(engine.app))
            token = engine.sandbox.token(asker, audience=AUDIENCE, expires_in=86_400)
            headers = {"Authorization": f"Bearer {token}"}
            clients[name] = stack.enter_context(httpx.Client(base_url=server.url, timeout=60, headers=headers))
        for turn in range(-2, rounds):
            for question in chance.sample(questions, len(questions)):
                for name in chance.sample(VARIANTS, len(VARIANTS)):
                    started = time.perf_counter()
                    answer = clients[name].post("/v1/context", json={"question": question})
                    took = time.perf_counter() - started
                    answer.raise_for_status()
                    digests[name].append(answer.json()["digest"])
                    if turn >= 0:
                        times[name].append(took * 1000)
    samples = {name: np.asarray(found) for name, found in times.items()}
    return {
        "asker": asker,
        "questions": len(questions),
        "rounds": rounds,
        "hidden_items": hidden,
        "pairs": len(samples[VARIANTS[0]]),
        "permutations": PERMUTATIONS,
        "same_answers": digests[VARIANTS[0]] == digests[VARIANTS[1]] == digests[VARIANTS[2]],
        "median_ms": {name: round(statistics.median(found), 2) for name, found in times.items()},
        "p95_ms": {name: round(float(np.quantile(found, 0.95)), 2) for name, found in samples.items()},
        "hidden": compare(samples[VARIANTS[0]], samples[VARIANTS[2]], seed),
        "nothing": compare(samples[VARIANTS[0]], samples[VARIANTS[1]], seed),
        "machine": machine(),
        "date": datetime.now(UTC).date().isoformat(),
    }


def compare(one: Sample, other: Sample, seed: int) -> dict[str, float | bool]:
    """Both statistics of two paired samples, their significance, and what difference would have been found."""
    chance = np.random.default_rng(seed)
    slower, distance = share_slower(one, other), largest_distance(one, other)
    further = [0, 0]
    for _ in range(PERMUTATIONS):
        swap = chance.random(len(one)) < 0.5
        a, b = np.where(swap, other, one), np.where(swap, one, other)
        further[0] += abs(share_slower(a, b) - 0.5) >= abs(slower - 0.5) - 1e-12
        further[1] += largest_distance(a, b) >= distance - 1e-12
    p_slower, p_distance = ((n + 1) / (PERMUTATIONS + 1) for n in further)
    differences = other - one
    error = float(np.std(differences, ddof=1)) / math.sqrt(len(one))
    return {
        "share_slower": round(slower, 4),
        "p_share_slower": round(p_slower, 4),
        "distance": round(distance, 4),
        "p_distance": round(p_distance, 4),
        "mean_difference_ms": round(float(np.mean(differences)), 3),
        "detectable_ms": round(2.8 * error, 3),
        # Two tests, one level: each at half of 5%.
        "told_apart": min(p_slower, p_distance) < 0.025,
    }


def share_slower(one: Sample, other: Sample) -> float:
    """The share of pairs of one from each in which `other`'s is the slower; ties count half."""
    ordered = np.sort(one)
    below = np.searchsorted(ordered, other, "left") + np.searchsorted(ordered, other, "right")
    return float(below.sum()) / (2 * len(one) * len(other))


def largest_distance(one: Sample, other: Sample) -> float:
    """The largest distance between the two empirical distributions."""
    at = np.concatenate([one, other])
    shares = [np.searchsorted(np.sort(x), at, "right") / len(x) for x in (one, other)]
    return float(np.abs(shares[0] - shares[1]).max())


def show(result: dict[str, Any]) -> None:
    """The result as Markdown."""
    print(f"{result['date']}, {result['machine']}")
    print(
        f"{result['questions']} questions of {result['asker']}, {result['rounds']} rounds, {result['pairs']} pairs; "
        f"{result['hidden_items']} hidden near-duplicates. The answers are "
        f"{'the same' if result['same_answers'] else 'NOT the same'}.\n"
    )
    print("| | median ms | p95 ms |\n| --- | ---: | ---: |")
    for name in VARIANTS:
        print(f"| {name} | {result['median_ms'][name]} | {result['p95_ms'][name]} |")
    print("\n| against it alone | slower in | p | distance | p | mean difference ms | detectable ms | told apart |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |")
    for name, key in ((VARIANTS[2], "hidden"), (VARIANTS[1], "nothing")):
        r = result[key]
        print(
            f"| {name} | {r['share_slower']:.1%} | {r['p_share_slower']} | {r['distance']} | {r['p_distance']} | "
            f"{r['mean_difference_ms']} | {r['detectable_ms']} | {'yes' if r['told_apart'] else 'no'} |"
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", type=Path, default=DEMO_WORLD)
    parser.add_argument("--as", dest="asker", default="stephan")
    parser.add_argument("--copies", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    asked = [q.ask for q in load_questions(given.world / "questions.yaml").questions if q.after is None]
    with tempfile.TemporaryDirectory(prefix="context-engine-timing-") as folder:
        result = measure(
            given.world,
            given.data or Path(folder),
            questions=list(dict.fromkeys(asked)),
            asker=given.asker,
            copies=given.copies,
            rounds=given.rounds,
        )
    tell(result, show, as_json=given.json)


if __name__ == "__main__":
    main()
