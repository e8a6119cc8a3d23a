"""What a page says of its own standing: owner, last review, deprecation and what replaced it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from core.items import PersonRef
from core.text.markdown import split_front_matter
from ingestion.azure_devops.shapes import when
from ingestion.azure_devops.wiki_paths import link_targets

# Such lines stand at the top of a page; further down they are part of what it tells.
_HEAD_LINES = 25
_DATE = (
    r"(\d{4}-\d{2}-\d{2}|\d{1,2}(?:st|nd|rd|th|\.)?\s+[A-Za-z]{3,9}\.?\s+\d{4}|[A-Za-z]{3,9}\.?\s+\d{1,2}(?:st|nd|rd|th)?,?\s+\d{4})"
    r"(?:[T ][\d:.]+Z?)?"
)
# A month by its first letters, in English and Dutch.
_MONTHS = {
    name: number
    for number, names in enumerate(
        ("jan", "feb", "mar maa mrt", "apr", "may mei", "jun", "jul", "aug", "sep", "oct okt", "nov", "dec"), start=1
    )
    for name in names.split()
}
_LEAD = r"^[\s>*_#|-]*(?:\*\*|__)?"
_REVIEWED = re.compile(
    _LEAD
    + r"(?:last\s+|laatst\s+)?(?:reviewed|validated|verified|gecontroleerd|beoordeeld|gevalideerd)"
    + r"(?:\s+(?:on|op))?(?:\*\*|__)?\s*:?(?:\*\*|__)?\s*"
    + _DATE
    + r"(?:\s*(?:by|door|,|\()\s*@?([^\n|)]+))?",
    re.IGNORECASE,
)
_OWNER = re.compile(_LEAD + r"(?:(?:page\s+)?owner|eigenaar)(?:\*\*|__)?\s*:(?:\*\*|__)?\s*@?([^\n|]+)", re.IGNORECASE)
_GONE = (
    r"(?:deprecated|obsolete|superseded|outdated|out\s+of\s+date|retired|replaced|archived|"
    r"no\s+longer\s+(?:valid|maintained|current|used|in\s+use|up\s+to\s+date|applicable)|"
    r"verouderd|vervallen|vervangen|achterhaald|niet\s+(?:meer|langer)\s+(?:geldig|actueel|onderhouden|in\s+gebruik))"
)
# "This page is obsolete", "Deze handleiding is vervangen": what a page says of itself.
_ITSELF = (
    r"(?:this|deze|dit)\s+(?:wiki\s*)?(?:page|document|doc|guide|article|runbook|manual|note|handbook|instruction|procedure|"
    r"policy|how-?to|description|pagina|handleiding|artikel|(?:werk)?instructie|beleid|tekst|beschrijving)\s+"
    r"(?:is|was|are|has\s+been|is\s+being|werd|wordt)\s+(?:now\s+|since\s+|inmiddels\s+)?"
)
_DEPRECATED = re.compile(
    _LEAD
    + rf"(?:{_ITSELF}{_GONE}\b"
    + r"|(?:status(?:\*\*|__)?\s*:(?:\*\*|__)?\s*)?(?:deprecated|obsolete|superseded|outdated|verouderd|vervallen)"
    # A sentence that only begins with the word ("Deprecated endpoints are…") says nothing of the page.
    r"(?=\s*(?:$|\*\*|__|[.:,;!()–—-]|since\b|as\s+of\b|sinds\b|replaced\b|superseded\b|by\b|in\s+favou?r\b|"
    r"and\s+replaced\b)))",
    re.IGNORECASE,
)
_REPLACED = re.compile(r"(?:replaced|superseded|vervangen)\s+(?:by|with|door):?\s*(.+)", re.IGNORECASE)
# Ways to name a successor that mean one only where the page has said that it is gone.
_INSTEAD = re.compile(
    r"\bin\s+favou?r\s+of:?\s*(?P<named>.+)"
    r"|\b(?:see|use|read|moved\s+to|go\s+to|refer\s+to|zie|gebruik|lees|verhuisd\s+naar)\b[^\[\n]{0,30}(?P<linked>\[[^\]\n]*\]\(.+)"
    r"|\b(?:see|use|read)\s+(?P<plain>[^.\n]+?),?\s+instead\b",
    re.IGNORECASE,
)
# What a table of a page's standing calls its rows or columns.
_KEY = re.compile(
    r"^(?:(?:page\s+)?owner|eigenaar|(?:last\s+|laatst\s+)?(?:reviewed|validated|verified|gecontroleerd|beoordeeld|"
    r"gevalideerd)(?:\s+(?:on|op))?|status)$",
    re.IGNORECASE,
)
_RULE = re.compile(r"^\s*\|?[\s:|-]*-[\s:|-]*$")
_OWNER_KEYS = frozenset({"owner", "owners", "page_owner", "eigenaar"})
_REVIEWED_KEYS = frozenset(
    {"reviewed", "last_reviewed", "reviewed_on", "validated", "last_validated", "verified", "last_verified"}
)
_TRUE = frozenset({"true", "yes"})


@dataclass(frozen=True, slots=True)
class Signals:
    """`replaced_by` are link targets or titles as written; names are as written too."""

    owner: str | None = None
    reviewed_at: datetime | None = None
    reviewer: str | None = None
    deprecated: bool = False
    replaced_by: tuple[str, ...] = ()


def read_signals(text: str) -> Signals:
    """Read the head of a page and its front matter; the first statement of a kind counts."""
    owner, reviewer, at = None, None, None
    deprecated = False
    replaced: list[str] = []
    front, body = split_front_matter(text)
    for key, value in _front_matter(front):
        if key in _OWNER_KEYS and owner is None:
            owner = value
        elif key in _REVIEWED_KEYS and at is None:
            found = re.match(_DATE, value)
            at = _day(found.group(1)) if found else None
            who = re.search(r"\bby\s+(.+)$", value)
            reviewer = who.group(1).strip() if who else reviewer
        elif key in ("reviewer", "reviewed_by"):
            reviewer = value
        elif (key == "status" and value.lower() in ("deprecated", "obsolete", "superseded")) or (
            key == "deprecated" and value.lower() in _TRUE
        ):
            deprecated = True
        elif key in ("replaced_by", "superseded_by"):
            replaced += _targets(value)
    lines = _told_in_tables(_head(body))
    for line, after in pairwise([*lines, ""]):
        if owner is None and (found := _OWNER.match(line)):
            owner = _name(found.group(1))
        if at is None and (found := _REVIEWED.match(line)):
            at = _day(found.group(1))
            reviewer = _name(found.group(2)) if found.group(2) else reviewer
        if _DEPRECATED.match(line):
            deprecated = True
            # The successor may stand in the sentence after, on the next line.
            replaced += _successors(line) or _successors(after)
        elif (replacement := re.match(_LEAD + _REPLACED.pattern, line, re.IGNORECASE)) is not None:
            deprecated = True
            replaced += _targets(replacement.group(1))
    return Signals(
        owner,
        at if at is None or at.tzinfo else at.replace(tzinfo=UTC),
        reviewer,
        deprecated,
        tuple(dict.fromkeys(replaced)),
    )


def _successors(line: str) -> list[str]:
    """What a line of a page that is gone names in its place."""
    if replacement := _REPLACED.search(line):
        return _targets(replacement.group(1))
    if instead := _INSTEAD.search(line):
        return _targets(instead["named"] or instead["linked"] or instead["plain"])
    return []


def _head(text: str) -> list[str]:
    """The first lines with text in them, up to the second heading: beyond it begins the page's own matter."""
    found: list[str] = []
    headings = 0
    for line in text.splitlines():
        if not line.strip():
            continue
        headings += line.startswith("#")
        if headings > 1 or len(found) >= _HEAD_LINES or line.lstrip().startswith(("```", "~~~")):
            break
        found.append(line)
    return found


