"""Takes program text apart by symbol: functions, classes, statements, whatever starts at the left margin."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NAME = r"[\w$.\[\]\"`]+"
_SYMBOL = re.compile(
    r"^\s{0,4}(?:(?:export|default|public|private|protected|internal|static|abstract|sealed|async|partial|pub|final)\s+)*"
    rf"(?:def|class|interface|struct|enum|record|trait|impl|fn|func|function|namespace|module|type)\s+({_NAME})",
)
_SQL = re.compile(
    r"^\s*(?:CREATE|ALTER|DROP)\s+(?:OR\s+(?:REPLACE|ALTER)\s+)?(?:MATERIALIZED\s+|UNIQUE\s+|TEMP(?:ORARY)?\s+)*"
    rf"(?:VIEW|TABLE|FUNCTION|PROCEDURE|PROC|TRIGGER|INDEX|SCHEMA|TYPE)\s+(?:IF\s+(?:NOT\s+)?EXISTS\s+)?({_NAME})",
    re.IGNORECASE,
)
_METHOD = re.compile(r"^\s+(?:async\s+)?(?:def|function|func|fn)\s+(\w+)")
_LEAD = re.compile(r"^\s*(?:@|#(?!!)|//|/\*|\*|--|\[)")


@dataclass(frozen=True, slots=True)
class Segment:
    """Neighbouring lines that belong together; `first` is the number of the first line, counted from 1."""

    name: str | None
    first: int
    lines: tuple[str, ...]

    @property
    def last(self) -> int:
        """Number of the last line."""
        return self.first + len(self.lines) - 1

    @property
    def text(self) -> str:
        """The lines as text."""
        return "\n".join(self.lines)


def segments(text: str) -> tuple[Segment, ...]:
    """Split program text at its symbols; comments and decorators stay with what they stand before. No line is lost."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    starts: dict[int, str | None] = {0: None}
    for i, line in enumerate(lines):
        found = _SYMBOL.match(line) or _SQL.match(line)
        if found and len(line) - len(line.lstrip()) == 0:
            starts[_lead(lines, i)] = found.group(1).strip('"`[]')
    return _cut(lines, 1, starts)


def finer(segment: Segment) -> tuple[Segment, ...]:
    """Split a segment that is too long: at its methods, else behind blank lines, else line by line."""
    lines = list(segment.lines)
    starts: dict[int, str | None] = {0: segment.name}
    for i, line in enumerate(lines[1:], 1):
        found = _METHOD.match(line)
        if found:
            name = f"{segment.name}.{found.group(1)}" if segment.name else found.group(1)
            starts[_lead(lines, i)] = name
    if len(starts) == 1:
        starts |= {i: segment.name for i in range(1, len(lines)) if not lines[i - 1].strip() and lines[i].strip()}
    if len(starts) == 1:
        starts |= dict.fromkeys(range(1, len(lines)), segment.name)
    return _cut(lines, segment.first, starts)


def _lead(lines: list[str], i: int) -> int:
    while i > 0 and _LEAD.match(lines[i - 1]):
        i -= 1
    return i


def _cut(lines: list[str], first: int, starts: dict[int, str | None]) -> tuple[Segment, ...]:
    at = sorted(starts)
    return tuple(
        Segment(starts[a], first + a, tuple(lines[a:b])) for a, b in zip(at, [*at[1:], len(lines)], strict=True)
    )
