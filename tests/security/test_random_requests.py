"""Random requests made from the OpenAPI document, good and bad, by somebody with a valid token: never a 500.

What is refused is refused as problem+json, and nothing that comes back holds a word that the asker may not read.
RANDOM_REQUESTS says how many for each route and mode.
"""

from __future__ import annotations

import json
import os
from typing import Any

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase
from schemathesis import GenerationMode

from tests.support import border
from tests.support.guard_checks import Border

REQUESTS = int(os.environ.get("RANDOM_REQUESTS", "100"))


@pytest.mark.invariant("INV-3", "INV-5")
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=lambda m: str(m.value))
@pytest.mark.parametrize("path", ["/v1/context", "/v1/items", "/v1/people", "/v1/definitions", "/v1/status"])
def test_no_request_brings_the_engine_to_a_fault(path: str, mode: GenerationMode, at_the_border: Border) -> None:
    lab = at_the_border.whole
    hidden, token = sorted(at_the_border.hidden_words(border.ASKER)), lab.token(border.ASKER)
    document = lab.client.get("/openapi.json").json()
    schema = schemathesis.openapi.from_dict(document)
    (operation,) = [o.ok() for o in schema.get_all_operations() if o.ok().path == path]
    asked = 0

    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    @hypothesis.settings(
        max_examples=REQUESTS,
        database=None,
        deadline=None,
        derandomize="RANDOM_REQUESTS" not in os.environ,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def ask(case: Any) -> None:
        nonlocal asked
        given = case.as_transport_kwargs()
        headers = {k: v for k, v in (given.get("headers") or {}).items() if k.lower() not in ("authorization", "host")}
        answer = lab.client.request(
            given["method"],
            path,
            params=given.get("params"),
            json=given.get("json"),
            headers={**headers, "Authorization": f"Bearer {token}"},
        )
        asked += 1
        typed = json.dumps([given.get("params"), given.get("json")], default=str).lower()
        assert answer.status_code < 500, (typed, answer.text)
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == "application/problem+json"
            assert {"type", "title", "status"} <= answer.json().keys()
        assert [w for w in hidden if w in answer.text.lower() and w not in typed] == []

    try:
        ask()
    except hypothesis.errors.Unsatisfiable:
        assert path == "/v1/status", "nothing could be made up for this route"  # it takes nothing that could be wrong
        return
    assert asked >= min(REQUESTS, 2)
