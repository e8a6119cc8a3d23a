"""`context-engine mcp`: the same tools on standard input and output, asked with a token from the environment."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client

from context_engine.commands.mcp import endpoint_of, token_source
from core.errors import ConfigError
from core.settings import load_settings
from query.mcp.tools import tool_names
from tests.invariants.test_who_asks import bad_token
from tests.mcp.calls import NEWEST, Caller
from tests.mcp.conftest import TwoPeople
from tests.mcp.test_tools import arguments, lasting

ROOT = Path(__file__).resolve().parents[2]
_T = TypeVar("_T")


def environment(**more: str) -> dict[str, str]:
    """What a client gives the server that it starts: no credential of a store, and no folder of an engine."""
    kept = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG")}
    return {**kept, "PYTHONPATH": str(ROOT), **more}


def asked(url: str, work: Callable[[Client], Awaitable[_T]], *, mode: Any = "legacy", **env: str) -> _T:
    """Do `work` with a client that starts the server itself."""
    command = ["-m", "context_engine.cli", "mcp", "--url", url]
    server = StdioServerParameters(command=sys.executable, args=command, env=environment(**env))

    async def run() -> _T:
        async with Client(stdio_client(server), mode=mode) as client:
            return await work(client)

    return asyncio.run(run())


def url_of(two: TwoPeople) -> str:
    """The engine's address."""
    return str(two.live.client.base_url).rstrip("/")


@pytest.mark.parametrize("mode", ["legacy", NEWEST])
def test_its_tools_and_resources_are_those_of_the_engine_for_the_tokens_person(two: TwoPeople, mode: Any) -> None:
    async def work(client: Client) -> dict[str, Any]:
        names = [tool.model_dump(mode="json", by_alias=True) for tool in (await client.list_tools()).tools]
        answers = {n: (await client.call_tool(n, arguments(two, n))).structured_content for n in tool_names()}
        read = (await client.read_resource(two.hidden)).contents[0]
        templates = [t.uri_template for t in (await client.list_resource_templates()).resource_templates]
        try:
            await client.read_resource(two.hidden + "0")
        except MCPError as e:
            absent = e.error.code
        return {"tools": names, "answers": answers, "read": read, "templates": templates, "absent": absent}

    found = asked(url_of(two), work, mode=mode, CONTEXT_ENGINE_TOKEN=two.live.token(two.one))
    caller = Caller(two.live, two.one)
    wanted = caller.ask("tools/list", {}).json()["result"]["tools"]
    assert [(t["name"], t["inputSchema"], t["outputSchema"], t["description"]) for t in found["tools"]] == [
        (t["name"], t["inputSchema"], t["outputSchema"], t["description"]) for t in wanted
    ]
    for name in tool_names():
        direct = caller.tool(name, **arguments(two, name))["structuredContent"]
        assert lasting(found["answers"][name]) == lasting(direct)
    assert found["read"].uri == two.hidden
    assert len(found["templates"]) == 6
    assert found["absent"] == -32602


def test_a_token_that_has_expired_is_told_to_the_model_with_what_to_do(two: TwoPeople) -> None:
    async def work(client: Client) -> Any:
        return await client.call_tool("define", {"term": "CSR"})

    told = asked(url_of(two), work, CONTEXT_ENGINE_TOKEN=bad_token(two.live, "expired"))
    assert told.is_error
    assert told.content[0].text.startswith("expired: The bearer token was refused. Put a fresh one into")


def test_a_token_file_is_read_anew_for_each_request(two: TwoPeople, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(bad_token(two.live, "expired"), "utf-8")

    async def work(client: Client) -> list[bool]:
        before = await client.call_tool("define", {"term": "CSR"})
        file.write_text(two.live.token(two.one) + "\n", "utf-8")
        after = await client.call_tool("define", {"term": "CSR"})
        file.unlink()
        gone = await client.call_tool("define", {"term": "CSR"})
        return [bool(before.is_error), bool(after.is_error), bool(gone.is_error)]

    assert asked(url_of(two), work, CONTEXT_ENGINE_TOKEN_FILE=str(file)) == [True, False, True]


def test_an_engine_that_does_not_answer_is_told_as_that(two: TwoPeople) -> None:
    async def work(client: Client) -> Any:
        return await client.call_tool("define", {"term": "CSR"})

    told = asked("http://127.0.0.1:9", work, CONTEXT_ENGINE_TOKEN="x.y.z")
    assert told.is_error
    assert told.content[0].text.startswith("unreachable: The engine at http://127.0.0.1:9/mcp does not answer")


def test_without_a_token_or_an_engine_it_does_not_start(tmp_path: Path) -> None:
    for options, env, wanted in (
        (["--url", "http://127.0.0.1:9"], {}, "CONTEXT_ENGINE_TOKEN"),
        (["--data", str(tmp_path)], {"CONTEXT_ENGINE_TOKEN": "x.y.z"}, "no engine serves from this data folder"),
    ):
        command = [sys.executable, "-m", "context_engine.cli", "mcp", *options]
        done = subprocess.run(command, capture_output=True, text=True, env=environment(**env), timeout=120)
        assert done.returncode == 64
        assert wanted in done.stderr
        assert done.stdout == ""


def test_a_token_goes_by_https_or_to_this_machine_and_to_nowhere_else() -> None:
    assert endpoint_of("https://context.example.com") == "https://context.example.com/mcp"
    assert endpoint_of("https://h/engine/mcp/") == "https://h/engine/mcp"
    assert endpoint_of("http://127.0.0.1:8321") == "http://127.0.0.1:8321/mcp"
    for url in (
        "http://context.example.com",
        "ftp://h",
        "h:8321",
        "https://user@h",
        "https://h?x=1",
        "https://h:x",
        "",
    ):
        with pytest.raises(ConfigError):
            endpoint_of(url)


def test_a_persons_token_in_the_environment_is_no_setting_of_the_engine() -> None:
    environ = {"CONTEXT_ENGINE_TOKEN": "x.y.z", "CONTEXT_ENGINE_TOKEN_FILE": "f", "CONTEXT_ENGINE_PORT": "1"}
    assert load_settings(environ=environ).port == 1
    token, _ = token_source({"CONTEXT_ENGINE_TOKEN": " x.y.z \n"})
    assert token() == "x.y.z"
