"""Deeds in words: what somebody did to which item, when, and how to open a conversation about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from core.items import ItemKind, Role
from core.times import ago
from graph.edges import Edge
from graph.records import ItemRow
from query.rank import Ranked, is_closed

_VERBS: Mapping[Role, str] = {
    Role.WROTE: "wrote",
    Role.EDITED: "edited",
    Role.OWNS: "owns",
    Role.VALIDATED: "reviewed",
    Role.ASSIGNED: "is assigned to",
    Role.CLOSED: "closed",
    Role.COMMENTED: "commented on",
    Role.ANSWERED: "answered in",
    Role.MERGED: "merged",
    Role.REVIEWED: "reviewed",
    Role.APPROVED: "approved",
    Role.MENTIONED: "was mentioned in",
    Role.DECIDED: "decided in",
}
# Roles that last, for which the day says little.
STANDING = frozenset({Role.OWNS, Role.ASSIGNED})
_MOST_OF_TITLE = 70


def starters(deeds: Sequence[tuple[float, Edge, Ranked]], now: datetime) -> tuple[str, ...]:
    """Ways to open the conversation, drawn from what they did."""
    lines = []
    for _, edge, one in deeds:
        when = f" on {edge.at:%Y-%m-%d}" if edge.at is not None and Role(edge.role) not in STANDING else ""
        verb = _verb(edge, one.row)
        lines.append(f"Ask about {_thing(one.row)}, which they {_to_they(verb)}{when}.")
    return tuple(dict.fromkeys(lines))


def _to_they(verb: str) -> str:
    return {"owns": "own", "is assigned to": "are assigned to", "was mentioned in": "were mentioned in"}.get(verb, verb)


def _verb(edge: Edge, row: ItemRow) -> str:
    if Role(edge.role) is Role.ASSIGNED and is_closed(row):
        return "did"
    return _VERBS.get(Role(edge.role), str(edge.role))


def deed_words(edge: Edge, row: ItemRow) -> str:
    """What was done: closed #4711 “Onboard Northwind”."""
    return f"{_verb(edge, row)} {_thing(row)}"


def recency_words(edge: Edge, row: ItemRow, now: datetime) -> str:
    """What was done, and how long ago: closed #4711 3 weeks ago."""
    what = f"#{row.number}" if row.number and row.kind is ItemKind.WORK_ITEM else f"“{_title(row)}”"
    verb = _verb(edge, row)
    return f"{verb} {what} {ago(edge.at, now)}" if edge.at else f"{verb} {what}"


def _title(row: ItemRow) -> str:
    return row.title if len(row.title) <= _MOST_OF_TITLE else row.title[:_MOST_OF_TITLE].rsplit(" ", 1)[0] + " …"


def _thing(row: ItemRow) -> str:
    if row.kind is ItemKind.WORK_ITEM and row.number:
        return f"#{row.number} “{_title(row)}”"
    if row.kind is ItemKind.PULL_REQUEST and row.number:
        return f"pull request {row.number} “{_title(row)}”"
    kind = {ItemKind.WIKI_PAGE: "the page", ItemKind.FILE: "the file", ItemKind.COMMIT: "the commit"}
    if row.kind is ItemKind.FILE and row.container:
        return f"the file “{row.container}/{_title(row)}”"
    return f"{kind.get(row.kind, 'the thread')} “{_title(row)}”"
