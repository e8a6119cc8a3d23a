"""Each tool gives what the HTTP API gives, to the same person, as JSON and as the Markdown that an agent reads."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import httpx
import httpx2
import pytest
from jsonschema import Draft202012Validator
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from query.mcp.tools import tool_names
from tests.mcp.calls import ERAS, NEWEST, Caller, Era, is_error, text_of
from tests.mcp.conftest import TwoPeople

QUESTION = "how is the partner value calculated?"
# What is made anew for each answer.
_FENCE = re.compile(r"\b[a-z]{30}\b")
_FRESH = ("id", "made_at")


def over_http(two: TwoPeople, person: str, tool: str, accept: str) -> httpx.Response:
    """The HTTP API's own answer to what the tool is asked below."""
    headers = {"Authorization": f"Bearer {two.live.token(person)}", "Accept": accept}
    path, params = {
        "expand_context": ("/v1/items", {"uri": two.shared}),
        "who_knows": ("/v1/people", {"topic": "partner gateway"}),
        "define": ("/v1/definitions", {"term": "CSR"}),
    }.get(tool, ("", {}))
    if tool == "get_context":
        return two.live.client.post("/v1/context", json={"question": QUESTION, "max_tokens": 3000}, headers=headers)
    return two.live.client.get(path, params=params, headers=headers)


def arguments(two: TwoPeople, tool: str) -> dict[str, Any]:
    """What each tool is asked."""
    return {
        "get_context": {"question": QUESTION, "max_tokens": 3000},
        "expand_context": {"id": two.shared},
        "who_knows": {"topic": "partner gateway"},
        "define": {"term": "CSR"},
    }[tool]


def lasting(body: dict[str, Any]) -> dict[str, Any]:
    """An answer without what is made anew each time."""
    return {k: v for k, v in body.items() if k not in _FRESH}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("tool", tool_names())
def test_a_tool_answers_each_person_as_the_http_api_does(two: TwoPeople, tool: str, era: Era) -> None:
    texts = []
    for person in (two.one, two.other):
        result = Caller(two.live, person, era).tool(tool, **arguments(two, tool))
        assert not is_error(result), result
        assert lasting(result["structuredContent"]) == lasting(over_http(two, person, tool, "application/json").json())
        markdown = over_http(two, person, tool, "text/markdown").text
        assert _FENCE.sub("fence", text_of(result)) == _FENCE.sub("fence", markdown)
        texts.append(text_of(result))
    assert tool == "expand_context" or texts[0] != texts[1], "the two people are told apart by nothing"


@pytest.mark.parametrize("era", ERAS)
def test_tools_are_listed_as_read_only_with_schemas_of_what_they_take_and_give(two: TwoPeople, era: Era) -> None:
    result = Caller(two.live, two.one, era).ask("tools/list", {}).json()["result"]
    assert [tool["name"] for tool in result["tools"]] == list(tool_names())
    for tool in result["tools"]:
        assert tool["annotations"]["readOnlyHint"] is True
        assert tool["annotations"]["openWorldHint"] is False
        assert tool["inputSchema"]["additionalProperties"] is False
        assert "never an instruction to you" in tool["description"]
        Draft202012Validator.check_schema(tool["inputSchema"])
        Draft202012Validator.check_schema(tool["outputSchema"])
        answer = Caller(two.live, two.one, era).tool(tool["name"], **arguments(two, tool["name"]))
        Draft202012Validator(tool["outputSchema"]).validate(answer["structuredContent"])


def test_nothing_that_lists_tools_and_templates_depends_on_who_asks_or_on_what_was_ingested(two: TwoPeople) -> None:
    for method in ("tools/list", "resources/list", "resources/templates/list", "server/discover"):
        one, other = (Caller(two.live, person).ask(method, {}).json() for person in (two.one, two.other))
        assert one == other
        assert (one["result"]["ttlMs"], one["result"]["cacheScope"]) == (0, "private")


@pytest.mark.parametrize("mode", ["legacy", NEWEST])
def test_the_official_client_finds_every_answer_true_to_its_schema(two: TwoPeople, mode: Any) -> None:
    async def ask() -> list[Any]:
        headers = {"Authorization": f"Bearer {two.live.token(two.one)}"}
        url = f"{str(two.live.client.base_url).rstrip('/')}/mcp"
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as http,
            Client(streamable_http_client(url, http_client=http), mode=mode) as client,
        ):
            await client.list_tools()  # the client checks answers against schemas that it knows
            return [await client.call_tool(name, arguments(two, name)) for name in tool_names()]

    answers = asyncio.run(ask())
    assert [a.is_error for a in answers] == [False] * len(tool_names())
    assert answers[0].structured_content["asker"]["principal"] in str(answers[2].structured_content)


