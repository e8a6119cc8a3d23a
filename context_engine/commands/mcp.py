"""mcp: the engine's tools on standard input and output, for clients that start a server of their own."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import anyio
from mcp.server.stdio import stdio_server

from context_engine.passing_on import PassingOn
from core.errors import ConfigError
from core.trust import is_safe_address
from query.mcp.server import build_server
from query.oauth import MCP_PATH

if TYPE_CHECKING:  # it brings the whole engine, which a client of one does without
    from context_engine.commands.target import Target

TOKEN: Final = "CONTEXT_ENGINE_TOKEN"  # noqa: S105 (a name)
TOKEN_FILE: Final = "CONTEXT_ENGINE_TOKEN_FILE"  # noqa: S105 (a name)


def mcp(target: Callable[[], Target], *, url: str | None) -> None:
    """Pass on what a client asks until it closes its end. `target` finds the engine where no `url` names one.

    Raises ConfigError where there is no engine or no token to ask it with.
    """
    endpoint = endpoint_of(url if url is not None else found(target()))
    token, renewal = token_source(os.environ)
    token()  # a file that is not there is told at once
    anyio.run(_serve, endpoint, token, renewal)


async def _serve(endpoint: str, token: Callable[[], str], renewal: str) -> None:
    async with PassingOn(endpoint, token, renewal=renewal) as answers, stdio_server() as (reading, writing):
        server = build_server(answers)
        await server.run(reading, writing, server.create_initialization_options())


def found(target: Target) -> str:
    """The engine that serves from the data folder, else the configured public address. Raises ConfigError."""
    running = target.running()
    if running is not None:
        return running.api
    if target.settings is not None and target.settings.public_url is not None:
        return target.settings.public_url
    raise ConfigError(
        "no engine serves from this data folder",
        where=str(target.data),
        mend="Start it with `context-engine serve`, or name one with --url",
    )


def endpoint_of(url: str) -> str:
    """The MCP endpoint for an engine's address, with or without its path.

    Raises ConfigError for what is no address, and for plain HTTP to another machine: a token can be read on the way.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if host is None or parts.scheme not in {"http", "https"} or parts.query or parts.fragment or "@" in parts.netloc:
        raise ConfigError(
            "that is no address of an engine", where="--url", mend="Write https://HOST or https://HOST/mcp"
        )
    if not is_safe_address(url):
        raise ConfigError("a token goes to another machine by https only", where="--url", mend=f"Write https://{host}")
    base = url.rstrip("/")
    return base if base.endswith(MCP_PATH) else base + MCP_PATH


def token_source(environ: os._Environ[str] | dict[str, str]) -> tuple[Callable[[], str], str]:
    """How to get the token for a request, and how a person renews it. Raises ConfigError where there is none.

    From `CONTEXT_ENGINE_TOKEN_FILE`, read anew each time so that another program can keep it fresh, or else from
    `CONTEXT_ENGINE_TOKEN`.
    """
    file = environ.get(TOKEN_FILE)
    if file:
        return lambda: _read(Path(file)), f"Put a fresh one into the file that {TOKEN_FILE} names"
    token = environ.get(TOKEN, "").strip()
    if not token:
        raise ConfigError(
            "there is no token to ask with",
            where=TOKEN,
            mend=f"Set it to a bearer token of the issuer, or {TOKEN_FILE} to a file that holds one",
        )
    if not _may_be_token(token):
        raise ConfigError("that is no token", where=TOKEN, mend="Set it to the token and nothing else")
    return lambda: token, f"Put a fresh one into {TOKEN}, and let the client start this server again"


def _read(path: Path) -> str:
    try:
        token = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as e:
        raise ConfigError(f"the token can't be read: {type(e).__name__}", where=str(path)) from e
    if not _may_be_token(token):
        raise ConfigError("there is no token in it", where=str(path), mend="It holds the token and nothing else")
    return token


def _may_be_token(text: str) -> bool:
    """Whether it can stand in a header as one word."""
    return bool(text) and text.isascii() and text.isprintable() and " " not in text
