"""Reads TMDL, the indented text that Power BI keeps models in, as a tree of objects."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field

_NAME = r"'(?:[^']|'')*'|[^\s=:]+"
_PROPERTY = re.compile(r"([A-Za-z]\w*)\s*:\s*(.*)$")
_OBJECT = re.compile(
    rf"(?:(?P<ref>ref)\s+)?(?P<kind>[A-Za-z]\w*)\s+(?P<name>{_NAME})\s*(?:(?P<equals>=)\s*(?P<rest>.*))?$"
)
_BARE = re.compile(r"(?P<kind>[A-Za-z]\w*)\s*(?:(?P<equals>=)\s*(?P<rest>.*))?$")
_TAB = 4
_FENCE = "```"


@dataclass(slots=True)
class TmdlObject:
    """One object: `table Calls`, `measure 'Calls a day' = …`, or `source` with what is set below it.

    `expression` is what stands behind `=`, with its own indentation only; `description` comes from `///` lines.
    """

    kind: str
    name: str = ""
    expression: str = ""
    description: str = ""
    properties: dict[str, str] = field(default_factory=dict)
    inside: list[TmdlObject] = field(default_factory=list)

    def all(self, kind: str) -> Iterator[TmdlObject]:
        """The objects of a kind directly inside."""
        return (x for x in self.inside if x.kind.lower() == kind.lower())

    def every(self) -> Iterator[TmdlObject]:
        """Everything inside, at any depth, in order."""
        waiting = self.inside[::-1]
        while waiting:
            found = waiting.pop()
            yield found
            waiting.extend(found.inside[::-1])


def read_tmdl(text: str) -> TmdlObject:
    """The objects of a file, inside a root without a name. Lines that are no TMDL are passed over."""
    lines = [line.expandtabs(_TAB).rstrip() for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    unit = _unit(text)
    root = TmdlObject("")
    stack: list[tuple[int, TmdlObject]] = [(-1, root)]
    description: list[str] = []
    i = 0
    while i < len(lines):
        line, indent = lines[i].strip(), _width(lines[i])
        i += 1
        if line.startswith("///"):
            description.append(line.removeprefix("///").strip())
            continue
        if not line:
            continue
        while stack[-1][0] >= indent:
            stack.pop()
        holder = stack[-1][1]
        if found := _PROPERTY.match(line):
            holder.properties[found.group(1)] = _unquoted(found.group(2))
        elif found := _BARE.match(line) or _OBJECT.match(line):
            made = TmdlObject(found.group("kind"), description="\n".join(description).strip())
            made.name = _unquoted(found.groupdict().get("name") or "")
            if found.group("equals"):
                made.expression, i = _expression(found.group("rest"), lines, i, indent + 2 * unit)
            if not found.groupdict().get("ref"):
                holder.inside.append(made)
            stack.append((indent, made))
        description = []
    return root


def _expression(rest: str, lines: list[str], i: int, least: int) -> tuple[str, int]:
    """What stands behind `=` and on the lines that are indented below it or fenced; and the line to go on with."""
    if rest.startswith(_FENCE):
        end = next((n for n in range(i, len(lines)) if lines[n].strip() == _FENCE), len(lines))
        return textwrap.dedent("\n".join([rest.removeprefix(_FENCE), *lines[i:end]])).strip("\n"), end + 1
    end = i
    while end < len(lines) and (not lines[end] or _width(lines[end]) >= least):
        end += 1
    block = textwrap.dedent("\n".join(lines[i:end])).strip("\n")
    return "\n".join(x for x in (rest.strip(), block) if x), end


def _unit(text: str) -> int:
    """How far one level is indented: a tab, or the least run of spaces that a line begins with."""
    if re.search(r"^\t", text, re.MULTILINE):
        return _TAB
    return min((len(x) for x in re.findall(r"^( +)\S", text, re.MULTILINE)), default=_TAB)


def _width(line: str) -> int:
    return len(line) - len(line.lstrip())


def _unquoted(value: str) -> str:
    value = value.strip()
    for quote in "'\"":
        if len(value) > 1 and value[0] == value[-1] == quote:
            return value[1:-1].replace(quote * 2, quote)
    return value
