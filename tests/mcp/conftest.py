"""One world, two of its people, and what only one of them may read."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.support.engines import LiveEngine

QUESTION = "what changed at the partner gateway?"


@dataclass(frozen=True)
class TwoPeople:
    """`hidden` is an address that `one` may read and `other` may not, `shared` one that both may."""

    live: LiveEngine
    one: str
    other: str
    hidden: str
    shared: str


@pytest.fixture(scope="session")
def live(engines: dict[str, LiveEngine]) -> LiveEngine:
    """The demo company's engine."""
    return engines["contoso"]


@pytest.fixture(scope="session")
def two(live: LiveEngine) -> TwoPeople:
    """Two people whose permissions differ."""
    sandbox = live.engine.sandbox
    assert sandbox is not None
    people = [k for k, p in sandbox.state.world.people.items() if p.kind == "member" and sandbox.state.enabled(k)][:4]
    given = {person: _given(live, person) for person in people}
    for one in people:
        for other in people:
            hidden = sorted(u for u in given[one] if live.expand(other, u).status_code == 404)
            shared = sorted(given[one] & given[other])
            if hidden and shared:
                return TwoPeople(live, one, other, hidden[0], shared[0])
    raise AssertionError("everybody may read everything that was asked for: the world proves nothing")


def _given(live: LiveEngine, person: str) -> set[str]:
    return {e["uri"] for e in live.ask(person, QUESTION)["evidence"]}
