"""ask: one question over HTTP, to the running engine or to one opened for it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx

from context_engine.commands.screen import Screen
from context_engine.commands.target import Target
from context_engine.commands.upkeep import person_token
from context_engine.http_server import LoopbackServer
from context_engine.show import show_bundle
from context_engine.worlds import AUDIENCE
from core.bundle import Bundle
from core.errors import ConfigError, ContextEngineError, InputError
from core.this_machine import NO_PROXY

ASK_SECONDS = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """A question as the command line gives it."""

    question: str
    person: str | None = None
    token: str | None = None
    focus: tuple[str, ...] = ()
    max_tokens: int | None = None
    as_of: datetime | None = None
    explain: bool = False

    def body(self) -> dict[str, Any]:
        """The API's request."""
        body: dict[str, Any] = {"question": self.question, "explain": self.explain}
        focus = [focus_of(text) for text in self.focus]
        if focus:
            body["focus"] = focus[0] if len(focus) == 1 else focus
        if self.max_tokens is not None:
            body["max_tokens"] = self.max_tokens
        if self.as_of is not None:
            at = self.as_of if self.as_of.tzinfo else self.as_of.replace(tzinfo=UTC)
            body["as_of"] = at.isoformat()
        return body


def focus_of(text: str) -> dict[str, str]:
    """Which kind of focus a plain text is: an address, a URL, a file (a dot or a line in its last segment), else a
    channel (Team/Channel). `file:` and `channel:` in front decide outright."""
    for kind in ("file", "channel", "url", "item"):
        if text.startswith(f"{kind}:") and not text.startswith(f"{kind}://"):
            return {kind: text.removeprefix(f"{kind}:")}
    if text.startswith("ctx://"):
        return {"item": text}
    if text.startswith(("http://", "https://")):
        return {"url": text}
    last = text.rsplit("/", 1)[-1]
    return {"file": text} if "." in last or text.count("/") > 1 else {"channel": text}


def ask(target: Target, asking: Asking, *, style: str) -> None:
    """Ask and print in `style`: text (80 columns), json or markdown."""
    if (asking.person is None) == (asking.token is None):
        raise ConfigError(
            "say who asks",
            mend="--as PERSON takes a token from the sandbox issuer; elsewhere give --token"
            if target.world
            else "Give --token (or --token - to read it from standard input)",
        )
    if asking.person is not None and target.world is None:
        raise ConfigError("--as needs a world", mend="Give --token")
    with reachable(target, quiet=style != "text") as (api, token_of):
        if asking.person is not None:
            token = token_of(asking.person)
        else:
            token = sys.stdin.readline().strip() if asking.token == "-" else str(asking.token)  # noqa: S105
        answer = post(api, token, asking.body(), markdown=style == "markdown")
    if style == "text":
        show_bundle(Bundle.model_validate_json(answer.content))
    else:
        print(answer.text)


def post(api: str, token: str, body: dict[str, Any], *, markdown: bool = False) -> httpx.Response:
    """Ask over HTTP. Raises InputError with the API's own words for what it refuses."""
    accept = "text/markdown" if markdown else "application/json"
    try:
        with httpx.Client(timeout=ASK_SECONDS, mounts=NO_PROXY) as client:
            answer = client.post(
                f"{api}/v1/context", json=body, headers={"Authorization": f"Bearer {token}", "Accept": accept}
            )
    except httpx.HTTPError as e:
        raise ContextEngineError(f"the API does not answer: {type(e).__name__}", where=api) from e
    if answer.status_code != 200:
        raise InputError(_problem(answer), where=f"HTTP {answer.status_code}")
    return answer


@contextmanager
def reachable(target: Target, *, quiet: bool) -> Iterator[tuple[str, Any]]:
    """An API to ask and a way to get tokens: of the running engine, or of one opened (and synced) here."""
    running = target.running()
    if running is not None:
        yield running.api, lambda person: person_token(target, person)
        return
    with Screen(quiet=quiet) as screen, target.open(on_progress=screen.progress, on_step=screen.step) as engine:
        screen.reports(engine.bring_up_to_date())
        with LoopbackServer(engine.app) as server:

            def token_of(person: str) -> str:
                assert engine.sandbox is not None, "persons are asked for on worlds only"
                return engine.sandbox.token(person, audience=AUDIENCE)

            yield server.url, token_of


def _problem(answer: httpx.Response) -> str:
    try:
        body = answer.json()
    except ValueError:
        return answer.text[:200]
    parts = [body.get("title"), body.get("detail"), *(f"{e['at']}: {e['why']}" for e in body.get("errors", []))]
    return "; ".join(str(p) for p in parts if p)


__all__ = ["Asking", "ask", "focus_of", "post", "reachable"]
