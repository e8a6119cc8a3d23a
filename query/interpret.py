"""Reads a question by rules and data, no model: what kind of answer, of which time, about which named things.

The same question always reads the same. What depends on the asker (which words are abbreviations to them) is looked
up by the engine in what they may read, and handed in with `recognise`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime

from core.bundle import Intent, Interpretation, ResolvedFocus, Temporal
from core.text.stopwords import STOP_WORDS
from core.text.tokens import fold
from query import cues
from query.identifiers import Name, NameKind, names_in
from query.times import Window, window_in

_WORD = re.compile(r"[^\W_]+(?:['&/.+-][^\W_]+)*")
_EN = r"(?:the |an? |our )?(?:abbreviation |acronym |term |word )?"
_NL = r"(?:de |het |een |onze )?(?:afkorting |term |woord )?"
# Where a definition question says what it wants defined.
_TERM = (
    re.compile(rf"\b(?:what(?:'s| is) meant|mean) by {_EN}(.{{1,60}}?)[?.!]*$"),
    re.compile(rf"\bwhat (?:does|do|did) {_EN}(.{{1,60}}?) (?:mean|stand for)\b"),
    re.compile(rf"\b(?:meaning|definition) of {_EN}(.{{1,60}}?)(?:\?|$|,| in | for )"),
    re.compile(r"^\s*(?:please )?(?:define|explain) (?:the )?(?:abbreviation|acronym|term|word)? ?(.{1,60}?)[?.!]*$"),
    re.compile(rf"\bwhat {_EN}(.{{1,60}}?) (?:means|stands for)\b"),
    re.compile(rf"\bwat (?:bedoelen|bedoelt) .{{1,40}}?\bmet {_NL}(.{{1,60}}?)[?.!]*$"),
    re.compile(rf"\bwat (?:betekent|betekenen|wordt bedoeld met) {_NL}(.{{1,60}}?)(?:\?|$|,| in | voor | op )"),
    re.compile(rf"\bwaar staat {_NL}(.{{1,40}}?) voor\b"),
    re.compile(rf"\b(?:betekenis|definitie) van {_NL}(.{{1,60}}?)(?:\?|$)"),
    re.compile(r"\b(?:abbreviation|acronym|afkorting)\b[\s:,]*(.{1,40}?)\s*(?:\?|$)"),
)
_PHRASE_WORDS = 6
_ASKS_TERM = re.compile(r"\b(?:abbreviation|acronym|afkorting)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A question as understood. `term` is what a definition is asked of; `window` the time it speaks of."""

    question: str
    folded: str
    intent: Intent
    temporal: Temporal
    as_of: datetime | None
    window: Window | None
    language: str
    names: tuple[Name, ...]
    term: str | None
    points: bool
    only_literals: bool
    abbreviations: tuple[str, ...] = ()
    added: tuple[tuple[str, str], ...] = ()

    @property
    def literals(self) -> tuple[str, ...]:
        """What was put in quotes: to be met letter by letter."""
        return tuple(n.value for n in self.names if n.kind is NameKind.LITERAL)

    def without_literals(self) -> str:
        """The question without what stands in quotes."""
        rest = self.question
        for name in self.names:
            if name.kind is NameKind.LITERAL:
                rest = rest.replace(name.text, " ")
        return rest

    def recognise(self, known: Collection[str]) -> Reading:
        """Add the abbreviations and terms that the asker's own view knows; `known` are glossary keys (folded)."""
        terms = list(self.abbreviations)
        for word in words_of(self.question):
            key = fold(word)
            is_known = key in known or _singular(key) in known
            if is_known and word not in self.literals and _is_short_form(word, key, self.term):
                terms.append(word)
        reading = replace(self, abbreviations=tuple(dict.fromkeys(terms)))
        if reading.intent in (Intent.GENERAL, Intent.STATUS, Intent.PROCEDURAL):
            asked = cues.SHORT_WHAT.match(self.folded)
            if asked is None or not _is_term(asked["term"], self.question, known):
                asked = _bare_term(self.folded, known)
            if asked is not None:
                return replace(reading, intent=Intent.DEFINITION, term=_original(asked["term"], self.question))
        return reading

    def with_added(self, word: str, why: str) -> Reading:
        """Add words to the search, with the reason."""
        if any(fold(word) == fold(w) for w, _ in self.added):
            return self
        return replace(self, added=(*self.added, (word, why)))


