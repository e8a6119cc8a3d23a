"""Takes DAX files apart: definitions of measures one by one, and the queries between them."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Comments and literals, in which no statement begins. `--` and `//` comment out a line.
_MASKED = re.compile(r'"(?:[^"]|"")*"|--[^\n]*|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TABLE = r"(?:'(?P<quoted>(?:[^']|'')+)'|(?P<bare>[A-Za-z_][\w.]*))"
_DEFINED = re.compile(
    rf"^[ \t]*(?:DEFINE\s+)?(?P<kind>MEASURE|COLUMN)\s+{_TABLE}?\s*\[(?P<name>[^\]\n]+)\]\s*:?=",
    re.IGNORECASE | re.MULTILINE,
)
_QUERY = re.compile(r"^[ \t]*(?:EVALUATE|DEFINE)\b", re.IGNORECASE | re.MULTILINE)
# A plain list of measures: `Name = …` or `Table[Name] := …`, at the margin.
_PLAIN = re.compile(
    rf"^(?:{_TABLE}(?=\[))?\[?(?P<name>[A-Za-z_%#][^\[\]=:\n\"',;(){{}}]*?)\]?\s*:?=(?!=)", re.MULTILINE
)
_NO_NAMES = re.compile(r"(?:var|return|evaluate|define|order|start|in|if|switch|calculate)\b", re.IGNORECASE)
_COMMENT_LINE = re.compile(r"^\s*(?://|--|/\*|\*)|\*/\s*$")


@dataclass(frozen=True, slots=True)
class Statement:
    """A definition or a query; `name` is empty for a query. The comment above it belongs to `text`."""

    kind: str
    table: str
    name: str
    text: str


def statements(text: str) -> tuple[Statement, ...]:
    """The statements of a file, which together are the whole of it but for blank lines at their ends."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    masked = _MASKED.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)
    starts: dict[int, tuple[str, str, str]] = {}
    for found in _DEFINED.finditer(masked):
        starts[found.start()] = (found.group("kind").lower(), *_named(found))
    if not starts:
        for found in _PLAIN.finditer(masked):
            if not _NO_NAMES.match(found.group("name")) and _is_outside(masked[: found.start()]):
                starts[found.start()] = ("measure", *_named(found))
    for found in _QUERY.finditer(masked):
        starts.setdefault(found.start(), ("query", "", ""))
    marks = [(_lead(text, at), what) for at, what in sorted(starts.items())]
    if not marks or text[: marks[0][0]].strip():
        marks.insert(0, (0, ("query", "", "")))
    ends = [at for at, _ in marks[1:]] + [len(text)]
    made = (
        Statement(kind, table, name, text[at:end].strip("\n"))
        for (at, (kind, table, name)), end in zip(marks, ends, strict=True)
    )
    return tuple(s for s in made if s.text.strip())


def _named(found: re.Match[str]) -> tuple[str, str]:
    table = (found.group("quoted") or "").replace("''", "'") or found.group("bare") or ""
    return table, found.group("name").strip()


def _is_outside(before: str) -> bool:
    """Whether all brackets that were opened are closed."""
    return before.count("(") == before.count(")") and before.count("{") == before.count("}")


def _lead(text: str, at: int) -> int:
    """Where the comment lines directly above a statement begin."""
    while at > 0:
        above = text.rfind("\n", 0, at - 1) + 1
        if not _COMMENT_LINE.search(text[above : at - 1]):
            break
        at = above
    return at
