"""One truth table, every way in: search, opening, people, meanings and history agree with a naive model of the world.

For every asker of both golden worlds, cached and not, at every size of page: what is listed can be opened, what can be
opened is found by its own words, and what may not be opened is nowhere. By default each asker is held to a share of
the questions and items, another share for each; TRUTH_TABLE=all takes them all.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any

import pytest

from context_engine.questions import Question
from graph.epoch import move_epoch
from tests.invariants.test_non_interference import comparable
from tests.support import ways_in
from tests.support.engines import WORLD_NAMES, WORLDS, LiveEngine, questions_of
from tests.support.truth import Truth, addresses_in, every, naive_model, node_of
from tests.support.ways_in import Client

ALL = os.environ.get("TRUTH_TABLE") == "all"
SIZES = (400, 1500, 6000, 20_000)
HISTORY = (
    {"question": "what changed last month?"},
    {"question": "how was this done before?", "as_of": "2025-09-01T00:00:00Z"},
)


def askers() -> list[tuple[str, str]]:
    """Every person of both worlds who could ask."""
    from fixtures.sandbox.world import load_world

    people = [(world, load_world(WORLDS / world).people) for world in WORLD_NAMES]
    return [(world, key) for world, found in people for key, p in found.items() if p.kind != "service" and not p.left]


class Bench:
    """The truths of both worlds, and clients."""

    def __init__(self, engines: dict[str, LiveEngine]) -> None:
        self.engines = engines
        self.truth = {name: Truth(live) for name, live in engines.items()}
        self.places = {asker: n for n, asker in enumerate(askers())}

    def client(self, world: str, person: str) -> Client:
        """A client with a person's token."""
        return Client(self.engines[world].client, self.engines[world].token(person))

    def questions(self, world: str, person: str) -> list[Question]:
        """A share of the golden questions, another for each asker."""
        return every(questions_of(world), 0 if ALL else 1, self.places[world, person] * 7)


@pytest.fixture(scope="module")
def bench(engines: dict[str, LiveEngine]) -> Bench:
    """Both worlds with their truths."""
    for live in engines.values():
        live.engine.keep_access_fresh()
    return Bench(engines)


def assert_all_may_be_read(truth: Truth, person: str, told: ways_in.Told, why: str) -> set[str]:
    """Every address that an answer names opens for its asker; they are returned."""
    assert told.status == 200, (why, told.text)
    found = addresses_in(told.text)
    assert {u for u in found if not truth.opens(person, u)} == set(), why
    return found


@pytest.mark.invariant("INV-3", "INV-8")
@pytest.mark.parametrize(("world", "person"), askers())
def test_what_is_told_may_be_read_and_what_is_listed_opens(world: str, person: str, bench: Bench) -> None:
    truth, client = bench.truth[world], bench.client(world, person)
    place, listed = bench.places[world, person], set[str]()
    asked = [q.ask for q in bench.questions(world, person)]
    for kinds, texts in (
        (ways_in.ASK, [*asked, *[h["question"] for h in every(HISTORY, 0 if ALL else 1, place)]]),
        (ways_in.PEOPLE, asked),
        (ways_in.DEFINE, ["CSR", "ETB"] if ALL else [("CSR", "ETB")[place % 2]]),
    ):
        ways = list(kinds.items())
        for n, text in enumerate(texts):
            # Each way is gone by every few askers, and all of them by all together.
            for name, way in ways if ALL else every(ways, 1, place + n):
                listed |= assert_all_may_be_read(truth, person, way(client, text), f"{name}: {text}")
    opening = list(ways_in.OPEN.items())
    for n, uri in enumerate(every(sorted(listed), 0 if ALL else 12, place)):
        for name, way in opening if ALL else every(opening, 1, place + n):
            listed_there = assert_all_may_be_read(truth, person, way(client, uri), f"{name}: {uri}")
            assert any(u.startswith(uri.split("/comments/")[0].split("/replies/")[0]) for u in listed_there)


@pytest.mark.invariant("INV-3", "INV-5")
@pytest.mark.parametrize(("world", "person"), askers())
def test_exactly_what_may_be_read_opens(world: str, person: str, bench: Bench) -> None:
    truth, client = bench.truth[world], bench.client(world, person)
    place, readable = bench.places[world, person], truth.readable(person)
    unreadable = sorted((truth.refs.keys() | truth.stored.keys()) - readable)
    opening = list(ways_in.OPEN.items())
    for uris, status in ((sorted(readable), 200), (unreadable, 404)):
        for n, uri in enumerate(every(uris, 0 if ALL else 8, place)):
            for name, way in opening if ALL else every(opening, 1, place + n):
                told = way(client, uri)
                assert told.status == status, (name, uri, truth.titles.get(uri))
                assert addresses_in(told.text) <= {uri} or status == 200, (name, uri)
    answers = {client.get("/v1/items", {"uri": u}).text for u in (*every(unreadable, 3, place), "ctx://ado/x/y", "x")}
    assert len(answers) == 1, "what is hidden and what does not exist can be told apart"


@pytest.mark.invariant("INV-3")
@pytest.mark.parametrize(("world", "person"), askers())
def test_what_may_be_opened_is_found_by_its_own_words(world: str, person: str, bench: Bench) -> None:
    truth, client = bench.truth[world], bench.client(world, person)
    lost = []
    for uri in every(sorted(truth.readable(person)), 0 if ALL else 2, bench.places[world, person] * 3):
        told = client.post("/v1/context", {"question": truth.own_words(uri), "max_tokens": 20_000})
        if uri not in assert_all_may_be_read(truth, person, told, truth.own_words(uri)):
            lost.append((uri, truth.own_words(uri)))
    assert lost == []


