"""Who may read which items of a world, as the world's own rules say: the yardstick that every way in is held to.

The rules are evaluated by the sandbox's oracle, which shares nothing with the engine; what it says of Azure DevOps is
said a second time by the naive evaluator (`naive_model`), which shares nothing with the oracle.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from core import uris
from core.text.tokens import keyword_tokens
from fixtures.sandbox import references
from fixtures.sandbox.access import may_read
from fixtures.sandbox.refs import Ref
from fixtures.sandbox.state import SandboxState
from tests.invariants.naive_access import NaiveAccess
from tests.support.engines import LiveEngine

_ITEMS = frozenset({"work_item", "page", "file", "commit", "pr", "message"})
_ADDRESS = re.compile(r"ctx://[A-Za-z0-9%:@/._~-]+")


class Truth:
    """One world's items by address, with who may read them now."""

    def __init__(self, live: LiveEngine) -> None:
        assert live.engine.sandbox is not None
        self.state: SandboxState = live.engine.sandbox.state
        self.refs: dict[str, list[Ref]] = {}
        self.texts: dict[str, str] = {}
        self.titles: dict[str, str] = {}
        for ref in sorted(self.state.everything()):
            if ref.kind not in _ITEMS:
                continue
            target = references.target(self.state, str(ref))
            assert target.item_uri is not None
            self.refs.setdefault(target.item_uri, []).append(ref)
            self.texts[target.item_uri] = f"{self.texts.get(target.item_uri, '')} {target.text}"
            self.titles.setdefault(target.item_uri, target.title or "")
        # What the source makes itself, such as the commit that completes a pull request, is as readable as its repo.
        for key in self.state.lookup.repos:
            for commit in self.state.git(key).log():
                uri = uris.commit(self.state.organization or "", self.state.git(key).id, commit.sha)
                self.refs.setdefault(uri, [Ref("repo", (key,))])
        with live.engine.database.connection() as connection:
            rows = connection.execute("SELECT uri, title FROM items WHERE shown").fetchall()
        self.stored = {r["uri"]: r["title"] for r in rows}
        self._frequency = Counter(t for uri in self.stored for t in set(keyword_tokens(self.texts.get(uri, ""))))
        self._readable: dict[str, frozenset[str]] = {}

    @property
    def askers(self) -> list[str]:
        """People whose accounts work; service principals are no people."""
        people = self.state.world.people
        return [k for k, p in people.items() if p.kind != "service" and self.state.enabled(k)]

    def readable(self, person: str) -> frozenset[str]:
        """Addresses of the stored items that a person may read."""
        if person not in self._readable:
            found = {u for u, refs in self.refs.items() if any(may_read(self.state, person, r) for r in refs)}
            self._readable[person] = frozenset(found & self.stored.keys())
        return self._readable[person]

    def opens(self, person: str, address: str) -> bool:
        """Whether an address of an item, or of a part of one, opens for a person."""
        return uris.item_uri(address) in self.readable(person)

    def own_words(self, uri: str, most: int = 5) -> str:
        """A question made of an item's title and of the rarest words of its text."""
        words = dict.fromkeys(re.findall(r"[^\W\d_]{4,}", self.texts.get(uri, "")))
        rare = sorted(words, key=lambda w: (min((self._frequency[t] for t in keyword_tokens(w)), default=9**9), w))
        return " ".join((self.stored[uri], *rare[:most]))[:400]


def addresses_in(text: str) -> set[str]:
    """Every ctx:// address that stands in an answer."""
    return {found.rstrip(".:") for found in _ADDRESS.findall(text)}


def naive_model(state: SandboxState) -> NaiveAccess:
    """The naive evaluator over a world's plain data, with every area spelt out."""
    data = state.world.model_dump(mode="json", by_alias=True)
    for key, project in data["azure_devops"]["projects"].items():
        areas = {"/" + path.strip("/"): area for path, area in project["areas"].items()}
        for path in state.lookup.areas[key]:
            areas.setdefault(path, {"acl": None, "inherit": True})
        project["areas"] = areas
    return NaiveAccess(data, project_reaches=True, deny_reaches_down=False)


def node_of(state: SandboxState, ref: Ref) -> tuple[str, str, str] | None:
    """The project, kind and key of the node that an item of Azure DevOps hangs on; None for what Teams holds."""
    from fixtures.sandbox.refs import area_path

    lookup = state.lookup
    match ref.kind:
        case "work_item":
            project, item = lookup.work_items[int(ref.parts[0])]
            return project, "area", area_path(item.area)
        case "page":
            project, wiki = lookup.wikis[ref.parts[0]]
            if wiki.kind == "code":
                repo = (wiki.repo or "").removeprefix("repo:")
                return lookup.repos[repo][0], "repo", repo
            return project, "wiki", ref.parts[0]
        case "file" | "commit" | "pr":
            return lookup.repos[ref.parts[0]][0], "repo", ref.parts[0]
    return None


def every(items: Iterable[Any], n: int, start: int = 0) -> list[Any]:
    """About `n` of the items, spread evenly, another choice for another `start`; all where n is 0."""
    rows = list(items)
    if not rows or n == 0 or n >= len(rows):
        return rows
    step = len(rows) / n
    return [rows[int(start + k * step) % len(rows)] for k in range(n)]
