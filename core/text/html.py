"""Turns HTML from work items, comments and chat into Markdown. Escaped text is decoded exactly once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from bs4 import BeautifulSoup
from bs4.element import Comment, Declaration, Doctype, NavigableString, PageElement, ProcessingInstruction, Tag

_DROPPED: Final = frozenset({"script", "style", "head", "title", "template", "noscript", "systemeventmessage"})
_HEADINGS: Final = {f"h{n}": n for n in range(1, 7)}
_LISTS: Final = frozenset({"ul", "ol"})
# Lines that editors wrap in an element each: they follow each other without a blank line.
_LINES: Final = frozenset({"div", "dt", "dd"})
_PARAGRAPHS: Final = frozenset(
    {"p", "section", "article", "main", "header", "footer", "aside", "nav", "figure", "figcaption", "details"}
    | {"summary", "address", "form", "fieldset", "dl", "body", "html", "center", "iframe"}
)
_BLOCKS: Final = (
    _LINES | _PARAGRAPHS | _LISTS | frozenset(_HEADINGS) | {"table", "pre", "codeblock", "blockquote", "hr"}
)
_UNSPOKEN: Final = (Comment, Declaration, Doctype, ProcessingInstruction)
_SPACE: Final = re.compile(r"[ \t\r\n\f\u00a0]+")


@dataclass(frozen=True, slots=True)
class _Block:
    text: str
    is_line: bool = False


def html_to_markdown(html: str, *, attachments: Mapping[str, str] | None = None) -> str:
    """Return `html` as Markdown: headings, nested lists, tables, code, quotes and links are kept.

    Of Teams' own elements, a mention becomes `@Name`, an emoji its character, a code block a fence, an attachment
    `[attachment: name]` where `attachments` names its id and nothing otherwise. Pictures that need a token to be seen,
    scripts and styles are left out.
    """
    soup = BeautifulSoup(_ended(html), "html.parser")
    try:
        return _Writer(attachments or {}).document(soup)
    except RecursionError:
        # Nested thousands deep, which nobody writes by hand: the words are kept, the shape is not.
        return re.sub(r"\n{3,}", "\n\n", soup.get_text("\n").replace("\u00a0", " ")).strip()


def _ended(html: str) -> str:
    """The same, with what begins a tag or a comment and never ends it as the plain text that it is: the parser would
    look for its end to the end of the text, for each of them."""
    for begin, end in (("<!--", "-->"), ("<", ">")):
        at = html.rfind(end) + len(end) if end in html else 0
        html = html[:at] + html[at:].replace(begin, begin.replace("<", "&lt;"))
    return html


class _Writer:
    def __init__(self, attachments: Mapping[str, str]) -> None:
        self._attachments = attachments

    def document(self, root: Tag) -> str:
        return _joined(self._blocks(root.children))

    def _blocks(self, nodes: Iterable[PageElement], *, as_line: bool = False) -> list[_Block]:
        found: list[_Block] = []
        inline: list[str] = []

        def close() -> None:
            text = _tidy("".join(inline))
            inline.clear()
            if text:
                found.append(_Block(text, as_line))

        for node in nodes:
            if isinstance(node, Tag) and (node.name in _BLOCKS or _holds_block(node)):
                close()
                found.extend(self._block(node))
            else:
                inline.append(self._inline(node))
        close()
        return found

    def _block(self, node: Tag) -> list[_Block]:
        name = node.name
        if name in _DROPPED:
            return []
        if name in _HEADINGS:
            text = _SPACE.sub(" ", self._inlines(node)).strip()
            return [_Block(f"{'#' * _HEADINGS[name]} {text}")] if text else []
        if name in _LISTS:
            text = "\n".join(self._items(node))
            return [_Block(text)] if text else []
        if name == "table":
            return self._table(node)
        if name in ("pre", "codeblock"):
            return self._code(node)
        if name == "blockquote":
            text = _joined(self._blocks(node.children))
            return [_Block("\n".join(f"> {x}".rstrip() for x in text.split("\n")))] if text else []
        if name == "hr":
            return [_Block("---")]
        if name == "iframe":
            source = str(node.get("src") or "")
            return [_Block(f"[video]({source})")] if source.startswith(("http://", "https://")) else []
        return self._blocks(node.children, as_line=name in _LINES)

    def _items(self, node: Tag) -> list[str]:
        """The lines of a list. A list directly in a list, as editors write it, belongs to the item before it."""
        lines: list[str] = []
        number = _start(node)
        marker = "- "
        for child in node.children:
            if isinstance(child, Tag) and child.name in _LISTS:
                lines.extend(_indented(self._items(child), len(marker) if lines else 0))
                continue
            blocks = self._blocks(child.children if isinstance(child, Tag) else [child])
            if not blocks:
                continue
            if node.name == "ol":
                marker, number = f"{number}. ", number + 1
            first, *rest = _joined(blocks, tight=True).split("\n")
            lines.extend([marker + first, *_indented(rest, len(marker))])
        return lines

    def _table(self, node: Tag) -> list[_Block]:
        rows = [
            [cell for cell in row.children if isinstance(cell, Tag) and cell.name in ("td", "th")]
            for row in _rows(node)
        ]
        rows = [row for row in rows if row]
        if not rows:
            return self._blocks(node.children)
        if len(rows) == 1 and len(rows[0]) == 1:
            # One cell is layout, not a table.
            return self._blocks(rows[0][0].children)
        width = max(len(row) for row in rows)
        lines = []
        for row in rows:
            cells = [self._cell(cell) for cell in row]
            lines.append("| " + " | ".join(cells + [""] * (width - len(cells))) + " |")
        lines.insert(1, "|" + " --- |" * width)
        return [_Block("\n".join(lines))]

    def _cell(self, cell: Tag) -> str:
        text = _joined(self._blocks(cell.children), tight=True)
        return re.sub(r"\s*\n\s*", " ", text).replace("|", "\\|").strip()

    def _code(self, node: Tag) -> list[_Block]:
        for line_break in node.find_all("br"):
            line_break.replace_with("\n")
        text = node.get_text().replace("\u00a0", " ").strip("\n")
        if not text.strip():
            return []
        runs = [len(x) for x in re.findall(r"`{3,}", text)]
        marker = "`" * (max(runs, default=2) + 1)
        return [_Block(f"{marker}{_language(node)}\n{text}\n{marker}")]

    def _inlines(self, node: Tag) -> str:
        return "".join(self._inline(x) for x in node.children)

    def _inline(self, node: PageElement) -> str:
        if isinstance(node, NavigableString):
            return "" if isinstance(node, _UNSPOKEN) else _SPACE.sub(" ", str(node))
        if not isinstance(node, Tag) or node.name in _DROPPED:
            return ""
        match node.name:
            case "br":
                return "\n"
            case "img":
                return _picture(node)
            case "emoji" | "customemoji":
                return str(node.get("alt") or "") + self._inlines(node)
            case "at":
                name = _SPACE.sub(" ", self._inlines(node)).strip()
                return f"@{name.removeprefix('@')}" if name else ""
            case "attachment":
                attached = self._attachments.get(str(node.get("id") or ""))
                return f"[attachment: {attached}]" if attached else ""
            case "a":
                return _link(self._inlines(node), str(node.get("href") or "").strip())
            case "code" | "tt" | "kbd":
                text = node.get_text().replace("\u00a0", " ")
                return f"`{text}`" if text.strip() and "`" not in text else text
            case "strong" | "b":
                return _marked(self._inlines(node), "**")
            case "em" | "i":
                return _marked(self._inlines(node), "*")
            case "s" | "del" | "strike":
                return _marked(self._inlines(node), "~~")
            case _:
                return self._inlines(node)


def _rows(node: Tag) -> Iterator[Tag]:
    """The rows of a table, without those of tables inside it: which are not looked into, however many there are."""
    for child in node.children:
        if isinstance(child, Tag):
            if child.name == "tr":
                yield child
            if child.name != "table":
                yield from _rows(child)


def _holds_block(node: Tag) -> bool:
    """Whether an inline element stands round blocks, as pasted text has it (`<span><p>…`)."""
    return node.find(list(_BLOCKS)) is not None


def _joined(blocks: list[_Block], *, tight: bool = False) -> str:
    text = ""
    for i, block in enumerate(blocks):
        if i:
            text += "\n" if tight or (block.is_line and blocks[i - 1].is_line) else "\n\n"
        text += block.text
    return text


def _tidy(text: str) -> str:
    lines = (re.sub(r" {2,}", " ", x).strip() for x in text.split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n ")


def _indented(lines: list[str], width: int) -> list[str]:
    return [" " * width + x if x else x for x in lines]


def _start(node: Tag) -> int:
    start = str(node.get("start") or "1")
    return int(start) if start.isascii() and start.isdigit() and len(start) < 7 else 1


def _language(node: Tag) -> str:
    """The language that a code block names: Teams' class on the block, or `language-x` on its code."""
    names: list[str] = []
    for tag in (node, node.find("code")):
        value = tag.get("class") if isinstance(tag, Tag) else None
        names.extend(value if isinstance(value, list) else [str(value)] if value else [])
    for name in names:
        bare = name.removeprefix("language-").removeprefix("lang-").lower()
        if re.fullmatch(r"[a-z0-9+#.-]{1,20}", bare) and bare not in ("code", "pre", "hljs"):
            return bare
    return ""


