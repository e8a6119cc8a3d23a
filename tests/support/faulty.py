"""Connections that go wrong in the ways that a server in trouble, or something before it, makes them go wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Final

import httpx

from ingestion.azure_devops.client import AdoClient

STATUSES: Final = (400, 401, 403, 404, 409, 410, 429, 500, 502, 503, 504)
# What an answer may become. Besides, a list of what there is may come empty: a lie that no client can see through.
WAYS: Final = (*STATUSES, "time-out", "broken off", "half", "sign-in", "no JSON")
_ID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|\b[0-9a-f]{40}\b|(?<=/)\d+(?=/|$)|(?<=/)vssgp\.[A-Za-z0-9]+")
_LISTS: Final = re.compile(r"/wiql$|/pagesbatch$|/git/repositories/[^/]+/(items|pullrequests)$")


@dataclass
class Rule:
    """What becomes of the next `times` answers (None: of all) whose path matches."""

    pattern: re.Pattern[str]
    way: int | str
    times: int | None

    def __str__(self) -> str:
        return f"{self.way} {self.times or 'always'} {self.pattern.pattern}"


class FaultyTransport(httpx.BaseTransport):
    """Carries requests, and lets some of them meet a rule."""

    def __init__(self, real: httpx.BaseTransport, rules: list[Rule]) -> None:
        self._real, self._rules = real, rules

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Answer as the first rule says that the path meets, else as the server does."""
        for rule in self._rules:
            if rule.pattern.search(request.url.path) and rule.times != 0:
                rule.times = None if rule.times is None else rule.times - 1
                return self._spoilt(rule.way, request)
        return self._real.handle_request(request)

    def _spoilt(self, way: int | str, request: httpx.Request) -> httpx.Response:
        if isinstance(way, int):
            return httpx.Response(way, json={"message": "TF400898: An Internal Error Occurred."}, request=request)
        if way == "time-out":
            raise httpx.ReadTimeout("no answer", request=request)
        if way == "broken off":
            raise httpx.RemoteProtocolError("the peer closed the connection", request=request)
        if way == "sign-in":
            return httpx.Response(203, html="<html><title>Sign In</title></html>", request=request)
        if way == "no JSON":
            return httpx.Response(200, html="<html>Service unavailable</html>", request=request)
        answer = self._real.handle_request(request)
        answer.read()
        kind = answer.headers.get("content-type", "")
        if answer.status_code != 200 or "json" not in kind:
            return answer
        if way == "half":
            return httpx.Response(
                200, headers={"content-type": kind}, content=answer.content[: len(answer.content) // 2]
            )
        data = json.loads(answer.content)
        if not isinstance(data, dict) or not any(isinstance(data.get(k), list) for k in ("value", "workItems")):
            return httpx.Response(200, headers=answer.headers, content=answer.content)
        emptied = {k: [] if k in ("value", "workItems") else v for k, v in data.items()}
        return httpx.Response(200, json={**emptied, "count": 0}, request=request)

    def close(self) -> None:
        """Close the real one."""
        self._real.close()


def spoil(client: AdoClient, rules: list[Rule]) -> None:
    """Let the requests of a client meet these rules from now on; clear the list to end that."""
    client._http._transport = FaultyTransport(client._http._transport, rules)


def random_rules(chance: Random, paths: Iterable[str], *, lies: bool = True) -> list[Rule]:
    """A few rules on paths that were asked for: on one thing, or on all of its kind."""
    found = []
    known = sorted(set(paths))
    for _ in range(chance.choice((1, 1, 2, 4))):
        lie = lies and chance.random() < 0.3
        path = chance.choice([p for p in known if _LISTS.search(p)] if lie else known)
        exact = chance.random() < 0.5
        pattern = re.escape(path) if exact else _ID.sub("[^/]+", re.escape(path).replace(r"\-", "-"))
        way = "empty" if lie else chance.choice(WAYS)
        found.append(Rule(re.compile(f"{pattern}$"), way, chance.choice((None, None, 1, 3, 8))))
    return found
