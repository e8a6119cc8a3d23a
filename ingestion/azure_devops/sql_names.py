"""Tables and views that SQL defines and mentions, so that a dashboard leads to the view behind it."""

from __future__ import annotations

import re

_IDENTIFIER = r'(?:[A-Za-z_][\w$]*|"[^"]+"|\[[^\]]+\]|`[^`]+`)'
_NAME = rf"{_IDENTIFIER}(?:\s*\.\s*{_IDENTIFIER}){{0,2}}"
_DEFINED = re.compile(
    r"\bcreate\s+(?:or\s+(?:replace|alter)\s+)?(?:temp(?:orary)?\s+|materialized\s+|external\s+)*"
    rf"(?:view|table|function|procedure)\s+(?:if\s+not\s+exists\s+)?({_NAME})",
    re.IGNORECASE,
)
_USED = re.compile(rf"\b(from|join|into|update|references)\s+(?:only\s+|lateral\s+)?({_NAME})(\s*\()?", re.IGNORECASE)
_CTE = re.compile(
    rf"(?:\bwith\s+(?:recursive\s+)?|\)\s*,\s*)({_IDENTIFIER})\s*(?:\([^()]*\)\s*)?as\s*(?:not\s+materialized\s*)?\(",
    re.IGNORECASE,
)
_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_TEXT = re.compile(r"'(?:[^']|'')*'")
_KEYWORDS = frozenset(["select", "lateral", "unnest", "set", "where", "values", "dual", "the", "a"])


def _clean(name: str) -> str:
    return re.sub(r"\s*\.\s*", ".", re.sub(r'["\[\]`]', "", name)).strip().lower()


def _bare(sql: str) -> str:
    """SQL without comments and literals, in which words stand that are no names."""
    return _TEXT.sub("''", _COMMENT.sub(" ", sql))


def defined_names(sql: str) -> tuple[str, ...]:
    """Views, tables and functions that a script creates, as `schema.name` or `name`, lower case, in order."""
    return tuple(dict.fromkeys(_clean(m.group(1)) for m in _DEFINED.finditer(_bare(sql))))


def used_names(sql: str) -> tuple[str, ...]:
    """Tables and views that a script reads or writes; names that it makes for itself (WITH) are left out."""
    bare = _bare(sql)
    own = {_clean(m.group(1)) for m in _CTE.finditer(bare)}
    # What is called after FROM or JOIN is a function; after INTO the bracket opens a list of columns.
    tables = (m for m in _USED.finditer(bare) if not m.group(3) or m.group(1).lower() not in ("from", "join"))
    found = (_clean(m.group(2)) for m in tables)
    return tuple(dict.fromkeys(n for n in found if n not in own and n not in _KEYWORDS))
