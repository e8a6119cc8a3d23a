"""Definition mining: short forms and their long forms, from one item's own words.

Two methods. `parenthesis`: Schwartz and Hearst, "A simple algorithm for identifying abbreviation definitions in
biomedical text" (PSB 2003), for `long form (SF)` and `SF (long form)`. `stated`: sentences that say it outright
("SF stands for …", "SF = …", "SF: …" in a list or table of terms; Dutch "SF staat voor …", "SF betekent …").
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from core.text.terms import meaning_key, term_key

_SHORT = r"[A-Z][A-Za-z0-9&/.\-]{0,8}[A-Z0-9]"
_PARENTHESIS = re.compile(r"\(([^()\n]{2,80})\)")
_STATED = (
    re.compile(
        rf"(?P<short>{_SHORT})\"?\s+(?:here\s+|hier\s+|always\s+|altijd\s+)?(?:stands\s+for|is\s+short\s+for|is\s+an?\s+(?:abbreviation|acronym)\s+(?:for|of)|"
        rf"abbreviates|means|staat\s+voor|betekent|is\s+de\s+afkorting\s+van|is\s+een\s+afkorting\s+van)\s+"
        rf"(?P<long>[^.;:!?\n|(]{{3,90}})"
    ),
    re.compile(
        rf"\b(?:[Bb]y|[Ww]ith|[Mm]et)\s+\"?(?P<short>{_SHORT})\"?\s+"
        rf"(?:(?:we|I|they)\s+mean|bedoelen\s+(?:we|wij|ze)|bedoel\s+ik)\s+(?P<long>[^.;:!?\n|(]{{3,90}})"
    ),
    re.compile(
        rf"(?:^|[\s*>\-(\"'])(?P<short>{_SHORT})\s*(?:=|:=|≙)\s*(?P<long>[^.;!?\n|=(<>]{{3,90}})",
        re.MULTILINE,
    ),
    re.compile(
        rf"^[ \t]*[-*+][ \t]+\*{{0,2}}(?P<short>{_SHORT})\*{{0,2}}\s*(?::\*{{0,2}}|–|—|-)\s+"
        rf"(?P<long>[^.;:!?\n|(]{{3,90}})",
        re.MULTILINE,
    ),
    re.compile(
        rf"^[ \t]*\|[ \t]*\*{{0,2}}(?P<short>{_SHORT})\*{{0,2}}\s*\|\s*(?P<long>[^|\n]{{3,120}})\|", re.MULTILINE
    ),
)
_CODE_FENCE = re.compile(r"(```|~~~).*?(\1|\Z)", re.DOTALL)
_MARKS = re.compile(r"[*_`\"“”‘’]+|\[([^\]\n]{0,300})\]\([^)\n]{0,1000}\)")
_WORD = re.compile(r"[^\W_]+(?:['’\-][^\W_]+)*")
# How far from a short form its long form and its sentence are looked for, so that no text takes longer than its length.
_NEAR = 400
_FILLER = frozenset(
    {"the", "a", "an", "our", "your", "de", "het", "een", "onze", "of", "and", "for", "en", "van", "voor"}
)


@dataclass(frozen=True, slots=True)
class Definition:
    """`term` means `meaning`, as `quote` says; `method` is `parenthesis` or `stated`."""

    term: str
    meaning: str
    quote: str
    method: str


def mine(text: str) -> list[Definition]:
    """All definitions that `text` (Markdown or plain) states, each once, in order of appearance."""
    plain = _MARKS.sub(lambda m: m.group(1) or "", _CODE_FENCE.sub(" ", text))
    found: dict[tuple[str, str], Definition] = {}
    for definition in (*_from_parentheses(plain), *_from_statements(plain)):
        found.setdefault((term_key(definition.term), meaning_key(definition.meaning)), definition)
    return list(found.values())


def _from_parentheses(text: str) -> Iterator[Definition]:
    for match in _PARENTHESIS.finditer(text):
        inside = re.split(r"[,;]", match.group(1))[0].strip()
        near = max(0, match.start() - _NEAR)
        line_start = max(text.rfind("\n", near, match.start()), text.rfind(". ", near, match.start()), near)
        before = text[line_start : match.start()].strip()
        if _is_short(inside):
            long = best_long_form(inside, _tail_words(before, inside))
            if long:
                yield Definition(inside, long, _sentence(text, match.start()), "parenthesis")
        else:
            words = before.split()
            last = words[-1].strip(",:") if words else ""
            if _is_short(last):
                long = best_long_form(last, inside)
                if long and len(long) >= 0.8 * len(inside):
                    yield Definition(last, inside, _sentence(text, match.start()), "parenthesis")


def _from_statements(text: str) -> Iterator[Definition]:
    for pattern in _STATED:
        for match in pattern.finditer(text):
            short = match.group("short")
            long = _stated_long(short, match.group("long")) if _is_short(short) else None
            if long is not None:
                yield Definition(short, long, _sentence(text, match.start("short")), "stated")


def _is_short(text: str) -> bool:
    """A plausible short form: 2 to 10 characters, at most two words, a letter in it, two capitals or digits."""
    if not 2 <= len(text) <= 10 or len(text.split()) > 2 or not text[0].isalnum():
        return False
    capitals = sum(c.isupper() for c in text)
    return any(c.isalpha() for c in text) and capitals >= 2 and sum(c.islower() for c in text) <= capitals + 1


def _tail_words(before: str, short: str) -> str:
    letters = sum(c.isalnum() for c in short)
    words = before.split()
    return " ".join(words[-min(letters + 5, letters * 2) :])


def best_long_form(short: str, long: str) -> str | None:
    """Schwartz-Hearst: the shortest tail of `long` whose characters hold those of `short` in order, the first at the
    start of a word; None where there is none."""
    s, i = len(short) - 1, len(long) - 1
    while s >= 0:
        wanted = short[s].lower()
        if not wanted.isalnum():
            s -= 1
            continue
        while i >= 0 and (long[i].lower() != wanted or (s == 0 and i > 0 and long[i - 1].isalnum())):
            i -= 1
        if i < 0:
            return None
        i -= 1
        s -= 1
    start = long.rfind(" ", 0, i + 1) + 1
    candidate = long[start:].strip(" ,:-–")
    words = _WORD.findall(candidate)
    letters = sum(c.isalnum() for c in short)
    plausible = len(words) >= 2 and len(words) <= min(letters + 5, letters * 2) and len(candidate) > len(short)
    return candidate if plausible and term_key(short) not in {w.casefold() for w in words} else None


def _fits(short: str, long: str) -> bool:
    """A stated long form must look like one: its initials, or its letters in order, give the short form."""
    if len(_WORD.findall(long)) < 2:
        return False
    initials, wanted = _initials(long), _letters(short)
    return wanted in initials or (initials in wanted and len(initials) >= 2) or best_long_form(short, long) is not None


def _initials(long: str) -> str:
    return "".join(w[0] for w in _WORD.findall(long) if w.casefold() not in _FILLER or len(w) > 3).casefold()


def _letters(short: str) -> str:
    return "".join(c for c in short if c.isalnum()).casefold()


def _stated_long(short: str, text: str) -> str | None:
    """The long form at the start of `text`, up to the comma at which its initials are the short form ("Name, Address,
    Residence"), else up to the first at which it fits."""
    parts = text.split(",")
    starts = [_trim_long(",".join(parts[:end])) for end in range(1, len(parts) + 1)]
    fitting = [s for s in starts if _fits(short, s)]
    whole = [s for s in fitting if _initials(s) == _letters(short)]
    return next(iter((*whole, *fitting)), None)


def _trim_long(text: str) -> str:
    """Cut a captured long form where the definition ends: at a dash, or a clause that goes on."""
    cut = re.split(
        r"\s[–—-]\s|\s(?:and\s+(?:is|are|we|it|not)|which|that|here|there|in\s+(?:this|our|their)|when|because|niet|die|dat)\b",
        text,
    )[0]
    words = cut.strip().split()
    while words and words[0].casefold() in {"the", "a", "an", "our", "de", "het", "een", "onze"}:
        words = words[1:]
    return " ".join(words).strip(" *_")


def _sentence(text: str, at: int) -> str:
    near, far = max(0, at - _NEAR), min(len(text), at + _NEAR)
    start = max(text.rfind("\n", near, at), text.rfind(". ", near, at) + 1, near)
    ends = [e for e in (text.find("\n", at + 1, far), text.find(". ", at + 1, far)) if e >= 0]
    return " ".join(text[start : min(ends, default=far) + 1].split())[:300]
