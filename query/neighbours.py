"""Follows links from the best items and from the focus, so that evidence one step away comes in with its path shown.

From a focus the chain behind it is followed: a panel's query to the view it reads, the view to the commits and pull
requests that changed it, those to their work items. Every step is a trimmed call: both ends are readable.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from core.access import Trim
from core.items import ItemKind, Source
from core.tuning import Tuning
from graph.records import ItemRow, ItemStore
from query import focus as focused
from query.identifiers import NameKind, names_in
from query.retrieve import Found, Hit, Retriever, Vectors

_CHANGES = (ItemKind.COMMIT, ItemKind.PULL_REQUEST)
# Changes of a file that are followed, newest first.
_MOST_CHANGES = 8
# Chunks of a hit that are read for names.
_READ = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """An item reached, over which `path` (in words), in how many hops; `chain`: what stands behind a focus."""

    uri: str
    path: str
    hops: int
    seed: float
    chain: bool


class Neighbours:
    """Expansion of a search by the graph of links."""

    def __init__(self, items: ItemStore, retriever: Retriever, tuning: Tuning) -> None:
        self._items = items
        self._retriever = retriever
        self._tuning = tuning

    def expand(self, trim: Trim, vectors: Vectors, found: Found, focus: Iterable[focused.Found]) -> dict[str, Hit]:
        """Return `found`'s hits with linked neighbours among them, scored by the same vectors."""
        steps: dict[str, Step] = {}
        rows = [f for f in focus if f.row is not None]
        for one in rows:
            for step in self._behind(trim, one):
                _keep_nearest(steps, step)
        ordered = sorted(found.hits.values(), key=lambda h: (-h.relevance, h.uri))
        seeds = ordered[: self._tuning.expand_from]
        for step in (*self._linked(trim, seeds), *self._worked_on(trim, seeds), *self._spoken_of(trim, seeds)):
            _keep_nearest(steps, step)
        missing = [u for u in steps if u not in found.hits]
        wanted = sorted(missing, key=lambda u: (not steps[u].chain, steps[u].hops, -steps[u].seed, u))
        scored = self._retriever.score(trim, vectors, wanted[: self._tuning.most_neighbours], found)
        hits = dict(found.hits)
        for uri, step in sorted(steps.items()):
            hit = hits.get(uri) or scored.get(uri)
            if hit is not None:
                hits[uri] = self._raised(hit, step, known=uri in found.hits)
        return hits

    def _raised(self, hit: Hit, step: Step, *, known: bool) -> Hit:
        share = self._tuning.neighbour_share
        if step.chain:
            places = self._tuning.focus_hops
            place = places[min(step.hops, len(places) - 1)]
            # The focus itself stands first; what is behind it also by its own words.
            earned = 1.0 if step.hops == 0 else 0.75 + 0.25 * min(1.0, hit.relevance)
            relevance = max(hit.relevance, place * earned)
            return replace(hit, relevance=round(relevance, 6), via=step.path or hit.via, chain=True)
        # Never lowered: a link can only speak for an item.
        linked = (1 - share) * hit.relevance + share * min(1.0, step.seed)
        relevance = max(hit.relevance, linked) if known else linked
        return replace(hit, relevance=round(relevance, 6), own=hit.relevance, via=hit.via if known else step.path)

    def _linked(self, trim: Trim, seeds: list[Hit]) -> list[Step]:
        by_uri = {h.uri: h for h in seeds}
        steps = []
        for start, end, rel in self._items.links_from(trim, sorted(by_uri)):
            if end.startswith("ctx://") and start in by_uri and end != start:
                seed = by_uri[start]
                steps.append(_step(end, f"{_said(rel)} of {_named(seed.row)}", 1, seed.relevance, chain=False))
        for start, end, rel in self._items.links_to(trim, sorted(by_uri)):
            if end in by_uri and end != start:
                seed = by_uri[end]
                steps.append(_step(start, f"has {_named(seed.row)} as {_said(rel)}", 1, seed.relevance, chain=False))
        return steps

    def _worked_on(self, trim: Trim, seeds: list[Hit]) -> list[Step]:
        """Files that were changed for a work item: what was done the last time."""
        work = {h.uri: h for h in seeds if h.row.kind is ItemKind.WORK_ITEM}
        if not work:
            return []
        changes: dict[str, Hit] = {}
        for start, end, _ in self._items.links_to(trim, sorted(work)):
            if "/commits/" in start and end in work:
                known = changes.get(start)
                if known is None or known.relevance < work[end].relevance:
                    changes[start] = work[end]
        if not changes:
            return []
        steps = []
        for start, end, _ in self._items.links_from(trim, sorted(changes)):
            if "/files/" in end:
                seed = changes[start]
                steps.append(_step(end, f"changed for {_named(seed.row)}", 2, seed.relevance, chain=False))
        return steps

    def _spoken_of(self, trim: Trim, seeds: list[Hit]) -> list[Step]:
        """Files and views that the words of a hit name ("use `northwind.py` as your model")."""
        spoken: dict[str, tuple[str, Hit]] = {}
        for seed in seeds:
            for name in names_in("\n".join(c.text for c in seed.chunks[:_READ])):
                if name.kind is NameKind.FILE:
                    spoken.setdefault(name.value, (name.value, seed))
                elif name.kind is NameKind.SYMBOL:
                    spoken.setdefault(f"sql:{name.value}", (name.value, seed))
        steps = []
        for alias, rows in self._items.named(trim, list(spoken)[: self._tuning.most_neighbours]).items():
            word, seed = spoken[alias]
            if len({r.uri for r in rows}) == 1 and rows[0].uri != seed.uri:
                path = f"{word} is named in {_named(seed.row)}"
                steps.append(_step(rows[0].uri, path, 1, seed.relevance, chain=False))
        return steps

    def _behind(self, trim: Trim, focus: focused.Found) -> list[Step]:
        """The chain behind a focus, nearest first, each address once, the focus itself as hop 0."""
        if focus.row is None:
            return []
        start = focus.row
        steps = [_step(start.uri, "in focus", 0, 1.0, chain=True)]
        # What the focus reads stands nearer to it than what was done to it.
        files: list[tuple[ItemRow, str, int]] = [(start, "the focus", 1)]
        for alias, words in focus.leads:
            for row in self._items.find(trim, alias=alias):
                if row.uri != start.uri:
                    steps.append(_step(row.uri, f"the focus {words}", 1, 1.0, chain=True))
                    files.append((row, _named(row), 1))
        for row, name, hops in files:
            if row.kind is ItemKind.FILE:
                steps += self._changes(trim, row, name, hops)
        if start.kind is not ItemKind.FILE:
            steps += self._linked(trim, [_as_seed(start)])
        return steps

    def _changes(self, trim: Trim, row: ItemRow, name: str, hops: int) -> list[Step]:
        """Commits and pull requests that changed a file, and the work items that they or the file name."""
        changes = self._newest(trim, {s for s, _, _ in self._items.links_to(trim, [row.uri])})
        # A pull request states the commits that it brought in.
        around = {s for s, _, _ in self._items.links_to(trim, sorted(r.uri for r in changes))} if changes else set()
        changes += [r for r in self._newest(trim, around) if r.uri not in {c.uri for c in changes}]
        steps = [_step(r.uri, f"changed {name}", hops + 1, 1.0, chain=True) for r in changes]
        reached = dict.fromkeys(sorted(around), f"the work behind a change to {name}")
        if changes:
            for start, end, _ in self._items.links_from(trim, sorted(r.uri for r in changes)):
                if end.startswith("ctx://") and start != end:
                    reached.setdefault(end, f"the work behind a change to {name}")
        full = self._items.full(trim, row.uri)
        for number in focused.numbers_in(full[1] if full else ""):
            for item in self._items.find(trim, source=Source.WORK_ITEMS, number=number):
                reached[item.uri] = f"named in {name}"
        rows = self._items.visible(trim, sorted(reached))
        for uri in sorted(rows):
            if rows[uri].kind is ItemKind.WORK_ITEM:
                steps.append(_step(uri, reached[uri], hops + 1, 1.0, chain=True))
        return steps

    def _newest(self, trim: Trim, uris: Iterable[str]) -> list[ItemRow]:
        """The newest commits and pull requests among `uris`."""
        rows = [r for r in self._items.visible(trim, sorted(uris)).values() if r.kind in _CHANGES]
        rows.sort(key=lambda r: r.uri)
        rows.sort(key=lambda r: r.modified_at.timestamp() if r.modified_at else 0.0, reverse=True)
        return rows[:_MOST_CHANGES]


def _as_seed(row: ItemRow) -> Hit:
    return Hit(row=row, chunks=(), close=0, dense=0.0, keyword=0.0, relevance=1.0)


def _step(uri: str, path: str, hops: int, seed: float, *, chain: bool) -> Step:
    return Step(uri=uri, path=path, hops=hops, seed=seed, chain=chain)


def _keep_nearest(steps: dict[str, Step], step: Step) -> None:
    known = steps.get(step.uri)
    if known is None or _order(step) < _order(known):
        steps[step.uri] = step


def _order(step: Step) -> tuple[bool, int, float, str]:
    return (not step.chain, step.hops, -step.seed, step.path)


def _named(row: ItemRow) -> str:
    number = f"#{row.number} " if row.number and row.kind is ItemKind.WORK_ITEM else ""
    return f"{number}“{row.title}”"


def _said(rel: str) -> str:
    return rel.replace("_", " ").replace("-", " ") or "link"
