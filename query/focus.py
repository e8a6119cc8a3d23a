"""Resolves what the asker is looking at to items, among those that they may read and no others.

What does not exist and what may not be read come out the same: not resolved, and the search goes on without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from core import uris
from core.access import Scope, Trim
from core.bundle import Focus, ResolvedFocus
from core.items import ItemKind, Source
from graph.records import ItemRow, ItemStore
from graph.scopes import ScopeStore
from query.addresses import Address, parse_channel, parse_file, parse_url
from query.panels import panel_in, sql_names

_NUMBER = re.compile(r"(?:\bAB)?(?<![\w&/])#(\d{1,9})\b|\bwork ?item (\d{1,9})\b", re.I)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One focus as resolved: `row` where it is an item, `container` where it is a channel.

    `words` say what is meant inside the item (a panel's title), to be searched with the question; `leads` are names
    of further items that it speaks of (SQL views of a panel's query), each with the words for the path shown.
    """

    shown: ResolvedFocus
    row: ItemRow | None = None
    container: str | None = None
    words: str = ""
    leads: tuple[tuple[str, str], ...] = ()


class FocusResolver:
    """Looks focus up through the trimmed stores."""

    def __init__(self, items: ItemStore, scopes: ScopeStore) -> None:
        self._items = items
        self._scopes = scopes

    def resolve(self, trim: Trim, focus: Iterable[Focus]) -> tuple[Found, ...]:
        """Resolve every name given, in order, each once. Raises StoreUnavailableError."""
        return tuple(self._one(trim, given, *known) for given, known in _addresses(focus).items() if given)

    def _one(self, trim: Trim, given: str, word: str, address: Address) -> Found:
        # An address that leads nowhere is not repeated: a bundle names nothing that its asker may not read.
        unresolved = Found(shown=ResolvedFocus(given=word, resolved=False))
        if trim.sees_nothing:
            return unresolved
        if address.channel:
            container = self._channel(trim, address.channel)
            if container is None:
                return unresolved
            return Found(shown=ResolvedFocus(given=given, resolved=True, title=container), container=container)
        row = self._row(trim, address)
        if row is None:
            return unresolved
        text = self._text(trim, row) if row.kind is ItemKind.FILE else ""
        detail, words, leads = _inside(address, row, text)
        return Found(
            shown=ResolvedFocus(given=given, resolved=True, uri=row.uri, title=row.title, detail=detail),
            row=row,
            words=words,
            leads=leads,
        )

    def _row(self, trim: Trim, address: Address) -> ItemRow | None:
        if address.uri:
            row = self._items.visible(trim, [address.uri]).get(address.uri)
            if row is not None:
                return row
        for url in address.urls:
            if (row := _first(self._items.find(trim, url=url))) is not None:
                return row
        for alias in address.aliases:
            rows = self._items.find(trim, source=address.source, alias=alias)
            if address.tail and len(rows) > 1:
                rows = [r for r in rows if r.uri.endswith(address.tail)]
            if address.container:
                rows = _inside_container(rows, address.container, alias)
            # A name that several items answer to names none of them.
            if len({r.uri for r in rows}) == 1:
                return rows[0]
        if address.title:
            rows = self._items.find(trim, source=address.source, title=address.title)
            rows = [r for r in rows if not address.tail or r.uri.endswith(address.tail)]
            if len(rows) == 1:
                return rows[0]
        return None

    def _channel(self, trim: Trim, name: str) -> str | None:
        """The Team/Channel name of a channel that the asker may read."""
        if name.startswith("19:"):
            for scope_id in sorted(trim.readable):
                if scope_id.lower().rpartition("/")[2] == name.lower():
                    scope = self._scopes.get(scope_id)
                    if scope is not None and self._may_name(trim, scope):
                        return scope.name
            return None
        row = _first(self._items.find(trim, source=Source.TEAMS, container=name))
        if row is not None:
            return row.container
        return None

    def _may_name(self, trim: Trim, scope: Scope) -> bool:
        """A channel whose label asks for its source's word is known by what of it was confirmed, or not at all."""
        if not trim.asks_source(scope.label):
            return True
        return bool(self._items.find(trim, source=Source.TEAMS, container=scope.name, limit=1))

    def _text(self, trim: Trim, row: ItemRow) -> str:
        full = self._items.full(trim, row.uri)
        return full[1] if full else ""


def names_of(focus: Iterable[Focus]) -> list[str]:
    """Addresses and names by which a focus may find an item, without regard to whether there is one."""
    found = list[str]()
    for _, address in _addresses(focus).values():
        found += [*filter(None, (address.uri, address.title)), *address.urls, *address.aliases]
    return found


def _addresses(focus: Iterable[Focus]) -> dict[str, tuple[str, Address]]:
    """What each name given is, in order, each once."""
    wanted: dict[str, tuple[str, Address]] = {}
    for one in focus:
        if one.url:
            wanted.setdefault(one.url.strip(), ("url", parse_url(one.url)))
        if one.file:
            wanted.setdefault(one.file.strip(), ("file", parse_file(one.file)))
        if one.channel:
            wanted.setdefault(one.channel.strip(), ("channel", parse_channel(one.channel)))
        if one.item:
            wanted.setdefault(one.item.strip(), ("item", Address(uri=uris.item_uri(one.item.strip()))))
    return wanted


def numbers_in(text: str) -> tuple[str, ...]:
    """Numbers of work items that a text names (#4711, AB#4711), in order, each once."""
    return tuple(dict.fromkeys(a or b for a, b in _NUMBER.findall(text)))


def _inside(address: Address, row: ItemRow, text: str) -> tuple[str | None, str, tuple[tuple[str, str], ...]]:
    """What is meant inside the item: the detail in words, words to search with, and names that it leads to."""
    detail, words, sql = address.detail, "", ""
    if any(a.startswith("grafana:") for a in row.aliases):
        panel = panel_in(text, address.panel) if address.panel is not None else None
        if panel is not None:
            detail = f"panel {address.panel}" + (f" “{panel.title}”" if panel.title else "")
            words, sql = panel.words, panel.queries
        else:
            words, sql = row.attributes.get("dashboard", ""), text
    elif row.title.lower().endswith(".sql"):
        sql = text
    elif address.line is not None and text:
        lines = text.splitlines()
        words = " ".join(" ".join(lines[max(0, address.line - 4) : address.line + 3]).split())[:400]
    read = list(sql_names(sql))
    leads = []
    if not sql or row.title.lower().endswith(".sql"):
        # Where names are not written as SQL (a Power BI model, a template), the crawl has found them.
        known = {n.lower() for n in read}
        stated = (n for n in row.attributes.get("sql_names", "").split(",") if n)
        read += [n for n in stated if n not in known and f"sql:{n}" not in row.aliases]
        measures = (m for m in row.attributes.get("measures", "").split("\n") if m)
        leads += [(f"measure:{m}", f"shows {m}") for m in measures]
    for name in read:
        # A view may be kept under its bare name as well as under its schema's.
        leads += [(f"sql:{n}", f"reads {name}") for n in dict.fromkeys((name, name.rpartition(".")[2]))]
    return detail, words, tuple(leads)


def _inside_container(rows: list[ItemRow], container: str, alias: str) -> list[ItemRow]:
    """Those of the container. Where the alias still begins with its name, that may be a folder of the path instead."""
    inside = [r for r in rows if r.container.casefold() == container.casefold()]
    return inside if inside or not alias.casefold().startswith(f"{container.casefold()}/") else rows


def _first(rows: list[ItemRow]) -> ItemRow | None:
    return min(rows, key=lambda r: r.uri) if rows else None
