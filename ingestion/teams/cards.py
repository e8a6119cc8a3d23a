"""What a card in a message shows: its texts, facts and link buttons, in order; no styles, pictures or hidden parts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from core.text.html import html_to_markdown

_TEXTS: Final = ("activityTitle", "title", "label", "activitySubtitle", "subtitle", "activityText", "text")
# What holds further parts, in the order in which they are shown.
_CHILDREN: Final = (
    *("body", "items", "columns", "rows", "cells", "inlines", "facts", "sections", "choices"),
    *("card", "buttons", "actions", "potentialAction"),
)
_TAG: Final = re.compile(r"</?[a-zA-Z][^<>]*>")
_DEEPEST: Final = 40


def card_text(card: Any) -> str:
    """Return the visible text of a card's JSON, one line a piece; empty where there is none."""
    if isinstance(card, Mapping) and (page := _url(card.get("componentUrl"))):
        return f"[Loop component]({page})"
    lines = list(_lines(card, 0))
    if not lines and isinstance(card, Mapping):
        lines = [str(card[x]) for x in ("summary", "name") if isinstance(card.get(x), str)][:1]
    return "\n".join(line for line in lines if line)


def _lines(node: Any, depth: int) -> Iterator[str]:
    if depth > _DEEPEST:
        return
    if isinstance(node, str):
        yield _plain(node)
    elif isinstance(node, list):
        for child in node:
            yield from _lines(child, depth + 1)
    elif isinstance(node, Mapping) and node.get("isVisible") is not False:
        yield from _object(node, depth)


def _object(node: Mapping[str, Any], depth: int) -> Iterator[str]:
    kind = str(node.get("type") or node.get("@type") or "")
    if kind == "RichTextBlock":
        runs = (run.get("text") if isinstance(run, Mapping) else run for run in _list(node.get("inlines")))
        yield "".join(run for run in runs if isinstance(run, str)).strip()
        return
    target = _target(node)
    label = node.get("title") or node.get("name")
    if target and isinstance(label, str):
        yield f"[{_plain(label)}]({target})"
        return
    for name in _TEXTS:
        if isinstance(node.get(name), str):
            yield _plain(node[name])
    for name in _CHILDREN:
        if name == "facts":
            yield from _facts(node.get(name))
        else:
            yield from _lines(node.get(name), depth + 1)


def _facts(facts: Any) -> Iterator[str]:
    for fact in _list(facts):
        if isinstance(fact, Mapping):
            label, value = str(fact.get("title") or fact.get("name") or ""), str(fact.get("value") or "")
            yield ": ".join(x for x in (_plain(label).rstrip(":"), _plain(value)) if x)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _target(node: Mapping[str, Any]) -> str | None:
    """Where a button leads, for those that open a page."""
    targets = [t.get("uri") for t in _list(node.get("targets")) if isinstance(t, Mapping)]
    value = node.get("value") if str(node.get("type") or "").lower() == "openurl" else None
    return next((url for x in (node.get("url"), value, *targets) if (url := _url(x))), None)


def _url(value: Any) -> str | None:
    if isinstance(value, str) and value.startswith(("http://", "https://")) and not re.search(r"[\s)]", value):
        return value
    return None


def _plain(text: str) -> str:
    """Cards of the older kinds hold HTML, the newer ones Markdown."""
    return html_to_markdown(text) if _TAG.search(text) else text.strip()
