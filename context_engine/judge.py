"""Judging one bundle against one golden question: each expectation that failed, with what was found instead.

An `absent` item is found if its address, URL, number, title, or a run of eight words of its text stands anywhere in
the bundle; what the asker said themselves does not count, nor what a readable item in the bundle says.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from context_engine.questions import Expect, Question
from core.bundle import Bundle, Evidence
from core.principals import user
from core.text.tokens import fold
from fixtures.sandbox.references import Target

RUN_OF_WORDS = 8
REFUSED = frozenset({"refused", "denied", "unauthorized", "unauthenticated", "forbidden"})
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Failed:
    """One expectation that was not met."""

    expect: str
    wanted: Any
    found: Any

    def to_json(self) -> dict[str, Any]:
        """As the eval command prints it."""
        return {"expect": self.expect, "wanted": self.wanted, "found": self.found}


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a question came out. `recall_at_10` and `reciprocal_rank` are None where no evidence was expected."""

    failures: tuple[Failed, ...]
    leaks: int
    recall_at_10: float | None
    reciprocal_rank: float | None


class Judge:
    """Judges with a world's own references: `target` resolves one, `oid` gives a person's object id."""

    def __init__(self, *, target: Callable[[str], Target], oid: Callable[[str], str], tenant: str) -> None:
        self._target = target
        self._oid = oid
        self._tenant = tenant

    def judge(self, question: Question, status: int, bundle: Bundle | None) -> Verdict:
        """Judge the answer (`bundle` None where it was none, with its HTTP status)."""
        expect = question.expect
        failures = list(self._outcome(expect, status, bundle))
        if bundle is None:
            if _wants_something(expect):
                failures.append(Failed("answer", 200, status))
            return Verdict(tuple(failures), 0, 0.0 if expect.evidence else None, 0.0 if expect.evidence else None)
        uris = [e.uri for e in bundle.evidence]
        failures += self._evidence(expect, bundle, uris)
        failures += self._people(expect, bundle)
        failures += self._marks(expect, bundle)
        failures += self._reading(expect, bundle)
        leaks = [f for ref in expect.absent if (f := self._leak(ref, question, bundle)) is not None]
        return Verdict((*failures, *leaks), len(leaks), *self._ranks(expect, uris))

    def _outcome(self, expect: Expect, status: int, bundle: Bundle | None) -> Iterator[Failed]:
        if expect.outcome is None:
            return
        wanted = str(expect.outcome).lower()
        met = {
            "ok": status == 200,
            "empty": bundle is not None and not bundle.evidence,
            "nothing": bundle is not None and not bundle.evidence,
        }.get(wanted, status in {401, 403} if wanted in REFUSED else str(status) == wanted)
        if not met:
            yield Failed("outcome", expect.outcome, status)

    def _evidence(self, expect: Expect, bundle: Bundle, uris: list[str]) -> Iterator[Failed]:
        shown = [_name(e.title, e.uri) for e in bundle.evidence]
        places = {ref: self._place(ref, uris) for ref in self._refs(expect)}
        limit = expect.within if expect.within is not None else len(uris)
        for ref in expect.evidence:
            place = places[ref]
            if place is None or place >= limit:
                yield Failed("evidence", ref, {"place": None if place is None else place + 1, "shown": shown[:10]})
        if expect.first is not None and places[expect.first] != 0:
            yield Failed("first", expect.first, shown[:1])
        for a, b in expect.order:
            before, after = places[a], places[b]
            if before is None or (after is not None and after < before):
                yield Failed("order", [a, b], [before, after])

    def _people(self, expect: Expect, bundle: Bundle) -> Iterator[Failed]:
        found = [p.name for p in bundle.people]
        for i, key in enumerate(expect.people):
            if i >= len(bundle.people) or bundle.people[i].principal != self._user(key):
                yield Failed("people", list(expect.people), found)
                break
        first = bundle.people[0] if bundle.people else None
        if expect.receipts:
            receipts = {r.uri for r in first.why} if first else set()
            targets = {t for ref in expect.receipts for t in (self._target(ref).uri, self._target(ref).item_uri)}
            if not receipts & targets:
                yield Failed("receipts", list(expect.receipts), sorted(receipts))
        if expect.fallback is not None:
            fallback = first.fallback if first else None
            if fallback is None or fallback.principal != self._user(expect.fallback):
                yield Failed("fallback", expect.fallback, fallback.name if fallback else None)

    def _marks(self, expect: Expect, bundle: Bundle) -> Iterator[Failed]:
        by_uri = {e.uri: e for e in bundle.evidence}
        for wanted in expect.glossary:
            meanings = [g for g in bundle.glossary if fold(g.term) == fold(wanted.term)]
            if not meanings or _plain(meanings[0].meaning) != _plain(wanted.means):
                yield Failed("glossary", wanted.model_dump(), [g.meaning for g in meanings])
        pairs = [{c.a_uri, c.b_uri} for c in bundle.conflicts]
        for pair in expect.conflicts:
            if {self._target(ref).item_uri for ref in pair} not in pairs:
                yield Failed("conflicts", list(pair), [sorted(p) for p in pairs])
        for mark in expect.superseded:
            old = by_uri.get(self._target(mark.item).item_uri or "")
            if old is None or old.superseded_by != self._target(mark.by).item_uri:
                yield Failed("superseded", mark.model_dump(), old.superseded_by if old else "not in the bundle")
        for ref in expect.stale:
            item = by_uri.get(self._target(ref).item_uri or "")
            if item is None or item.staleness is None:
                yield Failed("stale", ref, "no warning" if item else "not in the bundle")

    def _reading(self, expect: Expect, bundle: Bundle) -> Iterator[Failed]:
        gaps = {g.source for g in bundle.gaps}
        for source in expect.gaps:
            if source not in gaps:
                yield Failed("gaps", source.value, sorted(g.value for g in gaps))
        reading = bundle.interpreted_as
        if expect.intent is not None and reading.intent is not expect.intent:
            yield Failed("intent", expect.intent.value, reading.intent.value)
        if expect.temporal is not None and reading.temporal is not expect.temporal:
            yield Failed("temporal", expect.temporal.value, reading.temporal.value)

    def _leak(self, ref: str, question: Question, bundle: Bundle) -> Failed | None:
        target = self._target(ref)
        own_words = _normal(" ".join([question.ask, *_strings(question.model_dump()["focus"])]))
        everything = [_normal(s) for s in _strings(_scanned(bundle))]
        said = [_normal(text) for e in bundle.evidence for text in _said(e, target)]
        for needle in self._needles(target):
            if needle.search(own_words) or any(needle.search(s) for s in said):
                continue
            for text in everything:
                if match := needle.search(text):
                    return Failed("absent", ref, match.group(0)[:120])
        return None

    def _needles(self, target: Target) -> Iterator[re.Pattern[str]]:
        for address in {target.uri, target.url}:
            if address:
                yield re.compile(re.escape(_normal(address)) + r"(?![\w/-])")
        if target.number and len(target.number) >= 3:
            yield re.compile(rf"(?<![\w.-]){re.escape(target.number)}(?![\w-])")
        elif target.number:
            yield re.compile(rf"[#!]{re.escape(target.number)}(?!\w)")
        title = _normal(target.title or "")
        if len(title) >= 6:
            yield re.compile(rf"(?<!\w){re.escape(title)}(?!\w)")
        words = _WORD.findall(_normal(target.text or ""))
        for i in range(len(words) - RUN_OF_WORDS + 1):
            yield re.compile(r"\W+".join(map(re.escape, words[i : i + RUN_OF_WORDS])))

    def _ranks(self, expect: Expect, uris: list[str]) -> tuple[float | None, float | None]:
        if not expect.evidence:
            return None, None
        places = [self._place(ref, uris) for ref in expect.evidence]
        found = [p for p in places if p is not None]
        recall = sum(p < 10 for p in found) / len(places)
        return recall, 1 / (1 + min(found)) if found else 0.0

    def _refs(self, expect: Expect) -> set[str]:
        return {
            *expect.evidence,
            *(x for pair in expect.order for x in pair),
            *([expect.first] if expect.first else []),
        }

    def _place(self, ref: str, uris: list[str]) -> int | None:
        wanted = self._target(ref).item_uri
        return uris.index(wanted) if wanted in uris else None

    def _user(self, key: str) -> str:
        return user(self._tenant, self._oid(key.removeprefix("person:")))


