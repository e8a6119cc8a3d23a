"""Small worlds made of plain data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fixtures.sandbox.state_events import apply_event
from fixtures.sandbox.world import build_world
from fixtures.sandbox.world_models import Event, World
from tests.ingestion.teams.support import TENANT, Data, Live

AT = "2031-01-10T09:00:00Z"


def small_world(teams: Data, *, people: Iterable[str] = ("iris", "teo", "mina"), **more: Any) -> World:
    """A world of people, groups and teams; `people` with a `?` at the end are guests, with a `!` services."""
    kinds = {"?": "guest", "!": "service"}
    persons = {
        name.rstrip("?!"): {
            "name": f"{name.rstrip('?!').title()} Okonjo",
            "upn": f"{name.rstrip('?!')}@novaruud.example",
            "kind": kinds.get(name[-1], "member"),
        }
        for name in people
    }
    data = {"format": 1, "name": "small", "now": "2031-03-10T09:00:00Z", "tenant_id": TENANT, "people": persons}
    return build_world({**data, "teams": teams, **more})


def said(key: str, body: str = "hello", by: str = "iris", at: str = AT, **more: Any) -> Data:
    """A channel message or reply."""
    return {"key": key, "by": by, "at": at, "body": body, **more}


def nord(*messages: Data, members: Iterable[str] = ("iris", "teo"), **channel: Any) -> Data:
    """One team with one channel."""
    return {"Nord": {"members": list(members), "channels": {"General": {"messages": list(messages), **channel}}}}


def two_teams() -> Data:
    """Two channels that can fail on their own."""
    return {
        "Nord": {"members": ["iris"], "channels": {"General": {"messages": [said("m1", "north"), said("m2", "more")]}}},
        "Sud": {"members": ["iris"], "channels": {"General": {"messages": [said("m1", "south")]}}},
    }


def event(name: str, after: str = "1m", **change: Any) -> Data:
    """Something that happens after the world's present."""
    return {"id": name, "after": after, **change}


def happen(live: Live, **change: Any) -> None:
    """Something happens now, whatever else was to happen."""
    state = live.server.state
    with state.lock:
        apply_event(state, Event.model_validate(event(f"now{len(state.journal)}", "0m", **change)))
