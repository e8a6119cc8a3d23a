"""Power BI models kept as code (TMDL, `.bim`, DAX): told measure by measure, with the views behind each table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ingestion.azure_devops.dax import Statement, statements
from ingestion.azure_devops.definitions import Definition, Told, fenced
from ingestion.azure_devops.power_query import m_names
from ingestion.azure_devops.shapes import mapping, text_of
from ingestion.azure_devops.sql_names import used_names
from ingestion.azure_devops.tmdl import TmdlObject, read_tmdl


@dataclass(frozen=True, slots=True)
class Calculation:
    """A named piece of DAX or M; `kind` in words ("measure"), `facts` what else is set for it."""

    kind: str
    name: str
    expression: str
    description: str = ""
    facts: tuple[str, ...] = ()
    language: str = "dax"


@dataclass(frozen=True, slots=True)
class ModelTable:
    """A table of a model; `sources` are the texts that fill it as (language, text)."""

    name: str
    description: str
    columns: tuple[tuple[str, str], ...]
    calculations: tuple[Calculation, ...]
    sources: tuple[tuple[str, str], ...]
    sql_names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Model:
    """What one file says of a model; `shared` stands outside its tables (parameters, functions)."""

    tables: tuple[ModelTable, ...]
    shared: tuple[Calculation, ...]


def tmdl_definition(text: str) -> Definition | None:
    """Read a `.tmdl` file; None where it holds neither a table nor an expression."""
    return _told(_tmdl_model(read_tmdl(text)))


def bim_definition(data: Any) -> Definition | None:
    """Read a model kept as JSON (`.bim`, or the script that makes it); None where the JSON is something else."""
    for step in ("create", "createOrReplace", "alter"):
        data = mapping(data).get(step, data)
    data = mapping(data).get("database", data)
    model = mapping(data).get("model")
    if not isinstance(model, dict) or not isinstance(model.get("tables"), list):
        return None
    return _told(_bim_model(model))


def dax_definition(text: str) -> Definition | None:
    """Read a `.dax` file: measures that it defines, and queries; None where it names nothing."""
    found = statements(text)
    if not any(s.name for s in found):
        return None
    told = tuple(Told(tuple(x for x in (s.table, _heading(s)) if x), fenced("dax", s.text)) for s in found)
    return Definition(told=told, aliases=_aliases((s.kind, s.table, s.name) for s in found if s.name))


def _heading(statement: Statement) -> str:
    return f"{statement.kind.capitalize()} {statement.name}".strip()


# --- from TMDL


def _tmdl_model(root: TmdlObject) -> Model:
    every = list(root.every())
    shared = [_tmdl_calculation(x, x.kind.lower()) for x in every if x.kind in ("expression", "function")]
    return Model(tuple(_tmdl_table(x) for x in every if x.kind == "table"), tuple(shared))


def _tmdl_table(table: TmdlObject) -> ModelTable:
    calculations, columns = [], []
    sources: list[tuple[str, str]] = []
    names: list[str] = []
    for x in table.every():
        match x.kind:
            case "measure":
                calculations.append(_tmdl_calculation(x, "measure"))
            case "calculationItem":
                calculations.append(_tmdl_calculation(x, "calculation item"))
            case "column" if x.expression:
                calculations.append(_tmdl_calculation(x, "calculated column"))
            case "column":
                columns.append((x.name, x.description))
            case "partition":
                for source in x.all("source"):
                    kind = x.expression.strip().lower()
                    sources += _source(kind, source.expression)
                    names += _source_names(kind, source.expression, source.properties)
    return ModelTable(
        table.name, table.description, tuple(columns), tuple(calculations), tuple(sources), tuple(dict.fromkeys(names))
    )


def _tmdl_calculation(x: TmdlObject, kind: str) -> Calculation:
    dynamic = next((f.expression for f in x.all("formatStringDefinition")), "")
    facts = _facts(x.properties.get("formatString") or dynamic, x.properties.get("displayFolder"))
    return Calculation(kind, x.name, x.expression, x.description, facts, "m" if kind == "expression" else "dax")


# --- from JSON


def _bim_model(model: Mapping[str, Any]) -> Model:
    shared = [
        _bim_calculation(x, kind)
        for key, kind in (("expressions", "expression"), ("functions", "function"))
        for x in _rows(model.get(key))
    ]
    return Model(tuple(_bim_table(t) for t in _rows(model.get("tables"))), tuple(shared))


def _bim_table(table: Mapping[str, Any]) -> ModelTable:
    calculations = [_bim_calculation(m, "measure") for m in _rows(table.get("measures"))]
    items = _rows(mapping(table.get("calculationGroup")).get("calculationItems"))
    calculations += [_bim_calculation(m, "calculation item") for m in items]
    columns = []
    for column in _rows(table.get("columns")):
        if column.get("expression"):
            calculations.append(_bim_calculation(column, "calculated column"))
        else:
            columns.append((text_of(column.get("name")), _lines(column.get("description"))))
    sources: list[tuple[str, str]] = []
    names: list[str] = []
    for partition in _rows(table.get("partitions")):
        source = mapping(partition.get("source"))
        kind = text_of(source.get("type") or "query").lower()
        text = _lines(source.get("query" if kind == "query" else "expression"))
        sources += _source(kind, text)
        names += _source_names(kind, text, {k: text_of(v) for k, v in source.items() if isinstance(v, str)})
    return ModelTable(
        text_of(table.get("name")),
        _lines(table.get("description")),
        tuple(columns),
        tuple(calculations),
        tuple(sources),
        tuple(dict.fromkeys(names)),
    )


def _bim_calculation(data: Mapping[str, Any], kind: str) -> Calculation:
    facts = _facts(text_of(data.get("formatString")), text_of(data.get("displayFolder")))
    language = "m" if kind == "expression" else "dax"
    name, expression = text_of(data.get("name")), _lines(data.get("expression"))
    return Calculation(kind, name, expression, _lines(data.get("description")), facts, language)


def _rows(value: Any) -> list[Mapping[str, Any]]:
    return [x for x in value if isinstance(x, Mapping)] if isinstance(value, list) else []


def _lines(value: Any) -> str:
    """A text, which the format may keep as a list of lines."""
    return "\n".join(x for x in value if isinstance(x, str)) if isinstance(value, list) else text_of(value)


# --- told


def _told(model: Model) -> Definition | None:
    told = [Told((t.name,), text) for t in model.tables if (text := _table_text(t))]
    for table in model.tables:
        told += [Told((table.name, c.name), _calculation_text(c, table)) for c in table.calculations]
    told += [Told((c.name,), _calculation_text(c, None)) for c in model.shared]
    if not told:
        return None
    names = [n for t in model.tables for n in t.sql_names]
    names += [n for c in model.shared if c.language == "m" for n in m_names(c.expression)]
    kinds = [(c.kind, t.name, c.name) for t in model.tables for c in t.calculations]
    kinds += [(c.kind, "", c.name) for c in model.shared]
    tables = [f"powerbi:{t.name}" for t in model.tables if t.name]
    return Definition(tuple(told), (*tables, *_aliases(kinds)), tuple(dict.fromkeys(names)))


def _aliases(named: Iterable[tuple[str, str, str]]) -> tuple[str, ...]:
    """`powerbi:name` for everything, and `measure:` with the bare name and with its table's for what is a measure."""
    found: dict[str, None] = {}
    for kind, table, name in named:
        found[f"powerbi:{name}"] = None
        if kind == "measure":
            found[f"measure:{name}"] = None
            if table:
                found[f"measure:{table}[{name}]"] = None
    return tuple(found)


