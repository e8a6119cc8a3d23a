"""A bundle is the same, byte for byte, whether what its asker may not read exists or not.

Each asker puts their own golden questions and every ninth of the others; TEST_QUESTION_SHARE sets another share (1:
all).
"""

from __future__ import annotations

import copy
import json
import os
from typing import Any

import pytest

from context_engine.evaluate import request_body
from core.embedding.port import Embedder
from fixtures.sandbox import references
from fixtures.sandbox.prune import world_without_unreadable
from tests.support.engines import LiveEngine, live_engine, questions_of
from tests.support.postgres import PostgresServer

SHARE = int(os.environ.get("TEST_QUESTION_SHARE", "9"))
# Askers whose views differ most: what one of them lacks, another has. The first are tried at every change.
EVERYBODY = {
    "contoso": ("stephan", "oliver", "jonas", "gita", "priya"),
    "havenlicht": ("femke", "joost", "ruben", "no"),
}
ASKERS = {world: people[: int(os.environ.get("TEST_ASKERS", "2"))] for world, people in EVERYBODY.items()}
# Words that only hidden items hold, and words that everything holds: both must not move anything.
PROBES = (
    "certificate", "CSR", "what is CSR?", "secret", "who knows about certificates?", "decision", "partner", "Falcon",
    "what changed last month?", "ETB", "status", "the the the",
)  # fmt: skip


def comparable(bundle: dict[str, Any]) -> str:
    """The bundle without its id and times of making."""
    data = copy.deepcopy(bundle)
    for key in ("id", "made_at"):
        data.pop(key)
    for source in data["sources"]:
        source.pop("synced_at")
    return json.dumps(data, sort_keys=True, ensure_ascii=False)


def bodies(live: LiveEngine, world: str, asker: str) -> list[dict[str, Any]]:
    """The asker's own golden questions, a share of the others (another one for each asker), and the probes; all with
    their factors shown."""
    assert live.engine.sandbox is not None
    state = live.engine.sandbox.state
    turn = ASKERS[world].index(asker)
    chosen = [q for i, q in enumerate(questions_of(world)) if q.as_ == asker or (i + turn) % SHARE == 0]
    asked = [request_body(q, lambda ref: references.target(state, ref).uri) for q in chosen]
    return [{**body, "explain": True} for body in (*asked, *({"question": p} for p in PROBES))]


@pytest.mark.invariant("INV-4", "INV-8")
@pytest.mark.parametrize(("world", "asker"), [(w, a) for w, askers in ASKERS.items() for a in askers])
def test_a_bundle_does_not_depend_on_what_its_asker_may_not_read(
    world: str, asker: str, engines: dict[str, LiveEngine], postgres: PostgresServer, embedder: Embedder
) -> None:
    full = engines[world]
    assert full.engine.sandbox is not None
    pruned_world = world_without_unreadable(full.engine.sandbox.state.world, asker)
    questions = bodies(full, world, asker)
    with live_engine(pruned_world, postgres, embedder) as pruned:
        assert pruned.engine.index.writer.count_points() < full.engine.index.writer.count_points(), (
            "the asker reads everything: this pair proves nothing"
        )
        for body in questions:
            theirs, ours = full.ask(asker, body), pruned.ask(asker, body)
            assert comparable(theirs) == comparable(ours), body
            assert theirs["digest"] == ours["digest"]
            if body["question"] in {q["question"] for q in questions[:5]}:
                for evidence in theirs["evidence"][:3]:
                    assert full.expand(asker, evidence["uri"]).json() == pruned.expand(asker, evidence["uri"]).json()
