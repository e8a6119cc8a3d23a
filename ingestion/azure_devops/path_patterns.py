"""Patterns of paths as git writes them in `.gitattributes` and `.gitignore`, and what a repo says of its own files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_ATTRIBUTES = ("linguist-generated", "linguist-vendored")
_LINE = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|(\S+))\s+(.*)$')
_MOST_LINES = 2000
# More of them than anybody needs would let one line of a repo hold up its reading.
_MOST_WILDCARDS = 5
_NOTHING = re.compile(r"(?!)")


def pattern(glob: str) -> re.Pattern[str]:
    """A pattern over paths without a leading slash: `*.sql` at any depth, `/a/*.sql` and `a/*.sql` from the top,
    `**` over any number of folders; `a/` is all that lies below a folder of that name. Letters match in either case.
    """
    if len(re.findall(r"\*+", glob)) > _MOST_WILDCARDS:
        return _NOTHING
    anchored = "/" in glob.rstrip("/")
    bare = glob.strip("/")
    found = "" if anchored else "(?:.*/)?"
    i = 0
    while i < len(bare):
        if bare.startswith("**/", i):
            found, i = f"{found}(?:.*/)?", i + 3
        elif bare.startswith("**", i):
            found, i = f"{found}.*", i + 2
        elif bare[i] == "*":
            found, i = f"{found}[^/]*", i + 1
        elif bare[i] == "?":
            found, i = f"{found}[^/]", i + 1
        elif bare[i] == "[" and (end := bare.find("]", i + 2)) > 0:
            inner = bare[i + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
            found, i = f"{found}[{'^' + inner[1:] if inner[0] in '!^' else inner}]", end + 1
        else:
            found, i = found + re.escape(bare[i]), i + 1
    try:
        return re.compile(found + ("/.*" if glob.endswith("/") else ""), re.IGNORECASE | re.DOTALL)
    except re.error:
        # A range that runs backwards: git matches nothing with it either.
        return _NOTHING


def matches(patterns: Iterable[re.Pattern[str]], path: str) -> bool:
    """Whether a path (with or without a leading slash) matches one of the patterns."""
    bare = path.lstrip("/")
    return any(p.fullmatch(bare) for p in patterns)


@dataclass(frozen=True, slots=True)
class Attributes:
    """What `.gitattributes` files say of paths: rules in order of precedence, the last one that matches decides."""

    rules: tuple[tuple[str, re.Pattern[str], str, bool], ...] = ()

    @staticmethod
    def of(files: Mapping[str, str]) -> Attributes:
        """From path and text of each `.gitattributes`: those deeper in the tree come after those above them."""
        rules = []
        for path in sorted(files, key=lambda p: (p.count("/"), p)):
            folder = path.rpartition("/")[0].lstrip("/")
            for line in files[path].splitlines()[:_MOST_LINES]:
                rules += [(folder, glob, name, value) for glob, name, value in _rules(line)]
        return Attributes(tuple(rules))

    def left_out(self, path: str) -> str | None:
        """`generated` or `vendored` where a repo says so of a path, empty where it says the opposite; else None."""
        bare = path.lstrip("/")
        said: dict[str, bool] = {}
        for folder, glob, name, value in self.rules:
            if (not folder or bare.startswith(f"{folder}/")) and glob.fullmatch(bare[len(folder) :].lstrip("/")):
                said[name] = value
        marked = [name.removeprefix("linguist-") for name in _ATTRIBUTES if said.get(name)]
        return marked[0] if marked else "" if said else None


def _rules(line: str) -> Iterable[tuple[re.Pattern[str], str, bool]]:
    found = _LINE.match(line)
    if not found or line.lstrip().startswith(("#", "[attr]")):
        return
    glob = re.sub(r"\\(.)", r"\1", found.group(1)) if found.group(1) is not None else found.group(2)
    for word in found.group(3).split():
        name, _, value = word.lstrip("-!").partition("=")
        if name in _ATTRIBUTES:
            yield pattern(glob), name, not word.startswith(("-", "!")) and value.lower() not in ("false", "0")
