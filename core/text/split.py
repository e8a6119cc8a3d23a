"""Cuts text that is too long into pieces that fit, at the best place there is, and loses nothing.

Lines before sentences before words before characters. Tables repeat their header, fences their markers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from core.text.sections import Block, BlockKind

Fits = Callable[[str], bool]

_SENTENCE = re.compile(r"(?<=[.!?…;:])\s+")
_LINE = re.compile(r"(?<=\n)")
_FENCE_OPEN = re.compile(r"^\s*(`{3,}|~{3,})")


def split_block(block: Block, fits: Fits) -> Iterator[str]:
    """Yield the block whole where it fits, else in pieces that do."""
    if fits(block.text):
        yield block.text
    elif block.kind is BlockKind.TABLE:
        yield from _table(block.text, fits)
    elif block.kind is BlockKind.FENCE:
        yield from _fence(block.text, fits)
    else:
        yield from split_text(block.text, fits)


def split_text(text: str, fits: Fits) -> Iterator[str]:
    """Yield pieces of `text` that fit, filled as far as they go; white space at their ends is dropped."""
    run = ""
    for atom in _atoms(text, fits):
        if run and not fits(run + atom):
            yield from _stripped(run)
            run = ""
        run += atom
    yield from _stripped(run)


def _atoms(text: str, fits: Fits) -> Iterator[str]:
    """Substrings that fit and join to `text` again."""
    if fits(text):
        yield text
        return
    for cut in (_LINE, _SENTENCE):
        pieces = _keep_cuts(text, cut)
        if len(pieces) > 1:
            for piece in pieces:
                yield from _atoms(piece, fits)
            return
    if len(text) < 2:
        yield text
        return
    middle = len(text) // 2
    space = max(text.rfind(" ", 1, middle), text.rfind("\t", 1, middle))
    after = text.find(" ", middle)
    if space <= 0 or (0 < after < len(text) - 1 and after - middle < middle - space):
        space = after
    at = space + 1 if 0 < space < len(text) - 1 else middle
    yield from _atoms(text[:at], fits)
    yield from _atoms(text[at:], fits)


def _keep_cuts(text: str, cut: re.Pattern[str]) -> list[str]:
    """Split behind every match of `cut`, the matched space staying with the piece before it."""
    pieces, start = [], 0
    for found in cut.finditer(text):
        if 0 < found.end() < len(text):
            pieces.append(text[start : found.end()])
            start = found.end()
    return [*pieces, text[start:]]


def _table(text: str, fits: Fits) -> Iterator[str]:
    header, separator, *rows = text.split("\n")
    head = f"{header}\n{separator}"
    if not rows or not fits(f"{head}\n{min(rows, key=len)}"):
        # The header alone is too long to be repeated: the rows go on without it.
        yield from split_text(text, fits)
        return
    run: list[str] = []
    for row in rows:
        if run and not fits("\n".join((head, *run, row))):
            yield "\n".join((head, *run))
            run = []
        if fits(f"{head}\n{row}"):
            run.append(row)
        else:
            yield from split_text(row, lambda piece: fits(f"{head}\n{piece}"))
    if run:
        yield "\n".join((head, *run))


def _fence(text: str, fits: Fits) -> Iterator[str]:
    opener, *body = text.split("\n")
    found = _FENCE_OPEN.match(opener)
    if not found or not body:
        yield from split_text(text, fits)
        return
    marker = found.group(1)
    if body[-1].strip() and set(body[-1].strip()) == {marker[0]}:
        body.pop()

    def whole(piece: str) -> str:
        return f"{opener}\n{piece}\n{marker}"

    if not fits(whole("x")):
        yield from split_text(text, fits)
        return
    for piece in split_text("\n".join(body), lambda x: fits(whole(x))):
        yield whole(piece)


def _stripped(text: str) -> Iterator[str]:
    bare = text.strip("\n").rstrip()
    if bare.strip():
        yield bare
