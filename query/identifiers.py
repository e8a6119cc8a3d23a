"""Recognises what a question names exactly: numbers of work items and pull requests, codes, files, quoted words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class NameKind(StrEnum):
    """What a recognised name is a name of."""

    WORK_ITEM = "work item"
    PULL_REQUEST = "pull request"
    COMMIT = "commit"
    CODE = "code"
    FILE = "file"
    SYMBOL = "symbol"
    LITERAL = "literal"
    ABBREVIATION = "abbreviation"


@dataclass(frozen=True, slots=True)
class Name:
    """Something named in a question: `text` as it was written, `value` as it is looked up."""

    kind: NameKind
    text: str
    value: str


_FILE = (
    r"(?:[\w.@-]+/)*[\w@-]+(?:\.[\w@-]+)*\.(?:py|pyi|sql|cs|csproj|ts|tsx|js|jsx|json|ya?ml|md|toml|ini|cfg|sh|ps1|go|rs|"
    r"java|kt|rb|php|c|h|cpp|hpp|xml|html|css|tf|bicep|txt|csv|proto|ipynb|dockerfile|lock)"
)
# In order: what an earlier pattern took is not read again by a later one.
_PATTERNS: tuple[tuple[NameKind, re.Pattern[str]], ...] = (
    (NameKind.LITERAL, re.compile(r"[\"“”„«]([^\"“”„»«]{1,120})[\"“”»]|`([^`]{1,120})`")),
    (
        NameKind.PULL_REQUEST,
        re.compile(r"(?:\bpull requests?|\bPRs?)\s*[#!]?\s*(\d{1,9})\b|(?<![\w#])!(\d{1,9})\b", re.I),
    ),
    (
        NameKind.WORK_ITEM,
        re.compile(
            r"\bAB#(\d{1,9})\b|(?<![\w&/])#(\d{1,9})\b"
            r"|\b(?:work ?items?|tickets?|bugs?|user stor(?:y|ies)|stor(?:y|ies)|tasks?|features?|epics?|issues?|"
            r"werkitems?|taak|taken)\s+(?:nr\.?\s*|no\.?\s*|number\s+|nummer\s+)?(\d{1,9})\b",
            re.I,
        ),
    ),
    (NameKind.FILE, re.compile(rf"(?<![\w/.@-])({_FILE})(?:[:#]L?\d+)?(?![\w/])", re.I)),
    (NameKind.COMMIT, re.compile(r"(?<![\w-])((?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40})(?![\w-])")),
    (
        NameKind.CODE,
        re.compile(r"(?<![\w-])((?:[A-Z][A-Z0-9]*-)+\d[\dA-Za-z]*|[A-Z]{2,}\d{3,}|0x[0-9A-Fa-f]+)(?![\w-])"),
    ),
    (
        NameKind.SYMBOL,
        re.compile(
            r"(?<![\w.])([A-Za-z]\w*(?:\.[A-Za-z]\w*)+|[A-Za-z]\w*_\w+|[a-z]+[A-Z]\w*|[A-Z][a-z]+[A-Z]\w*)(?![\w.])"
        ),
    ),
    (NameKind.ABBREVIATION, re.compile(r"(?<![\w-])([A-Z][A-Za-z]?[A-Z0-9&/]{1,8}s?|[A-Z]{2,}s?)(?![\w-])")),
)


def names_in(question: str) -> tuple[Name, ...]:
    """Return what `question` names exactly, in the order of the text, each once."""
    taken: list[tuple[int, int]] = []
    found: list[tuple[int, Name]] = []
    for kind, pattern in _PATTERNS:
        for match in pattern.finditer(question):
            if any(match.start() < end and start < match.end() for start, end in taken):
                continue
            value = next((g for g in match.groups() if g), "").strip()
            if not value:
                continue
            taken.append(match.span())
            found.append((match.start(), Name(kind, match.group(0).strip(), value)))
    ordered = [name for _, name in sorted(found, key=lambda x: x[0])]
    return tuple(dict.fromkeys(ordered))