@pytest.mark.invariant("INV-3", "INV-11")
@pytest.mark.parametrize(("world", "person"), askers() if ALL else askers()[::4])
def test_every_size_of_page_tells_of_the_same_items_and_asking_again_the_same(
    world: str, person: str, bench: Bench
) -> None:
    truth, client, live = bench.truth[world], bench.client(world, person), bench.engines[world]
    for question in bench.questions(world, person):
        body: dict[str, Any] = {"question": question.ask}
        refused = client.post("/v1/context", {**body, "max_tokens": 1})
        assert refused.status == 422
        least = max(
            int(n)
            for n in re.findall(r"\d+", json.loads(refused.text)["title"] + json.loads(refused.text).get("detail", ""))
        )
        seen: list[set[str]] = []
        for size in (least, *SIZES):
            told = client.post("/v1/context", {**body, "max_tokens": size})
            assert_all_may_be_read(truth, person, told, f"{question.ask} in {size} tokens")
            bundle = json.loads(told.text)
            assert bundle["budget"]["used"] <= size
            kept = {e["uri"] for e in bundle["evidence"]}
            seen.append(kept | {p["uri"] for p in bundle["more"]["items"]})
            assert len(kept) + bundle["more"]["dropped"] == _found(bundle), size
        assert all(fewer <= seen[-1] for fewer in seen)
        first = json.loads(client.post("/v1/context", body).text)
        again = json.loads(client.post("/v1/context", body).text)
        with live.engine.database.connection() as connection:
            move_epoch(connection)
        anew = json.loads(client.post("/v1/context", body).text)
        assert comparable(first) == comparable(again) == comparable(anew)


def _found(bundle: dict[str, Any]) -> int:
    return len(bundle["evidence"]) + int(bundle["more"]["dropped"])


@pytest.mark.invariant("INV-3")
@pytest.mark.parametrize("world", WORLD_NAMES)
def test_the_past_is_told_by_the_permissions_of_the_present(world: str, bench: Bench) -> None:
    truth = bench.truth[world]
    for person in every(truth.askers, 0 if ALL else 3):
        client = bench.client(world, person)
        for body in HISTORY:
            answers = [
                client.post("/v1/context", body),
                client.post("/v1/context", body, ways_in.MARKDOWN),
                client.mcp("tools/call", {"name": "get_context", "arguments": body}),
            ]
            for told in answers:
                assert_all_may_be_read(truth, person, told, f"{person}: {body}")
            if "as_of" in body:
                times = [e["created_at"] for e in json.loads(answers[0].text)["evidence"] if e["created_at"]]
                assert all(time <= body["as_of"] for time in times)


@pytest.mark.invariant("INV-1")
@pytest.mark.parametrize("world", WORLD_NAMES)
def test_an_agent_is_told_what_its_person_may_read(world: str, bench: Bench) -> None:
    live, truth = bench.engines[world], bench.truth[world]
    assert live.engine.sandbox is not None
    for person in every(truth.askers, 3):
        question = bench.questions(world, person)[0].ask
        bundles = []
        for agent in ("11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"):
            token = live.engine.sandbox.token(person, overrides={"azp": agent})
            told = Client(live.client, token).post("/v1/context", {"question": question})
            assert_all_may_be_read(truth, person, told, question)
            bundles.append(json.loads(told.text))
            assert bundles[-1]["asker"]["agent"] == agent
        for bundle in bundles:
            bundle["asker"].pop("agent")
            bundle.pop("digest")
        assert comparable(bundles[0]) == comparable(bundles[1])


@pytest.mark.invariant("INV-5")
@pytest.mark.parametrize("world", WORLD_NAMES)
def test_who_left_and_who_is_no_person_are_told_nothing(world: str, bench: Bench) -> None:
    state = bench.truth[world].state
    leavers = [k for k in state.world.people if not state.enabled(k)]
    services = [k for k, p in state.world.people.items() if p.kind == "service"]
    assert leavers
    assert services
    for person in (*leavers, *services):
        client = bench.client(world, person)
        for way, text in ((w, t) for kinds, t in _WAYS for w in kinds.values()):
            told = way(client, text)
            assert told.status == (401 if person in leavers else 403)
            assert addresses_in(told.text) == set()


_WAYS = ((ways_in.ASK, "status?"), (ways_in.OPEN, "ctx://x"), (ways_in.PEOPLE, "status"), (ways_in.DEFINE, "ETB"))


@pytest.mark.parametrize("world", WORLD_NAMES)
def test_the_oracle_and_the_naive_evaluator_say_the_same(world: str, bench: Bench) -> None:
    from fixtures.sandbox.access import may_read

    state = bench.truth[world].state
    naive = naive_model(state)
    compared = 0
    for refs in bench.truth[world].refs.values():
        for ref in refs:
            node = node_of(state, ref)
            if node is None or ref in state.deleted or (ref.kind == "file" and not _at_head(state, ref)):
                continue
            for person, model in state.world.people.items():
                if model.kind != "service":  # whether a public project is public to programs, the two see differently
                    compared += 1
                    assert naive.may_read(person, *node) == may_read(state, person, ref), (person, ref)
    assert compared > 300


def _at_head(state: Any, ref: Any) -> bool:
    return state.file_path_now(*ref.parts) in state.files(ref.parts[0])


@pytest.mark.parametrize("world", WORLD_NAMES)
def test_the_stores_hold_what_somebody_may_read(world: str, bench: Bench) -> None:
    truth = bench.truth[world]
    assert truth.stored.keys() <= truth.refs.keys(), "the engine holds items that the world does not have"
    assert all(truth.readable(p) for p in truth.askers), "somebody may read nothing: they prove little"
    assert any(len(truth.readable(p)) < len(truth.stored) for p in truth.askers)
