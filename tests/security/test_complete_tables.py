"""Each way in, for each kind of asker: complete, from the OpenAPI document, the app's routes and the MCP lists.

A route, tool or template that has no row here fails, and so does a row that nothing answers to.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.routing import Route

from core import uris
from tests.support import border
from tests.support.guard_checks import Border
from tests.support.laboratory import Lab
from tests.support.ways_in import Client

KINDS = (
    "nobody", "bad token", "wrong scope", "unknown account", "disabled", "guest", "stakeholder", "member", "agent",
    "application", "application without policy", "administrator",
)  # fmt: skip
OPEN = dict.fromkeys(KINDS, 200)
REFUSED = {
    "nobody": 401, "bad token": 401, "wrong scope": 403, "unknown account": 401, "disabled": 401,
    "application without policy": 403,
}  # fmt: skip
ANSWERED = {**OPEN, **REFUSED}
# The guest may read nothing here, so what is there for others is not there for them.
ITEM = {**ANSWERED, "guest": 404}
STATUS = {kind: 200 if kind == "administrator" else REFUSED.get(kind, 403) for kind in KINDS}

ROUTES = {
    ("POST", "/v1/context"): ANSWERED,
    ("GET", "/v1/items"): ITEM,
    ("GET", "/v1/people"): ANSWERED,
    ("GET", "/v1/definitions"): ANSWERED,
    ("GET", "/v1/status"): STATUS,
    ("GET", "/healthz"): OPEN,
    ("GET", "/readyz"): OPEN,
}
# What the document doesn't list: itself, pages that show it, how clients find the issuer, and MCP (below).
UNLISTED = {
    "/openapi.json", "/docs", "/docs/oauth2-redirect", "/redoc", "/mcp", "/mcp/",
    "/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp",
}  # fmt: skip
TOOLS = {"get_context": ANSWERED, "expand_context": ITEM, "who_knows": ANSWERED, "define": ANSWERED}
TEMPLATES = dict.fromkeys(("work_item", "wiki_page", "file", "commit", "pull_request", "thread"), ITEM)
LISTS = dict.fromkeys(("tools/list", "resources/templates/list", "resources/list"), ANSWERED)
# Lists say the same to everybody, so a token is all that they want: an account is looked up when something is asked.
UNASKED = ("unknown account", "disabled")

_PAGE = uris.wiki_page("border", "w1", 1)
ADDRESSES = {
    "work_item": uris.work_item("border", 11),
    "wiki_page": _PAGE,
    "file": uris.file("border", "r1", "src/settle.py"),
    "commit": uris.commit("border", "r1", "c0ffee" + "0" * 34),
    "pull_request": uris.pull_request("border", "r1", 7),
    "thread": uris.thread("border", "19:open@thread.tacv2", "2"),
}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "get_context": {"question": "invoices"},
    "expand_context": {"id": _PAGE},
    "who_knows": {"topic": "invoices"},
    "define": {"term": "SLA"},
}


def token_of(lab: Lab, kind: str) -> str | None:
    """A token of that kind of asker."""
    match kind:
        case "nobody":
            return None
        case "bad token":
            return lab.token(border.ASKER, signing="foreign_key")
        case "wrong scope":
            return lab.token(border.ASKER, scopes=["user.read"])
        case "unknown account":
            return lab.token(border.ASKER, overrides={"oid": "00000000-0000-4000-8000-00000000dead"})
        case "administrator":
            return lab.token(border.ASKER, scopes=["context.read", "context.admin"])
        case "agent":
            return lab.token(border.ASKER, overrides={"azp": "11111111-1111-4111-8111-111111111111"})
    person = {
        "disabled": border.LEAVER, "guest": border.NOBODY, "stakeholder": "cat", "member": border.ASKER,
        "application": border.PROGRAM, "application without policy": border.STRAY,
    }[kind]  # fmt: skip
    return lab.token(person)


def client_of(lab: Lab, kind: str) -> Client:
    """A client with that token, or none."""
    return Client(lab.client, token_of(lab, kind))


@pytest.mark.invariant("INV-1", "INV-5")
@pytest.mark.parametrize("kind", KINDS)
def test_every_route_answers_each_kind_of_asker_as_its_row_says(kind: str, at_the_border: Border) -> None:
    client = client_of(at_the_border.whole, kind)
    for (method, path), row in ROUTES.items():
        params = {"/v1/items": {"uri": _PAGE}, "/v1/people": {"topic": "invoices"}, "/v1/definitions": {"term": "SLA"}}
        asked = params.get(path, {})
        told = client.post(path, {"question": "invoices"}) if method == "POST" else client.get(path, asked)
        assert told.status == row[kind], (method, path, told.text)


@pytest.mark.invariant("INV-1", "INV-5")
@pytest.mark.parametrize("kind", KINDS)
def test_every_tool_and_template_answers_each_kind_of_asker_as_its_row_says(kind: str, at_the_border: Border) -> None:
    client = client_of(at_the_border.whole, kind)
    for name, row in TOOLS.items():
        told = client.mcp("tools/call", {"name": name, "arguments": ARGUMENTS[name]})
        assert told.status == row[kind], (name, told.text)
    for name, row in TEMPLATES.items():
        told = client.mcp("resources/read", {"uri": ADDRESSES[name]})
        assert told.status == row[kind], (name, told.text)
    for name, row in LISTS.items():
        told = client.mcp(name, {})
        assert told.status == (200 if kind in UNASKED else row[kind]), (name, told.text)


def test_no_route_is_without_a_row_and_no_row_without_its_route(at_the_border: Border) -> None:
    lab = at_the_border.whole
    listed = {
        (method.upper(), path)
        for path, methods in lab.client.get("/openapi.json").json()["paths"].items()
        for method in methods
    }
    assert listed == set(ROUTES)
    known = UNLISTED | {path for _, path in ROUTES}
    served = {route.path for route in lab.client.app.routes if isinstance(route, Route)}  # type: ignore[attr-defined]
    assert served - known == set(), "served, and in no table"
    assert all(hasattr(route, "path") for route in lab.client.app.routes), "something is mounted"  # type: ignore[attr-defined]


def test_no_tool_or_template_is_without_a_row_and_no_row_without_its_tool(at_the_border: Border) -> None:
    client = client_of(at_the_border.whole, "member")
    tools = json.loads(client.mcp("tools/list", {}).text)["result"]["tools"]
    assert {tool["name"] for tool in tools} == set(TOOLS)
    templates = json.loads(client.mcp("resources/templates/list", {}).text)["result"]["resourceTemplates"]
    assert {template["name"] for template in templates} == set(TEMPLATES) == set(ADDRESSES)
    assert json.loads(client.mcp("resources/list", {}).text)["result"]["resources"] == []
    for unknown in ("prompts/list", "completion/complete", "resources/subscribe", "logging/setLevel", "tasks/list"):
        assert client.mcp(unknown, {}).status != 200, unknown


def test_every_refusal_says_no_more_than_its_class(at_the_border: Border) -> None:
    for kind in REFUSED:
        client = client_of(at_the_border.whole, kind)
        for told in (client.post("/v1/context", {"question": "invoices"}), client.get("/v1/items", {"uri": _PAGE})):
            body = json.loads(told.text)
            assert set(body) <= {"type", "title", "status", "detail"}
            assert "border" not in told.text
            assert "invoice" not in told.text