def read_question(question: str, *, now: datetime, as_of: datetime | None, has_focus: bool) -> Reading:
    """Read `question` at `now`; `as_of` is the time that the caller asked about, `has_focus` whether one is given."""
    folded = _mend_cues(fold(question).replace("’", "'"))
    names = names_in(question)
    window = window_in(folded, now)
    points = bool(cues.DEICTIC.search(folded)) or (has_focus and bool(cues.DEICTIC_PRONOUN.search(folded)))
    term = _term_asked(folded, question, names)
    intent = _intent(folded, points=points, has_term=term is not None)
    past = as_of is not None and as_of < now
    about_past = intent is Intent.HISTORICAL or (window is not None and not _is_recent(window, now))
    historical = past or (about_past and not cues.PRESENT.search(folded))
    if historical and intent in (Intent.GENERAL, Intent.STATUS):
        intent = Intent.HISTORICAL
    literals = [n for n in names if n.kind is NameKind.LITERAL]
    rest = question
    for name in literals:
        rest = rest.replace(name.text, " ")
    return Reading(
        question=question,
        folded=folded,
        intent=intent,
        temporal=Temporal.HISTORICAL if historical else Temporal.CURRENT,
        as_of=as_of if past else None,
        window=window,
        language=_language(folded),
        names=names,
        term=term,
        points=points,
        only_literals=bool(literals) and not _content_words(rest),
        abbreviations=tuple(n.value for n in names if n.kind is NameKind.ABBREVIATION and len(n.value) <= 8),
    )


def words_of(text: str) -> list[str]:
    """The words of `text` as written, in order."""
    return _WORD.findall(text)


def phrases_of(question: str) -> tuple[str, ...]:
    """Folded words and runs of up to six words, for looking up terms; dashes count as spaces as well."""
    words = [fold(w) for w in _WORD.findall(question)]
    plain = [fold(w) for w in re.findall(r"[^\W_]+", question)]
    found: dict[str, None] = {}
    for row in (words, plain):
        for size in range(1, _PHRASE_WORDS + 1):
            for start in range(len(row) - size + 1):
                run = row[start : start + size]
                if size > 1 or run[0] not in STOP_WORDS:
                    found[" ".join(run)] = None
    for phrase in list(found):
        found[_singular(phrase)] = None
    return tuple(found)


def interpretation(reading: Reading, focus: tuple[ResolvedFocus, ...]) -> Interpretation:
    """Say how the question was understood, in one line and in fields."""
    language = {"nl": "Dutch", "en": "English"}[reading.language]
    time = "about the present" if reading.temporal is Temporal.CURRENT else "about the past"
    if reading.as_of is not None:
        time = f"as things stood on {reading.as_of:%Y-%m-%d}"
    elif reading.window is not None:
        time += f" ({reading.window.words})"
    terms = tuple(dict.fromkeys((*(n.text for n in reading.names), *reading.abbreviations)))
    parts = [f"{reading.intent.value} question {time}, in {language}"]
    if reading.intent is Intent.DEFINITION and reading.term:
        parts.append(f"asking what {reading.term} means")
    if terms:
        parts.append("names: " + ", ".join(terms))
    for one in focus:
        seen = f"{one.title or one.uri}{f' ({one.detail})' if one.detail else ''}" if one.resolved else "not resolved"
        parts.append(f"focus: {seen}")
    if reading.points and not focus:
        parts.append("points at something, but no focus was given")
    if reading.added:
        parts.append("also searched: " + ", ".join(word for word, _ in reading.added))
    return Interpretation(
        summary="; ".join(parts),
        intent=reading.intent,
        temporal=reading.temporal,
        as_of=reading.as_of,
        language=reading.language,
        terms=terms,
        expansions=tuple(f"{word} ({why})" for word, why in reading.added),
        focus=focus,
    )


