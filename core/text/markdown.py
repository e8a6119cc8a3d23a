"""Cleans Markdown as Azure DevOps wikis and repos hold it: macros, `:::` blocks, pictures in the text, front matter."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from core.text.fences import fenced

_MACRO: Final = re.compile(r"\[\[_(?:TOC|TOSP)_\]\]", re.IGNORECASE)
_OPEN: Final = re.compile(r"^\s{0,3}:::\s*([A-Za-z][\w-]*)(.*)$")
# What stands behind these on their line is for the wiki, not for readers.
_SETTINGS: Final = frozenset({"moniker", "query-table"})
_CLOSE: Final = re.compile(r"^\s{0,3}:::\s*$")
_SOURCE: Final = re.compile(r"""(?:src|href)\s*=\s*["']?(https?://[^"'\s>]+)|(https?://[^\s<>"')\]]+)""")
_DATA_IMAGE: Final = re.compile(r"!\[([^\[\]]{0,1000})\]\(\s{0,9}<?data:[^)>\[]*>?\s*(?:\"[^\"]*\")?\)", re.IGNORECASE)
_DATA_URI: Final = re.compile(r"data:[\w.+-]+/[\w.+-]+(?:;[\w.=+-]+)*,[A-Za-z0-9+/=%_-]{20,}", re.IGNORECASE)
_FRONT: Final = re.compile(r"\A\ufeff?---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_FRONT_LIMIT: Final = 20_000


def clean_markdown(text: str) -> str:
    """Return `text` as it is to be read and searched.

    Outside code fences the contents macros go, `::: mermaid` becomes a fence, `::: video` a link, `::: include` the
    name of what is included, and of any other `:::` block the content stays. Data URIs go everywhere; a picture keeps
    its name.
    """
    text = _DATA_URI.sub("", _DATA_IMAGE.sub(r"[image: \1]", text.replace("\r\n", "\n").replace("\r", "\n")))
    lines = text.split("\n")
    return re.sub(r"\n{4,}", "\n\n\n", "\n".join(_without_macros(list(_without_blocks(lines))))).strip("\n")


def split_front_matter(text: str) -> tuple[Mapping[str, Any], str]:
    """Return the YAML mapping at the head of `text` and what follows it; ({}, text) where there is none that holds."""
    found = _FRONT.match(text.replace("\r\n", "\n"))
    if not found or len(found.group(1)) > _FRONT_LIMIT:
        return {}, text
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        data = YAML(typ="safe", pure=True).load(found.group(1))
    except (YAMLError, ValueError, RecursionError):
        return {}, text
    if not isinstance(data, dict) or not all(isinstance(k, str) for k in data):
        return {}, text
    return data, text.replace("\r\n", "\n")[found.end() :]


def _without_blocks(lines: list[str]) -> Iterator[str]:
    """Resolve `:::` blocks. One that is never closed ends with the page; nothing that follows a block is swallowed."""
    inside = fenced(lines)
    i = 0
    while i < len(lines):
        found = _OPEN.match(lines[i]) if not inside[i] else None
        if found is None:
            if inside[i] or not _CLOSE.match(lines[i]):
                yield lines[i]
            else:
                yield ""
            i += 1
            continue
        # A block may stand on one line, such as a query table.
        kind, rest = found.group(1).lower(), found.group(2).strip()
        alone, told = rest.endswith(":::"), rest.removesuffix(":::").strip()
        if kind == "mermaid":
            end = i if alone else next((n for n in range(i + 1, len(lines)) if _CLOSE.match(lines[n])), len(lines))
            yield from ("", "```mermaid", *([told] if told else []), *lines[i + 1 : end], "```", "")
        elif kind == "video":
            end = i if alone else _end_of_video(lines, i + 1)
            urls = [a or b for a, b in _SOURCE.findall("\n".join([told, *lines[i + 1 : end]]))]
            yield from ("", *(f"[video]({url})" for url in dict.fromkeys(urls)), "")
        else:
            # Of any other block only its marks go.
            end = i
            if kind == "include":
                yield from ("", f"[included: {told}]" if told else "", "")
            else:
                yield from ("", "" if kind in _SETTINGS else told)
        i = end + 1


def _end_of_video(lines: list[str], first: int) -> int:
    """The line at which a video ends, of which nothing but its address is kept: its close or, where what follows shows
    that it was left open, the first blank line."""
    for n in range(first, len(lines)):
        if _CLOSE.match(lines[n]):
            return n
        if lines[n].startswith("#") or _OPEN.match(lines[n]):
            break
    said = next((n for n in range(first, len(lines)) if lines[n].strip()), len(lines))
    return next((n for n in range(said, len(lines)) if not lines[n].strip()), len(lines))


def _without_macros(lines: list[str]) -> Iterator[str]:
    for line, in_fence in zip(lines, fenced(lines), strict=True):
        if in_fence or not _MACRO.search(line):
            yield line
        elif rest := _MACRO.sub("", line).strip():
            yield rest
