"""Tables and views that SQL defines and mentions, so that a dashboard leads to the view behind it."""

from __future__ import annotations

import re

_IDENTIFIER = r'(?:[A-Za-z_][\w$]*|"[^"\n]+"|\[[^\]\n]+\]|`[^`\n]+`)'
_NAME = rf"{_IDENTIFIER}(?:\s*\.\s*{_IDENTIFIER}){{0,3}}"
_DEFINED = re.compile(
    r"\b(?:create\s+(?:or\s+(?:replace|alter)\s+)?"
    r"(?:(?:temp|temporary|materialized|external|recursive|secure|force|transient|unlogged|global|local)\s+)*|alter\s+)"
    rf"(?:view|table|function|procedure|proc)\s+(?:if\s+(?:not\s+)?exists\s+)?({_NAME})",
    re.IGNORECASE,
)
_USED = re.compile(
    rf"\b(from|join|into|update|references|using)\s+(?:only\s+|lateral\s+)?({_NAME})(\s*\()?", re.IGNORECASE
)
# `from a x, b y`: what follows the first table of a list.
_NEXT = re.compile(rf"(?:\s+(?:as\s+)?{_IDENTIFIER})?\s*,\s*({_NAME})(\s*\()?", re.IGNORECASE)
_CTE = re.compile(
    rf"(?:\bwith\s+(?:recursive\s+)?|\)\s*,\s*)({_IDENTIFIER})\s*(?:\([^()]*\)\s*)?"
    r"as\s*(?:(?:not\s+)?materialized\s*)?\(",
    re.IGNORECASE,
)
# Comments and literals; whichever begins first holds the other.
_UNSPOKEN = re.compile(r"(--[^\n]*|/\*.*?(?:\*/|\Z)|\{#(?:(?!\{#|#\}).)*#\})|('(?:[^']|'')*')", re.DOTALL)
# Where FROM stands before no table.
_NO_FROM = re.compile(r"\b(?:extract|trim|substring|overlay|position)\s*\(\s*[^()]*?\bfrom\b|\bdistinct\s+from\b", re.I)
# What dbt writes in the place of names.
_JINJA_NAME = re.compile(
    r"\{\{-?\s*(?:ref|source)\s*\(\s*(?:['\"]([^'\"]+)['\"]\s*,\s*)?['\"]([^'\"]+)['\"][^)]*\)\s*-?\}\}"
)
# None holds another's beginning: where none ends, the rest of the text would be looked through for each.
_JINJA = re.compile(r"\{%(?:(?!\{%|%\}).)*%\}|\{\{(?:(?!\{\{|\}\}).)*\}\}", re.DOTALL)
_JINJA_MODEL = re.compile(r"\{\{-?\s*(?:ref|source|config)\s*\(")
_KEYWORDS = frozenset(["select", "lateral", "unnest", "set", "where", "values", "dual", "the", "a"])


def _clean(name: str) -> str:
    return re.sub(r"\s*\.\s*", ".", re.sub(r'["\[\]`]', "", name)).strip().lower()


def _bare(sql: str) -> str:
    """SQL without comments, literals and templates, in which words stand that are no names."""
    named = _JINJA_NAME.sub(lambda m: _quoted(m.group(1), m.group(2)), sql)
    spoken = _UNSPOKEN.sub(lambda m: " " if m.group(1) else "''", _JINJA.sub(" ", named))
    return _NO_FROM.sub(" ", spoken)


def _quoted(first: str | None, second: str) -> str:
    return f'"{first}"."{second}"' if first else f'"{second}"'


def defined_names(sql: str, path: str = "") -> tuple[str, ...]:
    """Views, tables and functions that a script creates, as `schema.name` or `name`, lower case, in order.

    A dbt model creates what its file is called.
    """
    found = dict.fromkeys(_clean(m.group(1)) for m in _DEFINED.finditer(_bare(sql)))
    if not found and path and _JINJA_MODEL.search(sql):
        found[path.rpartition("/")[2].rpartition(".")[0].lower()] = None
    return tuple(found)


def used_names(sql: str) -> tuple[str, ...]:
    """Tables and views that a script reads or writes; names that it makes for itself (WITH) are left out."""
    bare = _bare(sql)
    own = {_clean(m.group(1)) for m in _CTE.finditer(bare)}
    found: dict[str, None] = {}
    followed = 0
    for first in _USED.finditer(bare):
        word, name, called = first.group(1).lower(), first.group(2), first.group(3)
        # What is called after FROM or JOIN is a function; after INTO the bracket opens a list of columns.
        if not called or word not in ("from", "join", "using"):
            found[_clean(name)] = None
        # A list that goes on over the next FROM has been read with the one before.
        listed = word == "from" and not called and first.end(2) > followed
        following = _NEXT.match(bare, first.end(2)) if listed else None
        while following is not None:
            followed = following.end(1)
            if not following.group(2):
                found[_clean(following.group(1))] = None
            following = _NEXT.match(bare, following.end(1))
    return tuple(n for n in found if n not in own and n not in _KEYWORDS)
