"""Takes program text apart by symbol: by grammar where there is one, else by what starts at the left margin."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from core.text.symbols import Symbol, symbols_of

_NAME = r"[\w$.\[\]\"`-]+"
_SYMBOL = re.compile(
    r"^(?:(?:export|default|public|private|protected|internal|static|abstract|sealed|async|partial|pub|final)\s+)*"
    rf"(?:def|class|interface|struct|enum|record|trait|impl|fn|func|fun|function|namespace|module|type)\s+({_NAME})",
    re.IGNORECASE,
)
_SQL = re.compile(
    r"^\s*(?:CREATE|ALTER|DROP)\s+(?:OR\s+(?:REPLACE|ALTER)\s+)?(?:MATERIALIZED\s+|UNIQUE\s+|TEMP(?:ORARY)?\s+)*"
    rf"(?:VIEW|TABLE|FUNCTION|PROCEDURE|PROC|TRIGGER|INDEX|SCHEMA|TYPE)\s+(?:IF\s+(?:NOT\s+)?EXISTS\s+)?({_NAME})",
    re.IGNORECASE,
)
_METHOD = re.compile(r"^\s+(?:async\s+)?(?:def|function|func|fun|fn)\s+(\w+)")
_LEAD = re.compile(r"^\s*(?:@|#(?!!)|//|/\*|\*|--|\[)")
_WORD = re.compile(r"\w")


@dataclass(frozen=True, slots=True)
class Segment:
    """Neighbouring lines that belong together; `first` is the number of the first line, counted from 1.

    `path` names the symbol, outermost first. `parts` are segments that make up the same lines, where its grammar told.
    """

    path: tuple[str, ...]
    first: int
    lines: tuple[str, ...]
    parts: tuple[Segment, ...] = ()
    is_parsed: bool = False

    @property
    def last(self) -> int:
        """Number of the last line."""
        return self.first + len(self.lines) - 1

    @property
    def text(self) -> str:
        """The lines as text."""
        return "\n".join(self.lines)


def segments(text: str, language: str | None = None) -> tuple[Segment, ...]:
    """Split program text at its symbols; comments and decorators stay with what they stand before. No line is lost."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    lines = text.split("\n")
    symbols = symbols_of(text, language)
    if symbols:
        return _parsed((), symbols, lines, 0, len(lines))
    starts: dict[int, tuple[str, ...]] = {0: ()}
    for i, line in enumerate(lines):
        found = _SYMBOL.match(line) or _SQL.match(line)
        if found and len(line) - len(line.lstrip()) == 0:
            starts[_lead(lines, i)] = (found.group(1).strip('"`[]'),)
    return _cut(lines, 1, starts)


def finer(segment: Segment) -> tuple[Segment, ...]:
    """Split a segment that is too long: at the symbols in it, else behind blank lines, else line by line."""
    if segment.parts:
        return segment.parts
    lines = list(segment.lines)
    starts: dict[int, tuple[str, ...]] = {0: segment.path}
    for i, line in enumerate(lines[1:], 1):
        found = None if segment.is_parsed else _METHOD.match(line)
        if found:
            starts[_lead(lines, i)] = (*segment.path, found.group(1))
    if len(starts) == 1:
        starts |= {i: segment.path for i in range(1, len(lines)) if not lines[i - 1].strip() and lines[i].strip()}
    if len(starts) == 1:
        starts |= dict.fromkeys(range(1, len(lines)), segment.path)
    return _cut(lines, segment.first, starts, is_parsed=segment.is_parsed)


def common_path(paths: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """The symbol that all of these lie in; lines outside every symbol have no say."""
    named = [p for p in paths if p]
    shared = min(named, key=len, default=())
    while any(p[: len(shared)] != shared for p in named):
        shared = shared[:-1]
    return shared


def _parsed(
    path: tuple[str, ...], symbols: list[Symbol], lines: list[str], start: int, end: int
) -> tuple[Segment, ...]:
    """Rows from `start` to before `end` as segments: each symbol, and what stands between symbols."""
    if not symbols:
        return ()
    found: list[Segment] = []
    if symbols[0].first > start:
        found.append(_segment(path, lines, start, symbols[0].first))
    for symbol, following in zip(symbols, [*symbols[1:], None], strict=True):
        limit = following.first if following else end
        stop = min(max(symbol.end, symbol.first + 1), limit)
        # Blank lines and closing brackets behind a symbol say nothing without it.
        while stop < limit and not _WORD.search(lines[stop]):
            stop += 1
        inside = _parsed(symbol.path, symbol.inside, lines, symbol.first, stop)
        found.append(_segment(symbol.path, lines, symbol.first, stop, inside))
        if stop < limit:
            found.append(_segment(path, lines, stop, limit))
    return tuple(found)


def _segment(path: tuple[str, ...], lines: list[str], start: int, end: int, parts: tuple[Segment, ...] = ()) -> Segment:
    return Segment(path, start + 1, tuple(lines[start:end]), parts, is_parsed=True)


def _lead(lines: list[str], i: int) -> int:
    while i > 0 and _LEAD.match(lines[i - 1]):
        i -= 1
    return i


def _cut(
    lines: list[str], first: int, starts: dict[int, tuple[str, ...]], *, is_parsed: bool = False
) -> tuple[Segment, ...]:
    at = sorted(starts)
    return tuple(
        Segment(starts[a], first + a, tuple(lines[a:b]), is_parsed=is_parsed)
        for a, b in zip(at, [*at[1:], len(lines)], strict=True)
    )
