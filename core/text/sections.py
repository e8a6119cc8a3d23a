"""Takes Markdown apart: sections by heading, and a section into blocks (paragraph, table, fence)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from core.text.fences import fenced

_ATX = re.compile(r"^ {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_SETEXT = re.compile(r"^ {0,3}(=+|-{2,})[ \t]*$")
_SEPARATOR = re.compile(r"^\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$")
_NOT_A_TITLE = re.compile(r"^\s*(?:[-*+>|]|\d+[.)]\s)")


class BlockKind(StrEnum):
    """How a block may be split where it is too long."""

    TEXT = "text"
    TABLE = "table"
    FENCE = "fence"


@dataclass(frozen=True, slots=True)
class Block:
    """A stretch of Markdown between blank lines, or a whole table or fence."""

    kind: BlockKind
    text: str


@dataclass(frozen=True, slots=True)
class Section:
    """What stands under one heading; `path` is the heading with those above it. `line` is the heading as written."""

    path: tuple[str, ...]
    blocks: tuple[Block, ...]
    line: str = ""


def sections(text: str) -> tuple[Section, ...]:
    """Split Markdown at its headings (`#` and underlined), never inside a fence. Text before the first has path ()."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    inside = fenced(lines)
    found: list[Section] = []
    path: list[tuple[int, str]] = []
    body: list[str] = []
    heading = ""

    def close() -> None:
        parts = blocks(body)
        if parts or heading:
            found.append(Section(tuple(t for _, t in path), parts, heading))
        body.clear()

    for i, line in enumerate(lines):
        level, title = 0, ""
        if not inside[i]:
            atx = _ATX.match(line)
            setext = _SETEXT.match(line)
            if atx:
                level, title = len(atx.group(1)), (atx.group(2) or "").strip()
            elif setext and _is_underlined(body, inside, i):
                level, title = (1 if setext.group(1)[0] == "=" else 2), body.pop().strip()
        if not level or not title:
            body.append(line)
            continue
        close()
        while path and path[-1][0] >= level:
            path.pop()
        path.append((level, title))
        heading = f"{'#' * level} {title}"
    close()
    return tuple(found)


def blocks(lines: list[str]) -> tuple[Block, ...]:
    """Split lines at blank ones; a table or fence is a block of its own. Nothing is left out but blank lines."""
    inside = fenced(lines)
    found: list[Block] = []
    run: list[str] = []
    run_kind = BlockKind.TEXT

    def close() -> None:
        nonlocal run_kind
        if run and any(x.strip() for x in run):
            found.append(Block(run_kind, "\n".join(run).strip("\n")))
        run.clear()
        run_kind = BlockKind.TEXT

    for i, line in enumerate(lines):
        if inside[i]:
            opens = i == 0 or not inside[i - 1] or _closed(run, run_kind)
            if opens:
                close()
            run_kind = BlockKind.FENCE
            run.append(line)
            continue
        if run_kind is BlockKind.FENCE:
            close()
        starts_table = "|" in line and i + 1 < len(lines) and "|" in lines[i + 1] and _SEPARATOR.match(lines[i + 1])
        if run_kind is BlockKind.TABLE and "|" in line and line.strip():
            run.append(line)
        elif starts_table:
            close()
            run_kind = BlockKind.TABLE
            run.append(line)
        elif not line.strip():
            close()
        else:
            if run_kind is BlockKind.TABLE:
                close()
            run.append(line)
    close()
    return tuple(found)


def _is_underlined(body: list[str], inside: list[bool], i: int) -> bool:
    """Whether the line before `i` is a paragraph of one line, which an underline makes a heading."""
    if i == 0 or inside[i - 1] or not body or not body[-1].strip() or _NOT_A_TITLE.match(body[-1]):
        return False
    return len(body) < 2 or not body[-2].strip()


def _closed(run: list[str], kind: BlockKind) -> bool:
    """Whether the fence gathered in `run` has ended already, so that a neighbour starts a new one."""
    if kind is not BlockKind.FENCE or len(run) < 2:
        return False
    return not any(fenced([*run, ""])[-1:])
