"""Finds a panel inside a dashboard's text, and the tables and views that SQL reads from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

_SQL_NAME = re.compile(r"\b(?:from|join)\s+((?:[A-Za-z_][\w$]*\.){0,3}[A-Za-z_][\w$]*)", re.I)
_NO_NAMES_WORDS = "select lateral unnest where values generate_series only using set on as"
_NO_NAMES = frozenset(_NO_NAMES_WORDS.split())
_HEADING = re.compile(r"^## (.+)$", re.M)


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel as found: its title, its heading path in words, and the text of its queries."""

    title: str
    words: str
    queries: str


def panel_in(text: str, number: str) -> Panel | None:
    """The panel of that id in a dashboard kept as JSON, or told section by section; None where there is none."""
    return _in_json(text, number) or _in_sections(text, number)


def sql_names(text: str) -> tuple[str, ...]:
    """Tables and views that SQL reads from, in order, each once."""
    return tuple(dict.fromkeys(n for n in _SQL_NAME.findall(text) if n.lower() not in _NO_NAMES))


def _in_sections(text: str, number: str) -> Panel | None:
    heads = list(_HEADING.finditer(text))
    for i, head in enumerate(heads):
        body = text[head.end() : heads[i + 1].start() if i + 1 < len(heads) else len(text)]
        if re.search(rf"^Panel {re.escape(number)}[.,]", body, re.M):
            path = [p.strip() for p in head[1].split("›")]
            return Panel(path[-1], " ".join(path), body)
    return None


def _in_json(text: str, number: str) -> Panel | None:
    try:
        dashboard = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(dashboard, dict):
        return None
    for panel in _panels(dashboard):
        if str(panel.get("id")) == number:
            title = str(panel.get("title") or "")
            words = " ".join(str(x) for x in (dashboard.get("title"), title, panel.get("description")) if x)
            return Panel(title, words, "\n".join(_strings(panel.get("targets"))))
    return None


def _panels(node: dict[str, Any]) -> Iterable[dict[str, Any]]:
    panels = node.get("panels")
    for panel in panels if isinstance(panels, list) else ():
        if isinstance(panel, dict):
            yield panel
            yield from _panels(panel)


def _strings(node: Any) -> Iterable[str]:
    if isinstance(node, str):
        yield node
    elif isinstance(node, dict):
        for value in node.values():
            yield from _strings(value)
    elif isinstance(node, list):
        for value in node:
            yield from _strings(value)
