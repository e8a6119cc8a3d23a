"""Finds the symbols of program text by its grammar: where each begins and ends, and what lies inside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tree_sitter import Node, Parser, Tree

from core.text.grammars import Grammar, grammars

# Past this a file is data, and a tree of it costs more than it tells.
_MAX_BYTES = 1_000_000
# Its scanner looks ahead to the end of some texts again and again without reporting back; scripts are short.
_MAX_BYTES_OF = {"bash": 30_000}
_DEEPEST = 6
_LONGEST_NAME = 100
# A parser reports back a quarter as often as this at most on what people write. On some texts it tries ever more
# readings instead, for hours; counting, unlike a clock, ends that at the same place each time.
_REPORTS = 1_000
_REPORTS_A_BYTE = 0.2
_PIECE = 65_536
# A text of which the grammar could not read more than this share is cut by other means.
_UNREAD = 0.25


@dataclass(slots=True)
class Symbol:
    """A class, function or the like; rows count from 0, and `end` is the row behind its last.

    `first` is the row of its comment or decorator where it has one. `path` begins at the outermost symbol.
    """

    path: tuple[str, ...]
    first: int
    end: int
    inside: list[Symbol] = field(default_factory=list)


def symbols_of(text: str, language: str | None) -> list[Symbol] | None:
    """The outermost symbols of a text with `\\n` line ends, in order, each with those inside it.

    No two of the same level begin on one row, and none begins on the row of the symbol that it is in. None where the
    language has no grammar, where the text is too long, or where its grammar can't make sense of it in reasonable time.
    """
    data = text.encode("utf-8", "replace")
    known = grammars(language)
    if not known or len(data) > _MAX_BYTES_OF.get(language or "", _MAX_BYTES):
        return None
    best: tuple[int, Grammar, Tree] | None = None
    for grammar in known:
        tree = _parsed(grammar, data)
        if tree is None:
            continue
        unread = _unread(tree)
        if best is None or unread < best[0]:
            best = (unread, grammar, tree)
        if not unread:
            break
    if best is None or best[0] > _UNREAD * len(data):
        return None
    return _nested(best[1], best[2], data)


def _parsed(grammar: Grammar, data: bytes) -> Tree | None:
    """The tree of a text; None where the parser does not come to an end with it."""
    left = _REPORTS + int(_REPORTS_A_BYTE * len(data))

    def is_enough(_offset: int, _has_error: bool) -> bool:
        nonlocal left
        left -= 1
        return left < 0

    try:
        return Parser(grammar.language).parse(lambda at, _: data[at : at + _PIECE], progress_callback=is_enough)
    except ValueError:
        return None


def _unread(tree: Tree) -> int:
    """Bytes that the grammar could not make sense of, at least 1 where it had to guess at all."""
    root = tree.root_node
    if not root.has_error:
        return 0
    spans = (
        n.end_byte - n.start_byte for n in _walk(tree, into=lambda n: n.has_error and not n.is_error) if n.is_error
    )
    return max(sum(spans), 1)


def _walk(tree: Tree, into: Callable[[Node], bool]) -> Iterator[Node]:
    """All nodes from the root down to those that `into` refuses, in order; the depth of a tree has no bound."""
    cursor = tree.walk()
    while True:
        node = cursor.node
        if node is not None:
            yield node
            if into(node) and cursor.goto_first_child():
                continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return


def _nested(grammar: Grammar, tree: Tree, data: bytes) -> list[Symbol]:
    found: list[tuple[Node, Node]] = []
    leads: set[int] = set()
    lines = data.split(b"\n")
    # A node within one row holds no place to cut at.
    for node in _walk(tree, into=lambda n: n.end_point.row > n.start_point.row):
        if grammar.is_lead(node):
            leads.update(_own_rows(node, lines))
        elif (name := grammar.name_of(node)) is not None:
            found.append((node, name))
    top: list[Symbol] = []
    open_symbols: list[tuple[int, Symbol]] = []
    for node, name in found:
        while open_symbols and open_symbols[-1][0] <= node.start_byte:
            open_symbols.pop()
        outer = open_symbols[-1][1] if open_symbols else None
        siblings = outer.inside if outer else top
        row = node.start_point.row
        least = max(outer.first + 1 if outer else 0, siblings[-1].first + 1 if siblings else 0)
        if len(open_symbols) >= _DEEPEST or row < least:
            continue
        first = row
        while first > least and first - 1 in leads:
            first -= 1
        path = (*(outer.path if outer else ()), *(_text(n, data) for n in (grammar.owner_of(node), name) if n))
        siblings.append(symbol := Symbol(path, first, _last_row(node) + 1))
        open_symbols.append((node.end_byte, symbol))
    return top


def _own_rows(node: Node, lines: list[bytes]) -> range:
    """Rows that hold this node and nothing else but white space; the line that names a script's shell is no lead."""
    first, last = node.start_point.row, _last_row(node)
    before = lines[first][: node.start_point.column]
    after = lines[last][node.end_point.column :] if last == node.end_point.row else b""
    if before.strip() not in (b"", b"template") or after.strip() or (first == 0 and lines[0].startswith(b"#!")):
        return range(0)
    return range(first, last + 1)


def _last_row(node: Node) -> int:
    # Some grammars count a line end as part of the node that it ends.
    end = node.end_point
    return end.row - 1 if end.column == 0 and end.row > node.start_point.row else end.row


def _text(node: Node, data: bytes) -> str:
    return " ".join(data[node.start_byte : node.end_byte].decode("utf-8", "replace").split())[:_LONGEST_NAME]