def _intent(folded: str, *, points: bool, has_term: bool) -> Intent:
    for intent, patterns in cues.INTENTS:
        if intent is Intent.DEICTIC:
            if points:
                return intent
        elif intent is Intent.DEFINITION and not (has_term or _ASKS_TERM.search(folded)):
            # "what does this value mean?" asks about a thing, not about a word.
            continue
        elif any(p.search(folded) for p in patterns):
            return intent
    return Intent.GENERAL


def _term_asked(folded: str, question: str, names: tuple[Name, ...]) -> str | None:
    short = [n.value for n in names if n.kind is NameKind.ABBREVIATION]
    for pattern in _TERM:
        match = pattern.search(folded)
        if match is None:
            continue
        term = match[1].strip(" \t\"'“”`:?!.,")
        if not term:
            continue
        if re.fullmatch(r"(?:this|that|it|these|dit|dat|deze)(?: \w+)?|mean|means|for", term):
            # "what does this abbreviation mean": the term is named elsewhere, or is the focus's business.
            return short[0] if short else None
        return _original(term, question)
    asked = cues.SHORT_WHAT.match(folded)
    if asked and short and any(fold(s) == asked["term"].strip() for s in short):
        return _original(asked["term"], question)
    return None


def _original(folded_term: str, question: str) -> str:
    """The term as the asker wrote it."""
    wanted = folded_term.strip().split()
    words = re.findall(r"\S+", question)
    bare = [fold(w).strip("\"'“”`:?!.,()") for w in words]
    for start in range(len(words) - len(wanted) + 1):
        if bare[start : start + len(wanted)] == wanted:
            return " ".join(w.strip("\"'“”`:?!.,()") for w in words[start : start + len(wanted)])
    return folded_term.strip()


def _is_term(term: str, question: str, known: Collection[str]) -> bool:
    key = term.strip()
    return (
        key in known
        or _singular(key) in known
        or bool(re.fullmatch(r"[A-Z][A-Z0-9&/-]{1,7}s?", _original(key, question)))
    )


def _bare_term(folded: str, known: Collection[str]) -> re.Match[str] | None:
    asked = cues.BARE_TERM.match(folded)
    return asked if asked and (asked["term"] in known or _singular(asked["term"]) in known) else None


def _is_short_form(word: str, key: str, term: str | None) -> bool:
    if term is not None and key == fold(term):
        return True
    return sum(c.isupper() for c in word) >= 2 or (word.islower() and len(word) <= 5 and key not in STOP_WORDS)


def _singular(key: str) -> str:
    return key[:-1] if len(key) > 3 and key.endswith("s") else key


def _is_recent(window: Window, now: datetime) -> bool:
    """A stretch that reaches into the last week, or has no end, is about what is going on."""
    return window.end is None or (now - window.end).days < 8


def _content_words(text: str) -> list[str]:
    return [w for w in (fold(w) for w in words_of(text)) if w not in STOP_WORDS and w not in cues.CUE_WORDS]


def _language(folded: str) -> str:
    words = re.findall(r"[a-z]+", folded)
    dutch = sum(w in cues.DUTCH_WORDS for w in words)
    english = sum(w in cues.ENGLISH_WORDS for w in words)
    return "nl" if dutch > english else "en"


def _mend_cues(folded: str) -> str:
    """Mend slips in the words that steer ("waht does", "definiton"), and in these alone."""

    def mend(match: re.Match[str]) -> str:
        word = match[0]
        if len(word) < 4 or word in cues.CUE_WORDS or word in STOP_WORDS or word in _NEVER_MENDED:
            return word
        near = difflib.get_close_matches(word, _MENDABLE, n=1, cutoff=0.85 if len(word) > 5 else 0.75)
        if near and (len(word) > 5 or sorted(near[0]) == sorted(word)):
            return near[0]
        return word

    return re.sub(r"[a-z]+", mend, folded)


_MENDABLE = sorted(cues.CUE_WORDS)
# Words near a steering word that mean something of their own.
_NEVER_MENDED_WORDS = """
then than them graphs panels means meant states statue wheel historical original
"""
_NEVER_MENDED = frozenset(_NEVER_MENDED_WORDS.split())
