"""A small world for tests of the sandbox, made of plain data, and a walker of Graph's pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx

from fixtures.sandbox.server import SandboxServer
from fixtures.sandbox.state import SandboxState
from fixtures.sandbox.world import World, build_world

Data = dict[str, Any]
Serve = Callable[..., SandboxServer]
Client = Callable[[SandboxServer], httpx.Client]
TENANT = "0b5f1d1e-6f3a-4c2e-9a77-3d5e8f2b4c61"
NOW = "2026-03-02T09:00:00Z"
AT = "2026-02-02T09:00:00Z"


def stamp(by: str = "ann", at: str = AT) -> Data:
    """Who and when."""
    return {"by": by, "at": at}


def item(number: int, area: str = "/", **more: Any) -> Data:
    """A work item."""
    return {"id": number, "type": "Task", "title": f"Item {number}", "area": area, "created": stamp()} | more


def page(text: str = "words", **more: Any) -> Data:
    """A page with one revision."""
    return {"revisions": [stamp() | {"content": text}]} | more


def commit(key: str, **files: Any) -> Data:
    """A commit; underscores in names stand for dots."""
    named = {name.replace("_", "."): content for name, content in files.items()}
    return stamp() | {"key": key, "message": f"Commit {key}", "files": named}


def message(key: str, body: str = "hello", by: str = "ann", at: str = AT, **more: Any) -> Data:
    """A channel message."""
    return {"key": key, "by": by, "at": at, "body": body} | more


def allow(*names: str) -> list[Data]:
    """An ACL that lets these read."""
    return [{"to": name, "allow": ["read"]} for name in names]


def deny(*names: str) -> list[Data]:
    """An ACL that keeps these from reading."""
    return [{"to": name, "deny": ["read"]} for name in names]


def person(name: str, **more: Any) -> Data:
    """A person."""
    return {"name": name, "upn": f"{name.split()[0].lower()}@small.example"} | more


PEOPLE: Data = {
    "ann": person("Ann Arbor", title="Engineer"),
    "ben": person("Ben Baker", manager="ann"),
    "cat": person("Cat Castle", access_level="stakeholder"),
    "dan": person("Dan Dale", access_level="none"),
    "eve": person("Eve Eastwood", left="2026-01-31"),
    "gil": person("Gil Guest", kind="guest"),
    "bot": person("Build Bot", kind="service"),
}
GROUPS: Data = {
    "staff": {"name": "Staff", "members": ["ann", "group:inner"]},
    "inner": {"name": "Inner", "members": ["ben", "group:staff"]},  # a cycle, which real directories contain
    "ops": {"name": "Ops", "kind": "azure_devops", "members": ["group:inner", "cat"]},
}


def world(project: Data | None = None, *, teams: Data | None = None, **more: Any) -> World:
    """A world with one project `P` and the given teams."""
    data: Data = {
        "format": 1,
        "name": "small",
        "now": NOW,
        "tenant_id": TENANT,
        "labels": ["Public", "Secret"],
        "people": PEOPLE,
        "groups": GROUPS,
    }
    if project is not None:
        data["azure_devops"] = {"organization": "Small", "projects": {"P": project}}
    if teams is not None:
        data["teams"] = teams
    return build_world(data | more)


def state(*given: Any, **more: Any) -> SandboxState:
    """The present of such a world."""
    return SandboxState(world(*given, **more))


def walk(client: httpx.Client, url: str) -> tuple[list[Data], str | None, int]:
    """Follow a list to its end: rows, delta link if there is one, number of pages."""
    rows: list[Data] = []
    pages = 0
    link: str | None = url
    last: Data = {}
    while link is not None:
        answer = client.get(link)
        assert answer.status_code == 200, answer.text
        last = answer.json()
        rows += last["value"]
        pages += 1
        assert pages < 200, "a list without an end"
        link = last.get("@odata.nextLink")
    return rows, last.get("@odata.deltaLink"), pages
