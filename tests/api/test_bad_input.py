"""Bad input gets a clear answer as problem+json, and nothing is lost or learnt."""

from __future__ import annotations

from typing import Any

import pytest

from tests.invariants.test_who_asks import member
from tests.support.engines import LiveEngine


@pytest.mark.parametrize(
    "body",
    [
        {"question": ""},
        {"question": "   \n\t "},
        {"question": "x" * 100_000},
        {"question": "a\x00b"},
        {"question": "a\x1b[31mred"},
        {"question": 7},
        {},
        {"question": "ok", "max_tokens": 0},
        {"question": "ok", "max_tokens": 5},
        {"question": "ok", "as_of": "yesterday"},
        {"question": "ok", "as_of": "2026-01-01T00:00:00"},
        {"question": "ok", "as_of": "0001-01-01T00:00:00+14:00"},
        {"question": "ok", "as_of": "9999-12-31T23:59:59-14:00"},
        {"question": "ok", "focus": [{"item": f"ctx://ado/o/{n}"} for n in range(51)]},
        {"question": "ok", "focus": {"panel": "x"}},
        {"question": "ok", "focus": "x"},
        ["question"],
    ],
)
def test_a_malformed_request_is_422_and_says_what_is_wrong(world_engine: LiveEngine, body: Any) -> None:
    answer = world_engine.post(member(world_engine), body)
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["title"]
    assert len(answer.content) < 4000


def test_a_body_that_is_not_json_is_422(world_engine: LiveEngine) -> None:
    token = world_engine.token(member(world_engine))
    answer = world_engine.client.post(
        "/v1/context",
        content=b"\xff\xfe{{{",
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    assert answer.status_code == 422
    assert "traceback" not in answer.text.lower()


def test_an_unknown_route_and_method_are_problems_too(world_engine: LiveEngine) -> None:
    for answer, status in (
        (world_engine.client.get("/v1/everything"), 404),
        (world_engine.client.get("/v1/context"), 405),
    ):
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/problem+json"


def test_a_focus_that_is_hidden_and_one_that_does_not_exist_get_the_same_answer(engines: dict[str, LiveEngine]) -> None:
    from fixtures.sandbox import references
    from fixtures.sandbox.access import may_read

    for live in engines.values():
        sandbox = live.engine.sandbox
        assert sandbox is not None
        state = sandbox.state
        asker = member(live)
        numbers = [
            item.id
            for project in (state.world.azure_devops.projects if state.world.azure_devops else {}).values()
            for item in project.work_items
            if not may_read(state, asker, f"work_item:{item.id}")
        ]
        assert numbers, "this asker reads every work item: the test proves nothing"
        hidden = references.target(state, f"work_item:{numbers[0]}").uri
        missing = hidden.rsplit("/", 1)[0] + "/99999999"
        answers = [live.ask(asker, {"question": "what is this?", "focus": {"item": uri}}) for uri in (hidden, missing)]
        for answer in answers:
            (focus,) = answer["interpreted_as"]["focus"]
            assert focus["resolved"] is False
            assert focus["uri"] is None
            assert focus["title"] is None
        assert answers[0]["digest"] == answers[1]["digest"], "the two can be told apart"


def test_expanding_a_hidden_item_answers_like_one_that_does_not_exist(engines: dict[str, LiveEngine]) -> None:
    from fixtures.sandbox import references
    from fixtures.sandbox.access import may_read

    for live in engines.values():
        sandbox = live.engine.sandbox
        assert sandbox is not None
        state = sandbox.state
        assert state.world.azure_devops is not None
        asker = member(live)
        hidden = next(
            references.target(state, f"work_item:{i.id}").uri
            for p in state.world.azure_devops.projects.values()
            for i in p.work_items
            if not may_read(state, asker, f"work_item:{i.id}")
        )
        answers = [live.expand(asker, uri) for uri in (hidden, hidden.rsplit("/", 1)[0] + "/99999999", "nonsense")]
        assert [a.status_code for a in answers] == [404, 404, 404]
        assert len({a.text for a in answers}) == 1


def test_markdown_comes_where_it_is_asked_for_and_fences_what_it_quotes(world_engine: LiveEngine) -> None:
    answer = world_engine.post(member(world_engine), {"question": "where is the guide?"}, Accept="text/markdown")
    assert answer.headers["content-type"].startswith("text/markdown")
    again = world_engine.post(member(world_engine), {"question": "where is the guide?"}, Accept="text/markdown")
    assert answer.text.splitlines()[0]
    assert answer.text != again.text, "the fence around quoted text is new in every answer"


def test_health_and_readiness_answer_without_a_token(world_engine: LiveEngine) -> None:
    assert world_engine.client.get("/healthz").json() == {"status": "ok"}
    ready = world_engine.client.get("/readyz")
    assert ready.status_code == 200
    assert ready.json()["stores"] == {"postgres": "ok", "qdrant": "ok"}


@pytest.mark.parametrize(
    "focus",
    [
        {"url": "https://dev.azure.com/contoso-connect/Integrations/_git/partner-gateway?path=/README.md"},
        {"file": "partner-gateway/README.md"},
        {"channel": "19:"},
        {"channel": "19:a"},
    ],
)
def test_a_focus_that_may_not_be_read_is_not_taken_for_another_of_a_like_name(
    engines: dict[str, LiveEngine], focus: dict[str, str]
) -> None:
    # Oliver reads no code of Integrations, and a README.md elsewhere.
    bundle = engines["contoso"].ask("oliver", {"question": "what is this?", "focus": focus})
    assert [f["resolved"] for f in bundle["interpreted_as"]["focus"]] == [False]
