"""Reads Grafana dashboards kept as JSON, in the forms that its versions and its API give them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from core.text.html import html_to_markdown
from ingestion.azure_devops.dashboards import Dashboard, Panel, Query
from ingestion.azure_devops.definitions import Definition
from ingestion.azure_devops.shapes import mapping, text_of

# Where the kinds of data sources keep a target's query.
_QUERY_KEYS = ("rawSql", "expr", "query", "rawQuery", "queryText", "sql", "target", "expression")
# What a target without a query asks for.
_ASKED = ("namespace", "metricNamespace", "metricName", "measurement", "region")
_LANGUAGES = {"prometheus": "promql", "loki": "logql", "influxdb": "influxql"}
_LONGEST_OPTIONS = 400
_DEEPEST = 8


def dashboard_definition(data: Any) -> Definition | None:
    """A dashboard told panel by panel; None where the JSON is none."""
    found = read_dashboard(data)
    return found.definition() if found is not None else None


def read_dashboard(data: Any) -> Dashboard | None:
    """Read parsed JSON as a Grafana dashboard, bare or wrapped as an API gives it; None where it is none."""
    if not isinstance(data, dict):
        return None
    uid = ""
    if isinstance(data.get("dashboard"), dict):
        data = data["dashboard"]
    elif data.get("kind") == "Dashboard" and isinstance(data.get("spec"), dict):
        uid, data = text_of(mapping(data.get("metadata")).get("name")), data["spec"]
    rows = _panel_rows(data)
    if rows is None or not data.get("title"):
        return None
    elements = mapping(data.get("__elements"))
    return Dashboard(
        uid=text_of(data.get("uid")) or uid,
        title=text_of(data["title"]),
        description=text_of(data.get("description")).strip(),
        tags=tuple(text_of(t) for t in _list(data.get("tags")) if isinstance(t, str)),
        variables=tuple(_variables(mapping(data.get("templating")))),
        panels=tuple(_panels(rows, "", elements, 0)),
        notes=tuple(_links(data.get("links"))),
    )


def _panel_rows(data: Mapping[str, Any]) -> list[Any] | None:
    """The panels; those of old rows (`rows`) and of new elements (`elements`) brought to the usual form."""
    panels = data.get("panels")
    if isinstance(panels, list):
        known = all(isinstance(p, dict) for p in panels)
        marks = ("targets", "gridPos", "panels", "type", "libraryPanel")
        return panels if known and any(m in p for p in panels for m in marks) else None
    rows = data.get("rows")
    if isinstance(rows, list) and any(isinstance(mapping(r).get("panels"), list) for r in rows):
        return [{"type": "row", **mapping(r)} for r in rows]
    elements = data.get("elements")
    if isinstance(elements, dict):
        return [_element(mapping(e)["spec"]) for e in elements.values() if isinstance(mapping(e).get("spec"), dict)]
    return None


def _element(spec: Mapping[str, Any]) -> dict[str, Any]:
    queries = _list(mapping(mapping(spec.get("data")).get("spec")).get("queries"))
    view = mapping(spec.get("vizConfig"))
    targets = []
    for query in queries:
        asked = mapping(mapping(mapping(query).get("spec")).get("query"))
        targets.append({**mapping(asked.get("spec")), "datasource": {"type": asked.get("group") or asked.get("kind")}})
    shown = mapping(view.get("spec"))
    return {**spec, "type": view.get("group") or view.get("kind"), "targets": targets, **shown}


def _panels(rows: list[Any], row: str, elements: Mapping[str, Any], depth: int) -> Iterator[Panel]:
    for data in rows:
        if not isinstance(data, Mapping) or depth > _DEEPEST:
            continue
        library = mapping(data.get("libraryPanel"))
        shared = mapping(mapping(elements.get(text_of(library.get("uid")))).get("model") or library.get("model"))
        data = {**shared, **{k: v for k, v in data.items() if v or k not in shared}}
        title = (text_of(data.get("title")) or text_of(library.get("name"))).strip()
        if data.get("type") == "row":
            row = title
            yield from _panels(_list(data.get("panels")), title, elements, depth + 1)
            continue
        defaults = mapping(mapping(data.get("fieldConfig")).get("defaults"))
        source = _source_of(data.get("datasource"))
        yield Panel(
            id=text_of(data.get("id")),
            title=title,
            description=text_of(data.get("description")).strip(),
            kind=text_of(data.get("type")),
            unit=text_of(defaults.get("unit")),
            row=row,
            queries=tuple(_queries(data.get("targets"), source)),
            content=_content(data),
            notes=tuple(_notes(data, defaults, library)),
        )
        yield from _panels(_list(data.get("panels")), row, elements, depth + 1)


def _content(data: Mapping[str, Any]) -> str:
    """What a panel of text says."""
    if data.get("type") != "text":
        return ""
    options = mapping(data.get("options")) or data
    text = text_of(options.get("content")).strip()
    return html_to_markdown(text) if options.get("mode") == "html" else text


def _notes(data: Mapping[str, Any], defaults: Mapping[str, Any], library: Mapping[str, Any]) -> Iterator[str]:
    if library.get("name"):
        yield f"Library panel {text_of(library['name'])}."
    steps = [mapping(s) for s in _list(mapping(defaults.get("thresholds")).get("steps"))]
    shown = [f"{text_of(s.get('color'))} at {text_of(s['value'])}" for s in steps if s.get("value") is not None]
    if shown:
        yield f"Thresholds: {', '.join(shown)}."
    for step in _list(data.get("transformations")):
        options = mapping(step).get("options")
        told = json.dumps(options, ensure_ascii=False, sort_keys=True)[:_LONGEST_OPTIONS] if options else ""
        if name := text_of(mapping(step).get("id")):
            yield f"Transformation {name}" + (f": `{told}`" if told else "") + "."
    alert = mapping(data.get("alert"))
    if alert:
        yield " ".join(x for x in (f"Alert {text_of(alert.get('name'))}.", text_of(alert.get("message")).strip()) if x)
    yield from _links(data.get("links"))
    yield from _links(defaults.get("links"))


def _links(links: Any) -> Iterator[str]:
    for link in map(mapping, _list(links)):
        url, title = text_of(link.get("url")), text_of(link.get("title")).strip()
        if url:
            yield f"[{title or url}]({url})"


def _queries(targets: Any, source: tuple[str, str]) -> Iterator[Query]:
    for target in map(mapping, _list(targets)):
        own = _source_of(target.get("datasource")) if target.get("datasource") else source
        for held in (target, *(v for v in target.values() if isinstance(v, Mapping))):
            key = next((k for k in _QUERY_KEYS if isinstance(held.get(k), str) and held[k].strip()), None)
            if key is not None:
                yield Query(_language(key, own[0]), held[key], own[1])
                break
        else:
            asked = [f"{k}: {text_of(target[k])}" for k in _ASKED if target.get(k)]
            if asked:
                yield Query("", "\n".join(asked), own[1])


def _language(key: str, kind: str) -> str:
    if key == "expression":
        return ""
    known = next((language for name, language in _LANGUAGES.items() if name in kind.lower()), "")
    return known or ("promql" if key == "expr" else "sql" if "sql" in (key + kind).lower() else "")


def _source_of(data: Any) -> tuple[str, str]:
    """Kind and name of a data source; a variable or the marker for several names none."""
    kind = text_of(mapping(data).get("type")) if isinstance(data, Mapping) else ""
    name = data if isinstance(data, str) else text_of(mapping(data).get("uid"))
    if name.startswith("__") or kind in ("datasource", "__expr__"):
        # Grafana's own: it calculates with what the others gave.
        return kind, ""
    return kind, kind if not name or name.startswith(("$", "--")) else name


def _variables(templating: Mapping[str, Any]) -> Iterator[tuple[str, Query]]:
    for variable in map(mapping, _list(templating.get("list"))):
        query = variable.get("query")
        text = (
            text_of(mapping(query).get("query") or mapping(query).get("rawSql")) if isinstance(query, dict) else query
        )
        if variable.get("type") == "query" and isinstance(text, str) and text.strip():
            kind = _source_of(variable.get("datasource"))[0]
            yield text_of(variable.get("name")), Query("" if _language("", kind) == "promql" else "sql", text)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
