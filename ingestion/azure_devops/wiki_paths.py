"""Page paths, the files that hold them, and the ways in which texts link to pages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from posixpath import normpath
from urllib.parse import unquote

_SPECIAL = {c: f"%{ord(c):02X}" for c in '-:<>*?|"'}
# Spaces in a target are a mistake that people make and the wiki forgives.
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(\s*<?([^)>\s]+(?:[ \t]+[^)>\s\"'][^)>\s]*)*)>?(?:\s+[\"'][^)]*)?\s*\)")


def git_path(page_path: str, folder: str = "/") -> str:
    """The file of a page: a space is a hyphen, and a hyphen (like some other characters) is escaped."""
    parts = ["".join(_SPECIAL.get(c, c) for c in part).replace(" ", "-") for part in page_path.strip("/").split("/")]
    return f"{folder.rstrip('/')}/{'/'.join(parts)}.md"


def title_of(page_path: str) -> str:
    """The last part of a page's path."""
    return page_path.rstrip("/").rpartition("/")[2]


def key_of(path: str) -> str:
    """The form in which a path is looked up: decoded once, with hyphens as spaces, without `.md`, in one case."""
    plain = unquote(unquote(path) if "%25" in path else path)
    plain = plain.removesuffix(".md").replace("-", " ")
    return "/" + re.sub(r"\s+", " ", plain.strip("/")).casefold()


class PageIndex:
    """Finds the page that a link in a page's text leads to: encoded, decoded, hyphenated or relative."""

    def __init__(self, pages: Mapping[int, str], folder: str = "/") -> None:
        self._by_key = {key_of(path): number for number, path in pages.items()}
        self._by_title: dict[str, set[int]] = {}
        for number, path in pages.items():
            self._by_title.setdefault(key_of(title_of(path)), set()).add(number)
        self._folder = folder.rstrip("/")

    def find(self, target: str, page_path: str) -> int | None:
        """The id of the page that `target`, written in the page at `page_path`, names; None where it is none."""
        if "://" in target or target.startswith(("#", "mailto:")):
            return None
        target = target.partition("#")[0].partition("?")[0]
        if not target:
            return None
        if target.startswith("/"):
            asked = [target, target.removeprefix(self._folder)]
        else:
            parent = page_path.rpartition("/")[0]
            # A relative link is relative to the page's folder; some are written relative to the page itself.
            asked = [normpath(f"{parent}/{target}"), normpath(f"{page_path}/{target}")]
        return next((self._by_key[key_of(x)] for x in asked if key_of(x) in self._by_key), None)

    def titled(self, title: str) -> int | None:
        """The id of the only page with this title."""
        found = self._by_title.get(key_of(title), set())
        return next(iter(found)) if len(found) == 1 else None


def link_targets(text: str) -> list[str]:
    """Targets of the Markdown links in a text, each once, in order; pictures are no links."""
    return list(dict.fromkeys(m.group(1) for m in _LINK.finditer(text)))
