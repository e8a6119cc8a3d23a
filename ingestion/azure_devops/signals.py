"""What a page says of its own standing: owner, last review, deprecation and what replaced it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from core.items import PersonRef
from core.text.markdown import split_front_matter
from ingestion.azure_devops.shapes import when

# Such lines stand at the top of a page; further down they are part of what it tells.
_HEAD_LINES = 25
_DATE = r"(\d{4}-\d{2}-\d{2})(?:[T ][\d:.]+Z?)?"
_LEAD = r"^[\s>*_#|-]*(?:\*\*|__)?"
_REVIEWED = re.compile(
    _LEAD
    + r"(?:last\s+)?(?:reviewed|validated|verified)(?:\s+on)?(?:\*\*|__)?\s*:?(?:\*\*|__)?\s*"
    + _DATE
    + r"(?:\s*(?:by|,|\()\s*@?([^\n|)]+))?",
    re.IGNORECASE,
)
_OWNER = re.compile(_LEAD + r"(?:page\s+)?owner(?:\*\*|__)?\s*:(?:\*\*|__)?\s*@?([^\n|]+)", re.IGNORECASE)
_DEPRECATED = re.compile(
    _LEAD + r"(?:this\s+page\s+is\s+|status(?:\*\*|__)?\s*:(?:\*\*|__)?\s*)?(?:deprecated|obsolete|superseded|outdated)"
    # A sentence that only begins with the word ("Deprecated endpoints are…") says nothing of the page.
    r"(?=\s*(?:$|\*\*|__|[.:,;!()–—-]|since\b|replaced\b|superseded\b|by\b|in\s+favou?r\b|and\s+replaced\b))",
    re.IGNORECASE,
)
_REPLACED = re.compile(r"(?:replaced|superseded)\s+by:?\s*(.+)", re.IGNORECASE)
_MD_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)[^)]*\)")
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
        if key in ("owner", "owners") and owner is None:
            owner = value
        elif key in ("reviewed", "last_reviewed", "last-reviewed", "validated") and at is None:
            found = re.match(_DATE, value)
            at = when(f"{found.group(1)}T00:00:00Z") if found else None
            who = re.search(r"\bby\s+(.+)$", value)
            reviewer = who.group(1).strip() if who else reviewer
        elif key in ("reviewer", "reviewed_by", "reviewed-by"):
            reviewer = value
        elif (key == "status" and value.lower() in ("deprecated", "obsolete", "superseded")) or (
            key == "deprecated" and value.lower() in _TRUE
        ):
            deprecated = True
        elif key in ("replaced_by", "replaced-by", "superseded_by", "superseded-by"):
            replaced += _targets(value)
    for line in _head(body):
        if owner is None and (found := _OWNER.match(line)):
            owner = _name(found.group(1))
        if at is None and (found := _REVIEWED.match(line)):
            at = when(f"{found.group(1)}T00:00:00Z")
            reviewer = _name(found.group(2)) if found.group(2) else reviewer
        if _DEPRECATED.match(line):
            deprecated = True
            if replacement := _REPLACED.search(line):
                replaced += _targets(replacement.group(1))
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


def _front_matter(front: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    for key, value in front.items():
        for one in value if isinstance(value, list) else [value]:
            # Dates and truth values come as such.
            told = str(one).strip()
            if one is not None and told:
                yield str(key).strip().lower(), told


def _targets(text: str) -> list[str]:
    linked = [m.group(2) for m in _MD_LINK.finditer(text)]
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
