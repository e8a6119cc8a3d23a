"""The measurement of time by what is hidden: its statistics are right, and it runs to its end at a small size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import timing
from tests.sandbox import small
from tests.sandbox.small import allow, page
from tests.support.postgres import FreshDatabase, PostgresServer
from tests.support.quick_embedder import QuickEmbedder


def test_the_statistics_are_what_their_definitions_say() -> None:
    one, other = np.array([1.0, 2.0, 3.0, 4.0]), np.array([2.0, 3.0, 3.0, 9.0])
    pairs = [(b > a) + 0.5 * (a == b) for a in one for b in other]
    assert timing.share_slower(one, other) == pytest.approx(sum(pairs) / len(pairs))
    assert timing.largest_distance(one, other) == pytest.approx(0.25)
    assert timing.largest_distance(one, one) == 0.0


def test_what_differs_is_told_apart_and_what_does_not_is_not() -> None:
    chance = np.random.default_rng(7)
    one = chance.lognormal(3, 0.4, 400)
    assert not timing.compare(one, chance.permutation(one), 1)["told_apart"]
    slower = timing.compare(one, chance.permutation(one) * 1.1 + 2, 1)
    assert slower["told_apart"]
    assert slower["mean_difference_ms"] > 0


def test_it_runs_to_its_end_and_the_answers_are_the_same(
    tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timing, "PERMUTATIONS", 50)
    made: list[FreshDatabase] = []

    def stores() -> dict[str, str]:
        made.append(postgres.fresh_database())
        return {"postgres_url": made[-1].ingest_dsn, "postgres_query_url": made[-1].query_dsn}

    pages = {"Start": page("Pay within ten days."), "Terms": page("SLA stands for service level agreement.")}
    found = timing.measure(
        small.world({"acl": allow("ben"), "wikis": {"Guide": {"pages": pages}}}),
        tmp_path,
        questions=["pay", "What is SLA?"],
        asker="ben",
        copies=2,
        rounds=2,
        embedder=QuickEmbedder(),
        stores=stores,
    )
    assert len(made) == len(timing.VARIANTS)
    assert found["pairs"] == 4
    assert found["hidden_items"] == 4
    assert found["same_answers"]
