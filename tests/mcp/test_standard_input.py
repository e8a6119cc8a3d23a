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

from context_engine.commands.mcp import endpoint_of, found, token_source
from context_engine.commands.mcp import mcp as serve_on_standard_input
from context_engine.commands.target import Target
from context_engine.passing_on import PassingOn
from context_engine.running import Running, announced
from core.errors import ConfigError
from core.settings import load_settings
from query.mcp.server import build_server
from query.mcp.templates import TEMPLATES
from query.mcp.tools import tool_names
from tests.mcp.calls import NEWEST, Caller, expired
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


def test_its_tools_and_resources_are_those_of_the_engine_for_the_tokens_person(two: TwoPeople, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(expired(two.live), "utf-8")

    async def work(client: Client) -> dict[str, Any]:
        stale = await client.call_tool("define", {"term": "CSR"})
        file.write_text(two.live.token(two.one) + "\n", "utf-8")
        tools = [tool.model_dump(mode="json", by_alias=True) for tool in (await client.list_tools()).tools]
        answers = {n: (await client.call_tool(n, arguments(two, n))).structured_content for n in tool_names()}
        read = (await client.read_resource(two.hidden)).contents[0]
        templates = [t.uri_template for t in (await client.list_resource_templates()).resource_templates]
        return {"stale": stale, "tools": tools, "answers": answers, "read": read, "templates": templates}

    told_by_it = asked(url_of(two), work, CONTEXT_ENGINE_TOKEN_FILE=str(file))
    assert told_by_it["stale"].content[0].text.startswith("expired: The bearer token was refused. Put a fresh one into")
    caller = Caller(two.live, two.one)
    wanted = caller.ask("tools/list", {}).json()["result"]["tools"]
    fields = ("name", "inputSchema", "outputSchema", "description")
    assert [[t[k] for k in fields] for t in told_by_it["tools"]] == [[t[k] for k in fields] for t in wanted]
    for name in tool_names():
        direct = caller.tool(name, **arguments(two, name))["structuredContent"]
        assert lasting(told_by_it["answers"][name]) == lasting(direct)
    assert told_by_it["read"].uri == two.hidden
    assert len(told_by_it["templates"]) == len(TEMPLATES)


def test_it_speaks_the_newer_era_too_and_knows_nothing_that_the_engine_would_not_tell(two: TwoPeople) -> None:
    async def work(client: Client) -> tuple[Any, int]:
        answer = await client.call_tool("define", {"term": "CSR", "as": "somebody"})
        try:
            await client.read_resource(two.hidden)
        except MCPError as e:
            return answer, e.error.code
        raise AssertionError("it was read")

    answer, absent = asked(url_of(two), work, mode=NEWEST, CONTEXT_ENGINE_TOKEN=two.live.token(two.other))
    assert answer.is_error
    assert "there is no such argument" in answer.content[0].text
    assert absent == -32602


def passed_on(url: str, token: Callable[[], str]) -> tuple[Any, MCPError]:
    """What a client gets of a call and of a reading, without a process of its own."""

    async def run() -> tuple[Any, MCPError]:
        async with PassingOn(url, token, renewal="Get one") as answers, Client(build_server(answers)) as client:
            called = await client.call_tool("define", {"term": "CSR"})
            with pytest.raises(MCPError) as refused:
                await client.read_resource("ctx://ado/x/work-items/1")
            return called, refused.value

    return asyncio.run(run())


def test_what_keeps_an_engine_from_answering_is_told(two: TwoPeople, tmp_path: Path) -> None:
    def gone() -> str:
        raise ConfigError("the token can't be read: FileNotFoundError")

    sandbox = two.live.engine.sandbox
    assert sandbox is not None
    for url, token, status, wanted in (
        ("http://127.0.0.1:9/mcp", lambda: "x.y.z", 503, "unreachable: The engine at http://127.0.0.1:9/mcp"),
        (f"{url_of(two)}/mcp", lambda: "not.a.token", 401, "malformed_token: The bearer token was refused. Get one."),
        (f"{url_of(two)}/mcp", gone, 401, "missing_token: the token can't be read: FileNotFoundError. Get one."),
        (f"{sandbox.base_url}/mcp", lambda: "x.y.z", 502, f"no-engine: What answers at {sandbox.base_url}/mcp"),
    ):
        called, refused = passed_on(url, token)
        assert called.is_error
        assert called.content[0].text.startswith(wanted)
        assert (refused.error.code, refused.error.data["status"]) == (-32603, status)


def test_without_a_token_or_an_engine_it_does_not_start(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "context_engine.cli", "mcp", "--url", "http://127.0.0.1:9"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=120)
    assert (done.returncode, done.stdout) == (64, "")
    assert "CONTEXT_ENGINE_TOKEN" in done.stderr
    with pytest.raises(ConfigError, match="no engine serves from this data folder"):
        serve_on_standard_input(lambda: Target(tmp_path, None, load_settings(environ={})), url=None)


def test_the_engine_of_the_data_folder_is_found_and_else_the_public_address(tmp_path: Path) -> None:
    settings = load_settings(environ={}, overrides={"public_url": "https://context.example.com"})
    assert found(Target(tmp_path, None, settings)) == "https://context.example.com"
    with announced(tmp_path, Running(os.getpid(), "http://127.0.0.1:8321", None)):
        assert found(Target(tmp_path, None, settings)) == "http://127.0.0.1:8321"


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


@pytest.mark.parametrize("text", ["é.é.é", "a.b.c\nX-Header: 1", "Bearer a.b.c", "a.b.c\x07"])
def test_what_can_be_no_token_is_told_before_anybody_is_asked(text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no token"):
        token_source({"CONTEXT_ENGINE_TOKEN": text})
    file = tmp_path / "token"
    file.write_text(text, "utf-8")
    with pytest.raises(ConfigError, match="no token"):
        token_source({"CONTEXT_ENGINE_TOKEN_FILE": str(file)})[0]()