def _wants_something(expect: Expect) -> bool:
    positive = expect.model_dump(exclude={"absent", "outcome", "within"}, exclude_defaults=True)
    return bool(positive)


def _said(evidence: Evidence, target: Target) -> Iterator[str]:
    """What a readable item in the bundle says for itself, and so gives away nothing of `target`. The target's own
    words do not excuse it; where it is a part (comment, reply), its item's name and URL do."""
    if evidence.uri != target.item_uri:
        yield from (evidence.title, *evidence.heading, evidence.snippet, evidence.url)
    elif evidence.uri != target.uri:
        yield from (evidence.title, evidence.url, evidence.number or "")


def _scanned(bundle: Bundle) -> Any:
    data = bundle.model_dump(mode="json", exclude={"question", "id", "digest"})
    for focus in data["interpreted_as"]["focus"]:
        focus.pop("given")
    return data


def _strings(data: Any) -> Iterator[str]:
    match data:
        case str():
            yield data
        case dict():
            for value in data.values():
                yield from _strings(value)
        case list() | tuple():
            for value in data:
                yield from _strings(value)
        case int() if not isinstance(data, bool):
            yield str(data)


def _normal(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _plain(text: str) -> str:
    return " ".join(_WORD.findall(_normal(text)))


def _name(title: str, uri: str) -> str:
    return f"{title} <{uri}>"