def _told_in_tables(lines: list[str]) -> list[str]:
    """The lines, and after them what a table among them says of the page, as `key: value` lines."""
    found = list(lines)
    rows = [
        [c.strip(" *_`") for c in x.strip().strip("|").split("|")] if x.lstrip().startswith("|") else [] for x in lines
    ]
    for n, cells in enumerate(rows):
        keys = [bool(_KEY.match(cell)) for cell in cells]
        if len(cells) == 2 and keys == [True, False]:
            found.append(f"{cells[0]}: {cells[1]}")
        elif any(keys) and n + 2 < len(lines) and _RULE.match(lines[n + 1]):
            # The keys stand over their values.
            pairs = zip(cells, keys, rows[n + 2], strict=False)
            found += [f"{cell}: {value}" for cell, is_key, value in pairs if is_key and value]
    return found


def _day(text: str) -> datetime | None:
    """A day as people write it: 2031-03-01, 1 March 2031, March 1, 2031; None where there is no such day."""
    if re.match(r"\d{4}-", text):
        return when(f"{text}T00:00:00Z")
    numbers = [int(n) for n in re.findall(r"\d+", text)]
    month = _MONTHS.get(re.sub(r"\d+(?:st|nd|rd|th)?", " ", text).strip(" .,").lower()[:3], 0)
    return when(f"{numbers[1]:04}-{month:02}-{numbers[0]:02}T00:00:00Z") if month else None


def _front_matter(front: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    for key, value in front.items():
        for one in value if isinstance(value, list) else [value]:
            # Dates and truth values come as such.
            told = str(one).strip()
            if one is not None and told:
                yield re.sub(r"[\s-]+", "_", str(key).strip().lower()), told


def _targets(text: str) -> list[str]:
    linked = link_targets(text)
    if linked:
        return linked
    title = re.split(r"[.;,](?:\s|$)", text.strip())[0].strip(" *_`\"'.")
    return [title] if title else []


def _name(text: str) -> str:
    """A name as written, without remarks behind it such as `(was: …)`."""
    return re.split(r"\s*[(,;]", text.strip())[0].strip(" *_.`")


def among(name: str | None, people: Iterable[PersonRef]) -> PersonRef | None:
    """The person that a page names, as one of those who have edited it if exactly one of them bears the name.

    A name alone is nobody: two people can share it, and anybody can write it. Within the few who are known to have
    worked on this page it tells who of them is meant; where none or several of them bear it, the name stays a name.
    """
    if not name:
        return None
    wanted = name.casefold()
    known = {p.principal: p for p in people if p.principal is not None}
    whole = [p for p in known.values() if p.name.casefold() == wanted]
    first = [p for p in known.values() if p.name.casefold().split(" ")[0] == wanted]
    found = whole or first
    return found[0] if len(found) == 1 else PersonRef(name)
