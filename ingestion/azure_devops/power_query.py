"""Tables and views that a Power Query (M) text reads: by navigation, or by SQL that it sends."""

from __future__ import annotations

import re

from ingestion.azure_devops.sql_names import used_names

_STRING = re.compile(r'"((?:[^"]|"")*)"')
_COMMENT = re.compile(r'("(?:[^"]|"")*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_STEP = re.compile(r"\{\s*\[((?:[^\[\]\"]|\"(?:[^\"]|\"\")*\")*)\]\s*\}")
_FIELD = re.compile(r'(\w+)\s*=\s*"((?:[^"]|"")*)"')
_ESCAPE = re.compile(r"#\((lf|cr|tab|cr,lf|#)\)")
_ESCAPES = {"lf": "\n", "cr": "\r", "tab": "\t", "cr,lf": "\n", "#": "#"}
_SQL = re.compile(r"\b(?:select|with)\b.*\bfrom\b", re.IGNORECASE | re.DOTALL)


def m_names(text: str) -> tuple[str, ...]:
    """Tables and views as `schema.name` or `name`, lower case, in order, each once."""
    bare = _COMMENT.sub(lambda m: m.group(1) or " ", text)
    found: dict[str, None] = {}
    schema = ""
    for step in _STEP.finditer(bare):
        fields = {k.lower(): v.replace('""', '"') for k, v in _FIELD.findall(step.group(1))}
        kind = fields.get("kind", "").lower()
        if "item" in fields:
            found[_dotted(fields.get("schema", ""), fields["item"])] = None
        elif kind == "schema":
            schema = fields.get("name", "")
        elif kind in ("table", "view") and "name" in fields:
            found[_dotted(fields.get("schema", schema), fields["name"])] = None
    for literal in _STRING.findall(bare):
        sql = _ESCAPE.sub(lambda m: _ESCAPES[m.group(1)], literal.replace('""', '"'))
        if _SQL.search(sql):
            found.update(dict.fromkeys(used_names(sql)))
    return tuple(found)


def _dotted(schema: str, name: str) -> str:
    return (f"{schema}.{name}" if schema and "." not in name else name).lower()
