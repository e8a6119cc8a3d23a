"""Power BI reports kept as JSON: told visual by visual, with the measures and columns that each shows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ingestion.azure_devops.definitions import Definition, Told
from ingestion.azure_devops.shapes import mapping, text_of

_VISUAL_SCHEMA = "/visualcontainer/"


@dataclass(frozen=True, slots=True)
class Visual:
    """One visual of a page; fields as `Table[Name]`."""

    page: str
    title: str
    kind: str
    measures: tuple[str, ...]
    columns: tuple[str, ...]


def report_definition(data: Any) -> Definition | None:
    """Read one visual (`visual.json`) or a whole report (`report.json`); None where the JSON is neither."""
    if not isinstance(data, dict):
        return None
    visuals = [v for v in _visuals(data) if v.measures or v.columns or v.title]
    if not visuals:
        return None
    measures = tuple(dict.fromkeys(m for v in visuals for m in v.measures))
    return Definition(
        told=tuple(_told(v) for v in visuals),
        attributes={"measures": "\n".join(measures)} if measures else {},
    )


def _told(visual: Visual) -> Told:
    title = visual.title or f"Visual {visual.kind}"
    lines = [f"Visual of kind {visual.kind}."] if visual.kind else []
    lines += [
        f"Shows {words}: {', '.join(names)}."
        for words, names in (("measures", visual.measures), ("columns", visual.columns))
        if names
    ]
    return Told(tuple(x for x in (visual.page, title) if x), "\n\n".join(lines) or title)


def _visuals(data: Mapping[str, Any]) -> Iterator[Visual]:
    schema = text_of(data.get("$schema")).lower()
    if _VISUAL_SCHEMA in schema and isinstance(data.get("visual"), dict):
        yield _visual("", mapping(data["visual"]), "visualContainerObjects")
    sections = data.get("sections")
    for section in sections if isinstance(sections, list) else []:
        containers = mapping(section).get("visualContainers")
        for container in containers if isinstance(containers, list) else []:
            try:
                config = json.loads(text_of(mapping(container).get("config")))
            except (ValueError, RecursionError):
                continue
            single = mapping(config).get("singleVisual")
            if isinstance(single, dict):
                yield _visual(text_of(mapping(section).get("displayName")), single, "vcObjects")


def _visual(page: str, visual: Mapping[str, Any], objects: str) -> Visual:
    found = list(_fields(visual, _entities(visual)))
    return Visual(
        page=page,
        title=_title(mapping(visual.get(objects)).get("title")),
        kind=text_of(visual.get("visualType")),
        measures=tuple(dict.fromkeys(name for kind, name in found if kind == "Measure")),
        columns=tuple(dict.fromkeys(name for kind, name in found if kind == "Column")),
    )


def _entities(visual: Mapping[str, Any]) -> dict[str, str]:
    """The short names by which a query's fields name their tables."""
    rows = mapping(visual.get("prototypeQuery")).get("From")
    named = (mapping(r) for r in (rows if isinstance(rows, list) else []))
    return {text_of(r.get("Name")): text_of(r.get("Entity")) for r in named}


def _fields(data: Any, entities: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(`Measure` or `Column`, `Table[Name]`) of every field that is named below, in order."""
    waiting = [data]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting.extend(reversed(node))
            continue
        if not isinstance(node, dict):
            continue
        for kind in ("Measure", "Column"):
            field = mapping(node.get(kind))
            source = mapping(mapping(field.get("Expression")).get("SourceRef"))
            if field.get("Property") and source:
                table = text_of(source.get("Entity")) or entities.get(text_of(source.get("Source")), "")
                yield kind, f"{table}[{text_of(field['Property'])}]"
        waiting.extend(reversed(list(node.values())))


def _title(objects: Any) -> str:
    for entry in objects if isinstance(objects, list) else []:
        text = mapping(mapping(mapping(mapping(entry).get("properties")).get("text")).get("expr")).get("Literal")
        value = text_of(mapping(text).get("Value"))
        if len(value) > 1 and value[0] == value[-1] == "'":
            return value[1:-1].replace("''", "'").strip()
    return ""