def _picture(node: Tag) -> str:
    alt = _SPACE.sub(" ", str(node.get("alt") or "")).strip()
    source = str(node.get("src") or "")
    if "emoji" in str(node.get("itemtype") or "").lower():
        return alt
    # A picture inside the text, or one that only its service shows to a token: no link that anybody could open.
    if not source.startswith(("http://", "https://")) or "hostedContents/" in source:
        return f"[image: {alt}]" if alt else ""
    return f"![{alt.replace(']', ' ')}]({source.replace(' ', '%20').replace(')', '%29')})"


def _link(text: str, href: str) -> str:
    label = text.strip()
    scheme = href.partition(":")[0].lower() if ":" in href else ""
    if not href or href.startswith("#") or scheme in ("javascript", "data", "vbscript"):
        return text
    if not label or label == href:
        return href
    target = href.replace(" ", "%20").replace(")", "%29")
    return f"[{_SPACE.sub(' ', label)}]({target})"


def _marked(text: str, marker: str) -> str:
    """Emphasis round the words, with the white space at their ends left outside, as Markdown wants it."""
    bare = text.strip()
    if not bare or "\n" in bare or bare.startswith(marker[0]) or bare.endswith(marker[0]):
        return text
    start = text.index(bare)
    return f"{text[:start]}{marker}{bare}{marker}{text[start + len(bare) :]}"
