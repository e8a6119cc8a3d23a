"""Grafana dashboards kept as JSON: told panel by panel, with the queries behind each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ingestion.azure_devops.shapes import mapping, text_of

# Where the kinds of data sources keep a target's query.
_QUERY_KEYS = ("rawSql", "expr", "query", "rawQuery", "queryText", "sql", "target")


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel; `queries` as (language, text)."""

    id: str
    title: str
    description: str
    kind: str
    unit: str
    row: str
    queries: tuple[tuple[str, str], ...]

    def markdown(self) -> str:
        """The panel as a person would tell of it."""
        lines = []
        if self.description:
            lines.append(self.description)
        facts = [f"Panel {self.id}" if self.id else "Panel", self.kind, f"unit {self.unit}" if self.unit else ""]
        lines.append(", ".join(x for x in facts if x) + ".")
        for language, query in self.queries:
            fence = "````" if "```" in query else "```"
            lines.append(f"{fence}{language}\n{query.strip()}\n{fence}")
        return "\n\n".join(lines)


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A dashboard with its panels, those inside rows too."""

    uid: str
    title: str
    description: str
    tags: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]
    panels: tuple[Panel, ...]

    @property
    def aliases(self) -> tuple[str, ...]:
        """Names under which a link to the dashboard or a panel of it finds the file."""
        if not self.uid:
            return ()
        return (f"grafana:{self.uid}", *(f"grafana:{self.uid}/{p.id}" for p in self.panels if p.id))

    @property
    def queries(self) -> tuple[str, ...]:
        """All SQL and other queries, panel by panel, then those of variables."""
        return (*(q for p in self.panels for _, q in p.queries), *(q for _, q in self.variables))

    def overview(self) -> str:
        """The dashboard as a whole."""
        lines = [self.description] if self.description else []
        if self.tags:
            lines.append(f"Tags: {', '.join(self.tags)}.")
        if self.panels:
            lines.append("Panels: " + "; ".join(p.title for p in self.panels if p.title) + ".")
        lines += [f"Variable `{name}`:\n\n```sql\n{query}\n```" for name, query in self.variables]
        return "\n\n".join(lines)


def read_dashboard(text: str) -> Dashboard | None:
    """Read a file as a Grafana dashboard (bare, or wrapped as the API gives it); None where it is none."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict):
        return None
    data = data["dashboard"] if isinstance(data.get("dashboard"), dict) else data
    panels = data.get("panels")
    if not isinstance(panels, list) or not all(isinstance(p, dict) for p in panels) or not data.get("title"):
        return None
    if not any("targets" in p or "gridPos" in p or "panels" in p or "type" in p for p in panels):
        return None
    return Dashboard(
        uid=text_of(data.get("uid")),
        title=text_of(data["title"]),
        description=text_of(data.get("description")).strip(),
        tags=tuple(text_of(t) for t in data.get("tags") or [] if isinstance(t, str)),
        variables=tuple(_variables(mapping(data.get("templating")))),
        panels=tuple(_panels(panels, "")),
    )


def _panels(rows: list[Any], row: str) -> Iterator[Panel]:
    for data in rows:
        if not isinstance(data, Mapping):
            continue
        title = text_of(data.get("title")).strip()
        if data.get("type") == "row":
            row = title
            yield from _panels(data.get("panels") or [], title)
            continue
        defaults = mapping(mapping(data.get("fieldConfig")).get("defaults"))
        yield Panel(
            id=text_of(data.get("id")),
            title=title,
            description=text_of(data.get("description")).strip(),
            kind=text_of(data.get("type")),
            unit=text_of(defaults.get("unit")),
            row=row,
            queries=tuple(_queries(data.get("targets"))),
        )


def _queries(targets: Any) -> Iterator[tuple[str, str]]:
    for target in targets if isinstance(targets, list) else []:
        for key in _QUERY_KEYS:
            query = mapping(target).get(key)
            if isinstance(query, str) and query.strip():
                yield ("promql" if key == "expr" else "sql" if "sql" in key.lower() else ""), query
                break


def _variables(templating: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for variable in templating.get("list") or []:
        query = mapping(variable).get("query")
        if mapping(variable).get("type") == "query" and isinstance(query, str) and query.strip():
            yield text_of(mapping(variable).get("name")), query
