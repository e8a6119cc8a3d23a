"""Takes statements of values out of text: which words a number with its unit stands beside.

"The outbound request timeout is 30 seconds" gives the value 30 seconds for {outbound, request, timeout}. Units are
brought to one (30 s = 0.5 min) so that a different spelling is no different value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from core.text.stopwords import STOP_WORDS
from core.text.tokens import fold, keyword_tokens

_UNITS: dict[str, tuple[str, float]] = {}
for _names, _dimension, _scale in (
    ("ms msec millisecond milliseconds milliseconden", "time", 0.001),
    ("s sec secs second seconds seconde seconden", "time", 1),
    ("min mins minute minutes minuut minuten", "time", 60),
    ("h hr hrs hour hours uur uren", "time", 3600),
    ("day days dag dagen", "time", 86400),
    ("week weeks weken", "time", 604800),
    ("month months maand maanden", "months", 1),
    ("year years jaar jaren", "months", 12),
    ("kb", "bytes", 1e3),
    ("mb", "bytes", 1e6),
    ("gb", "bytes", 1e9),
    ("tb", "bytes", 1e12),
    ("% percent procent", "percent", 1),
    ("eur euro euros €", "euro", 1),
    ("usd dollar dollars $", "dollar", 1),
    ("m meter meters metre metres", "length", 1),
    ("km", "length", 1000),
    ("cm", "length", 0.01),
    ("mm", "length", 0.001),
    ("kg kilo", "mass", 1),
    ("ton tons tonnes", "mass", 1000),
    ("m/s", "speed", 1),
    ("km/h", "speed", 1 / 3.6),
    ("knots knopen kn", "speed", 0.514444),
    ("n", "force", 1),
    ("kn.", "force", 1000),
    ("v volt", "voltage", 1),
    ("kv", "voltage", 1000),
    ("kw", "power", 1),
    ("mw", "power", 1000),
    ("hz", "frequency", 1),
    ("°c", "temperature", 1),
    ("bar", "pressure", 1),
    ("bit bits", "bits", 1),
    ("times keer maal attempts pogingen retries", "count", 1),
    ("orders files messages bestanden berichten", "things", 1),
):
    for _name in _names.split():
        _UNITS[_name] = (_dimension, _scale)

# kN is a force and kn a speed; the case tells them apart.
_CASED = {
    "kN": ("force", 1000.0),
    "N": ("force", 1.0),
    "MB": ("bytes", 1e6),
    "Mb": ("bits", 1e6),
    "MW": ("power", 1000.0),
}
# Small numbers are often written out.
_IN_WORDS: dict[str, int] = {}
for _number, _words in enumerate(
    (
        "two twee",
        "three drie",
        "four vier",
        "five vijf",
        "six zes",
        "seven zeven",
        "eight acht",
        "nine negen",
        "ten tien",
        "eleven elf",
        "twelve twaalf",
    ),
    start=2,
):
    for _name in _words.split():
        _IN_WORDS[_name] = _number
_NAMES = "|".join(re.escape(u) for u in sorted((*_UNITS, *_CASED), key=lambda u: (-len(u), u)))
_NUMBER = rf"\d{{1,3}}(?:[, ]\d{{3}})+|\d+(?:[.,]\d+)?|(?:{'|'.join(_IN_WORDS)})(?=[\s-])"
_VALUE = re.compile(rf"(?<![\w.,:/#-])({_NUMBER})[\s\u00a0\u202f-]?(?P<unit>{_NAMES})(?![\w/])", re.IGNORECASE)
_CLOCK = re.compile(r"(?<![\w:.])([01]?\d|2[0-3]):([0-5]\d)(?![\w:])")
_VERSION = re.compile(r"\b(?:version|versie|v|phase|fase|release)[ .]?(\d+(?:\.\d+)*)\b", re.I)
# `timeout_seconds: 30`, `RETRIES = 6`: a setting whose name is the subject.
_SETTING = re.compile(
    r"^\s*[\"']?([A-Za-z][\w.-]{3,60})[\"']?\s*[:=]\s*[\"']?(\d+(?:\.\d+)?)\s*([a-z%]{0,3})[\"']?,?\s*(?:[#/](.*))?$"
)
_REMARK = re.compile(r"^\s*(?:#|//|--|;)(.*)$")
# "in seconds", "(ms)": the unit of settings that carry none.
_UNIT_TOLD = re.compile(rf"(?:\bin\s+|\()({_NAMES})\b", re.IGNORECASE)
_RULE = re.compile(r"^[\s|:]*-[\s|:-]*$")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+(?=[\"“(*_A-Z0-9])|\n+|\s\|\s")
# How a message of a thread begins in a chunk.
_SPEAKER = re.compile(r"^[^\n:]{2,60}, \d{4}-\d\d-\d\d: ", re.M)
_WORDS_AROUND = 12
_CLAUSE_END = re.compile(r"[,;:]\s")
# Stands right before a value that no longer holds.
_DENIAL = re.compile(
    r"(?:\bnot|\bno longer|\binstead of|\brather than|\breplaces?|\bwas|\bwere|\bused to be|"
    r"\bniet|\bniet langer|\bin plaats van|\bvervangt|\bwaren)(?: (?:the|de|het|at|op|a|een|old|oude|only|meer))*\s*$"
)


@dataclass(frozen=True, slots=True)
class Statement:
    """A value for a subject: `words` are the stems beside it, `value` in the dimension's base unit. `denied`: the text
    says that it is not so, or no longer ("15 m/s, not 18 m/s")."""

    words: frozenset[str]
    dimension: str
    value: float
    said: str
    sentence: str
    denied: bool = False


def statements(text: str, context: str = "") -> tuple[Statement, ...]:
    """Return the statements of values in `text`; a short sentence takes the words of `context` (its headings) too."""
    found: list[Statement] = []
    extra = _subject(context)
    told = ""
    for sentence, shown in _readable(text):
        setting = _SETTING.match(sentence)
        if setting:
            unit = setting[3] or _unit_in_name(setting[1]) or _unit_told(setting[4] or "") or told
            known = _UNITS.get(unit.lower()) if unit else None
            if known:
                # Parts of the name, not the name as a whole, are what prose says.
                words = frozenset(w for w in _subject(setting[1]) if not re.search(r"[_.-]", w))
                words = words if len(words) > 1 else words | extra
                found.append(Statement(words, known[0], float(setting[2]) * known[1], f"{setting[2]} {unit}", shown))
            continue
        # A remark above settings speaks for all of them.
        remark = _REMARK.match(sentence)
        told = _unit_told(remark[1]) if remark else ""
        for match in _VALUE.finditer(sentence):
            unit = match["unit"]
            dimension, scale = _CASED.get(unit) or _UNITS[unit.lower()]
            found.append(_statement(sentence, shown, match, dimension, round(_number_of(match[1]) * scale, 9), extra))
        for match in _CLOCK.finditer(sentence):
            found.append(_statement(sentence, shown, match, "clock", int(match[1]) * 60 + int(match[2]), extra))
        for match in _VERSION.finditer(sentence):
            value = float(sum(int(p) / 1000**i for i, p in enumerate(match[1].split(".")[:3])))
            found.append(_statement(sentence, shown, match, "version", round(value, 9), extra))
    return tuple(s for s in found if s.words)


def sentences(text: str) -> list[str]:
    """Sentences, lines and table cells of `text`, markup of emphasis removed."""
    plain = _SPEAKER.sub("", re.sub(r"\*\*|__|`", "", text))
    return [s.strip() for s in _SENTENCE.split(plain) if s and s.strip()]


def subject_words(text: str) -> frozenset[str]:
    """Stems of the words of `text` that say what it is about."""
    return _subject(text)


def _readable(text: str) -> Iterator[tuple[str, str]]:
    """What to read statements from, and the words to show for it: a cell of a table is read with its row's first cell
    and its column's head."""
    prose: list[str] = []
    head: list[str] = []
    lines = text.splitlines()
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        if not line.lstrip().startswith("|") or len(cells) < 2:
            prose.append(line)
            head = []
            continue
        yield from ((s, s) for s in sentences("\n".join(prose)))
        prose = []
        if _RULE.match(after):
            head = cells
        elif not _RULE.match(line):
            shown = " | ".join(cells)
            for i, cell in enumerate(cells[1:], start=1):
                yield f"{cells[0]} {head[i] if i < len(head) else ''}: {cell}", shown
    yield from ((s, s) for s in sentences("\n".join(prose)))