def _table_text(table: ModelTable) -> str:
    lines = [table.description] if table.description else []
    if table.sql_names:
        lines.append(f"Table {table.name} reads {', '.join(table.sql_names)}.")
    measures = [c.name for c in table.calculations]
    if measures:
        lines.append(f"Calculations: {'; '.join(measures)}.")
    if table.columns:
        lines.append("Columns:\n" + "\n".join(f"- {n}: {d}" if d else f"- {n}" for n, d in table.columns))
    lines += [fenced(language, text) for language, text in table.sources]
    return "\n\n".join(lines)


def _calculation_text(found: Calculation, table: ModelTable | None) -> str:
    lines = [found.description] if found.description else []
    where = f" of table {table.name}" if table and table.name else ""
    reads = f", which reads {', '.join(table.sql_names)}" if table and table.sql_names else ""
    facts = "".join(f", {f}" for f in found.facts)
    lines.append(f"{found.kind.capitalize()} {found.name}{where}{reads}{facts}.")
    if found.expression.strip():
        lines.append(
            fenced(
                found.language, f"{found.name} = {found.expression}" if found.language == "dax" else found.expression
            )
        )
    return "\n\n".join(lines)


def _facts(number_format: str | None, folder: str | None) -> tuple[str, ...]:
    return tuple(f"{word} {value.strip()}" for word, value in (("format", number_format), ("folder", folder)) if value)


def _source(kind: str, text: str) -> list[tuple[str, str]]:
    language = {"m": "m", "query": "sql", "calculated": "dax"}.get(kind, "")
    return [(language, text)] if text.strip() else []


def _source_names(kind: str, text: str, properties: Mapping[str, str]) -> Sequence[str]:
    if kind == "query":
        return used_names(text)
    if kind == "entity":
        parts = (properties.get("schemaName", ""), properties.get("entityName", ""))
        return [".".join(p for p in parts if p).lower()] if parts[1] else []
    return m_names(text) if kind == "m" else ()