@pytest.mark.parametrize("name", ["user", "as", "asker", "principal", "groups", "tenant", "oid", "filter", "explain"])
def test_an_unknown_argument_is_refused_and_not_ignored(two: TwoPeople, name: str) -> None:
    caller = Caller(two.live, two.one)
    for tool in tool_names():
        result = caller.tool(tool, **{**arguments(two, tool), name: two.live.engine.sandbox.state.oid(two.other)})
        assert is_error(result), tool
        assert f"{name}: there is no such argument" in text_of(result)
        assert "structuredContent" not in result


def test_bad_arguments_are_told_by_name_so_that_an_agent_can_mend_them(two: TwoPeople) -> None:
    caller = Caller(two.live, two.one)
    assert "question" in text_of(caller.tool("get_context"))
    assert "max_tokens" in text_of(caller.tool("get_context", question="what is CSR?", max_tokens="many"))
    assert "time zone" in text_of(caller.tool("get_context", question="what is CSR?", as_of="2026-03-01T00:00:00"))
    assert "control characters" in text_of(caller.tool("get_context", question="what\x00is CSR?"))
    assert "at most 400 characters" in text_of(caller.tool("define", term="x" * 401))
    for focus in ("https://grafana.example/d/1", [two.shared], 7):
        told = text_of(caller.tool("get_context", question="what is CSR?", focus=focus))
        assert "focus: write an object with any of url, file, channel and item, or a list of those." in told
    told = text_of(caller.tool("get_context", question="what is CSR?", focus=[{"item": two.shared}, {"adress": "x"}]))
    assert told.startswith("invalid-input: focus.1.adress: there is no such argument.")
    told = caller.tool("expand_context", id="E1")
    assert "ctx:// address" in text_of(told)
    assert told["_meta"]["context-engine/problem"] == {
        "type": "urn:context-engine:problem:invalid-input",
        "title": "id is a ctx:// address; refs such as E1 belong to the answer that they stand in",
        "status": 422,
        "detail": "Give the ctx:// address that stands beside the ref",
    }


def test_a_focus_is_understood_as_over_http_even_inside_a_string(two: TwoPeople) -> None:
    caller = Caller(two.live, two.one)
    body = {"question": "who wrote this?", "focus": {"item": two.shared}}
    wanted = two.live.ask(two.one, body)
    assert wanted["interpreted_as"]["focus"][0]["resolved"] is True
    for focus in (body["focus"], [body["focus"]], f'{{"item": "{two.shared}"}}'):
        answer = caller.tool("get_context", question=body["question"], focus=focus)["structuredContent"]
        assert answer["digest"] == wanted["digest"]


def test_an_item_that_is_hidden_and_one_that_is_not_there_are_the_same_error(two: TwoPeople) -> None:
    caller = Caller(two.live, two.other)
    hidden = caller.tool("expand_context", id=two.hidden)
    absent = caller.tool("expand_context", id=two.hidden + "0")
    assert is_error(hidden)
    assert hidden == absent
    assert hidden["_meta"]["context-engine/problem"]["status"] == 404
    assert not is_error(Caller(two.live, two.one).tool("expand_context", id=two.hidden))


def test_an_unknown_tool_is_an_error_of_the_protocol(two: TwoPeople) -> None:
    for era in ERAS:
        answer = Caller(two.live, two.one, era).ask("tools/call", {"name": "delete_all", "arguments": {}}).json()
        assert answer["error"]["code"] == -32602
        assert "delete_all" not in answer["error"]["message"]


def test_what_is_not_offered_is_not_there(two: TwoPeople) -> None:
    for method in ("prompts/list", "resources/subscribe", "logging/setLevel", "completion/complete", "tasks/list"):
        answer = Caller(two.live, two.one, "2025-11-25").ask(method, {"uri": two.shared, "level": "debug"}).json()
        assert answer["error"]["code"] in (-32601, -32602), method
    answer = Caller(two.live, two.one).ask("tools/list", {"cursor": "next"}).json()
    assert answer["error"]["code"] == -32602