def _statement(
    sentence: str, shown: str, match: re.Match[str], dimension: str, value: float, extra: frozenset[str]
) -> Statement:
    before = sentence[: match.start()].split()[-_WORDS_AROUND:]
    after = sentence[match.end() :]
    # What comes after a comma or colon is said of something else, unless the clause is too short to say anything.
    for rest in (_CLAUSE_END.split(after)[0], after):
        words = _subject(" ".join((*before, *rest.split()[:_WORDS_AROUND])))
        if len(words) >= 3:
            break
    if len(words) < 3:
        words |= extra
    denied = bool(_DENIAL.search(fold(sentence[: match.start()])))
    return Statement(words, dimension, value, match[0].strip(), shown, denied)


def _subject(text: str) -> frozenset[str]:
    return frozenset(
        t
        for t in keyword_tokens(text)
        if len(t) > 2 and t not in STOP_WORDS and not t[0].isdigit() and t not in _UNITS and t not in _DULL
    )


def _unit_told(remark: str) -> str:
    found = _UNIT_TOLD.search(remark)
    return found[1] if found else ""


def _number_of(said: str) -> float:
    words = _IN_WORDS.get(said.lower())
    return float(re.sub(r"[, ](?=\d{3}\b)", "", said).replace(",", ".")) if words is None else float(words)


def _unit_in_name(name: str) -> str:
    parts = [fold(p) for p in re.findall(r"[A-Z]?[a-z]+|[A-Z]+|%", name)]
    return next((p for p in reversed(parts) if p in _UNITS and len(p) > 1), "")


_DULL_WORDS = """
second minut hour day week month year time first last new one two three use set now default
"""
_DULL = frozenset(_DULL_WORDS.split())
