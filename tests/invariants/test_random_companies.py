"""Non-interference over random companies: what an asker is told is the same whether what they may not read is there.

Each company is written into real stores without what the asker may not read, and asked; then the rest is written as
well, and the same is asked again: bundles (all sections, order, scores, digest, counts), people, meanings, opened items
and headers must be the same byte for byte. Then what the next asker may not read is deleted, and the company that is
left must tell them what the whole one did. RANDOM_COMPANIES says how many (12), RANDOM_COMPANIES_SEED where to begin.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from core.clock import SystemClock
from core.items import Item
from fixtures.sandbox.server import SandboxServer
from ingestion.pipeline import Tally
from tests.support.guard_checks import comparable
from tests.support.laboratory import Lab, issuer_of, laboratory
from tests.support.postgres import PostgresServer
from tests.support.quick_embedder import QuickEmbedder
from tests.support.random_company import ASKERS, PEOPLE, random_access, random_items, random_questions

COMPANIES = int(os.environ.get("RANDOM_COMPANIES", "12"))
SEED = os.environ.get("RANDOM_COMPANIES_SEED", "quay")
# Headers that differ from one response to the next, whoever asks what.
_OWN_HEADERS = frozenset({"date", "x-request-id"})


@pytest.fixture(scope="module")
def issuer() -> Iterator[SandboxServer]:
    """Tokens for the people of every company."""
    with issuer_of(PEOPLE) as server:
        yield server


@pytest.mark.invariant("INV-4", "INV-8", "INV-11")
@pytest.mark.parametrize("number", range(COMPANIES))
def test_an_answer_does_not_depend_on_what_its_asker_may_not_read(
    number: int, postgres: PostgresServer, issuer: SandboxServer
) -> None:
    chance = Random(f"{SEED}/{number}")
    access = random_access(chance)
    with laboratory(postgres, QuickEmbedder(), issuer) as lab:
        lab.directory(access.containers(lab))
        lab.permissions(access.scopes(lab))
        items = random_items(chance, lab)
        first, second = chance.sample(ASKERS, 2)
        hidden = {who: [i for i in items if not access.may_read(who, i.scope)] for who in (first, second)}
        bodies = random_questions(chance, items)
        _write(lab, [i for i in items if i not in hidden[first]])
        alone = told(lab, first, bodies, items)
        _write(lab, hidden[first])
        assert told(lab, first, bodies, items) == alone, f"{SEED}/{number}: {first}, after the rest was written"
        whole = told(lab, second, bodies, items)
        lab.pipeline.delete(
            [i.uri for i in hidden[second]], at=SystemClock().now(), reason="gone", tally=Tally(), stated=False
        )
        assert told(lab, second, bodies, items) == whole, f"{SEED}/{number}: {second}, after the rest was deleted"
        named = {uri for answer in whole for uri in re.findall(r"ctx://[^\s\"\\]+", answer)}
        asked = {str(b["focus"]["item"]) for b in bodies if "focus" in b}
        assert named & {i.uri for i in hidden[second]} <= asked, "addresses of hidden items were told"


def _write(lab: Lab, items: list[Item]) -> None:
    lab.write(items)
    lab.rewrite_index()


def told(lab: Lab, person: str, bodies: list[dict[str, Any]], items: list[Item]) -> list[str]:
    """Everything that the ways in tell a person, comparable."""
    answers: list[str] = []

    def keep(answer: Any) -> Any:
        headers = {k: v for k, v in answer.headers.items() if k.lower() not in _OWN_HEADERS}
        body = answer.json()
        answers.append(f"{answer.status_code} {json.dumps(headers, sort_keys=True)} {comparable(body)}")
        return body

    for body in bodies:
        bundle = keep(lab.call(person, "POST", "/v1/context", json={**body, "explain": True}))
        for evidence in bundle.get("evidence", [])[:1]:
            keep(lab.call(person, "GET", "/v1/items", params={"uri": evidence["uri"]}))
    keep(lab.call(person, "GET", "/v1/people", params={"topic": bodies[0]["question"]}))
    keep(lab.call(person, "GET", "/v1/definitions", params={"term": "SLA"}))
    for item in items[:3]:
        keep(lab.call(person, "GET", "/v1/items", params={"uri": item.uri}))
    return answers


def test_the_companies_differ_in_what_people_may_read(issuer: SandboxServer) -> None:
    shares = []
    for number in range(40):
        access = random_access(Random(f"{SEED}/{number}"))
        shares += [sum(access.may_read(who, s) for s in access.rules) / len(access.rules) for who in ASKERS]
    assert 0.2 < sum(shares) / len(shares) < 0.8
    assert sum(0 < share < 1 for share in shares) > len(shares) / 2


def test_a_difference_would_be_seen(postgres: PostgresServer, issuer: SandboxServer) -> None:
    """The comparison is no empty one: an item that the asker may read changes what they are told."""
    chance = Random(f"{SEED}/seen")
    access = replace(random_access(chance), rules={s: [[{"allow": ["p0"]}]] for s in random_access(chance).rules})
    with laboratory(postgres, QuickEmbedder(), issuer) as lab:
        lab.directory(access.containers(lab))
        lab.permissions(access.scopes(lab))
        items = random_items(chance, lab)
        bodies = random_questions(chance, items)
        _write(lab, items[:-1])
        before = told(lab, "p0", bodies, items)
        _write(lab, [replace(items[-1], title="Harbor " * 3 + bodies[0]["question"])])
        assert told(lab, "p0", bodies, items) != before
