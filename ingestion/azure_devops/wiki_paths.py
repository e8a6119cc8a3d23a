"""Page paths, the files that hold them, and the ways in which texts link to pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from posixpath import normpath
from urllib.parse import unquote

from core.text.fences import fenced

_SPECIAL = {c: f"%{ord(c):02X}" for c in '-:<>*?|"'}
# Spaces in a target are a mistake that people make and the wiki forgives.
# Lengths are bounded, and a label holds no bracket, so that a text that only looks like links is read in linear time.
_LINK = re.compile(
    r"(?<!!)\[[^\[\]]{0,1000}\]\((?=[^)]{1,2000}\))"
    r"\s*<?([^)>\s]+(?:[ \t]+[^)>\s\"'][^)>\s]*)*)>?(?:\s+[\"'][^)]*)?\s*\)"
)
# What a page takes in from elsewhere: `:::include /Legal.md:::`, the same as a block, and `![[Legal]]`.
_INCLUDED = re.compile(
    r"^\s{0,3}:::\s{0,9}include\s(.{1,1000})$|!\[\[([^\[\]|#]{1,500})(?:[|#][^\[\]]{0,500})?\]\]", re.IGNORECASE
)

# Marks, among what a page looks up, what it names by title.
_TITLE = "title: "
# An attachment's name ends at what ends a target: a bracket, a size (`=300x`), a title or a query.
_ATTACHMENT = re.compile(r"(?:^|[(<\"'/\s])\.attachments/([^)>\"'\n?#=]+)", re.IGNORECASE)


def git_path(page_path: str, folder: str = "/") -> str:
    """The file of a page: a space is a hyphen, and a hyphen (like some other characters) is escaped."""
    parts = ["".join(_SPECIAL.get(c, c) for c in part).replace(" ", "-") for part in page_path.strip("/").split("/")]
    return f"{folder.rstrip('/')}/{'/'.join(parts)}.md"


def _plain(path: str) -> str:
    return "/" + re.sub(r"\s+", " ", path.strip("/")).casefold()


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
        self._by_path: dict[str, int] = {}
        self._by_key: dict[str, int] = {}
        self._by_title: dict[str, set[int]] = {}
        for number, path in sorted(pages.items()):
            self._by_path.setdefault(_plain(path), number)
            self._by_key.setdefault(key_of(path), number)
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
        return next((found for x in asked if (found := self._at(x)) is not None), None)

    def _at(self, target: str) -> int | None:
        """The page at a path. A hyphen is how a space is written in files and links, and a real one is escaped there;
        people write both as they come."""
        bare = target.removesuffix(".md")
        for path in (unquote(bare.replace("-", " ")), unquote(bare)):
            if (found := self._by_path.get(_plain(path))) is not None:
                return found
        return self._by_key.get(key_of(target))

    def lookups(self, links: Iterable[str], titles: Iterable[str], page_path: str) -> dict[str, int | None]:
        """What links, and titles of pages, lead to from a page now; `stale` tells when that has changed."""
        found = {target: self.find(target, page_path) for target in links if "://" not in target}
        return found | {f"{_TITLE}{title}": self.named(title, page_path) for title in titles if "://" not in title}

    def stale(self, lookups: Mapping[str, int | None], page_path: str) -> bool:
        """Whether some link or title leads elsewhere now than it did."""
        return any(
            number
            != (
                self.named(asked.removeprefix(_TITLE), page_path)
                if asked.startswith(_TITLE)
                else self.find(asked, page_path)
            )
            for asked, number in lookups.items()
        )

    def named(self, name: str, page_path: str) -> int | None:
        """The id of the page that a link or a title names."""
        found = self.find(name, page_path)
        return found if found is not None else self.titled(name)

    def titled(self, title: str) -> int | None:
        """The id of the only page with this title."""
        found = self._by_title.get(key_of(title), set())
        return next(iter(found)) if len(found) == 1 else None


def attachments(text: str) -> list[str]:
    """Names of the files in `/.attachments/` that a text shows or links to, each once, in order."""
    names = (unquote(m.group(1)).strip() for m in _ATTACHMENT.finditer(text))
    return list(dict.fromkeys(name for name in names if name))


def link_targets(text: str) -> list[str]:
    """Targets of the Markdown links in a text, then what it includes, each once, in order; pictures are no links."""
    return list(dict.fromkeys([*(m.group(1) for m in _LINK.finditer(text)), *_included(text)]))


def _included(text: str) -> list[str]:
    """What stands in a text as an include, outside of code fences."""
    lines = text.splitlines()
    outside = (line for line, inside in zip(lines, fenced(lines), strict=True) if not inside)
    found = (m.group(1) or m.group(2) for line in outside for m in _INCLUDED.finditer(line))
    return [target for told in found if (target := told.strip().removesuffix(":::").strip())]
