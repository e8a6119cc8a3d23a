"""Power BI kept as code is told measure by measure, and leads to the views behind each table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ingestion.azure_devops.dax import statements
from ingestion.azure_devops.definitions import Definition
from ingestion.azure_devops.file_item import definition_of
from ingestion.azure_devops.power_query import m_names
from ingestion.azure_devops.tmdl import read_tmdl

TMDL = (Path(__file__).parent / "inputs" / "port_calls.tmdl").read_text("utf-8")


def told(text: str, language: str) -> tuple[Definition, dict[tuple[str, ...], str]]:
    found = definition_of(text, language)
    assert found is not None
    return found, {x.heading: x.text for x in found.told}


def test_measures_of_a_table_are_told_with_description_format_and_the_view_that_is_read() -> None:
    definition, sections = told(TMDL, "tmdl")
    assert sections[("Port Calls", "Occupancy %")] == (
        "How full the quays are,\nas the port counts it.\n\n"
        "Measure Occupancy % of table Port Calls, which reads analytics.vw_port_calls, format 0.0 %, "
        "folder Quays\\Daily.\n\n"
        "```dax\nOccupancy % = VAR taken = SUM('Port Calls'[Hours])\n\nRETURN\n    DIVIDE(taken, [Quay Hours])\n```"
    )
    assert "```dax\nCalls = COUNTROWS('Port Calls')\n```" in sections[("Port Calls", "Calls")]
    assert '[Calls] > 3,\n    "late"' in sections[("Port Calls", "It's late")]
    assert "lineageTag" not in "".join(sections.values())
    assert definition.sql_names == ("analytics.vw_port_calls",)


def test_a_measure_is_found_by_its_name_alone_and_with_its_table() -> None:
    definition, _ = told(TMDL, "tmdl")
    assert {"measure:Occupancy %", "measure:Port Calls[Occupancy %]", "powerbi:Port Calls"} <= set(definition.aliases)
    assert "measure:Departed" not in definition.aliases
    assert "measure:Day" not in definition.aliases


def test_a_table_is_told_with_its_columns_and_what_fills_it() -> None:
    _, sections = told(TMDL, "tmdl")
    table = sections[("Port Calls",)]
    assert table.startswith("Ships that called at a quay.\n\nTable Port Calls reads analytics.vw_port_calls.")
    assert "- Departed: When the ship left." in table
    assert 'Source{[Schema="analytics",Item="vw_port_calls"]}' in table
    assert 'Day = FORMAT([Departed], "dddd")' in sections[("Port Calls", "Day")]


def test_files_indented_by_spaces_and_with_other_line_ends_read_the_same() -> None:
    spaced = TMDL.expandtabs(2).replace("\t", "  ")
    assert told(spaced, "tmdl")[0].aliases == told(TMDL, "tmdl")[0].aliases
    assert told(TMDL.replace("\n", "\r\n"), "tmdl") == told(TMDL, "tmdl")


def test_direct_lake_tables_and_shared_expressions_are_read() -> None:
    text = (
        "table Fact\n\tpartition Fact = entity\n\t\tmode: directLake\n\t\tsource\n\t\t\tentityName: Fact_Calls\n"
        '\t\t\tschemaName: dbo\n\nexpression Server = "warehouse" meta [IsParameterQuery=true]\n'
    )
    definition, sections = told(text, "tmdl")
    assert definition.sql_names == ("dbo.fact_calls",)
    assert "warehouse" in sections[("Server",)]


@pytest.mark.parametrize(
    "text", ["", "relationship 1\n\tfromColumn: A.b\n\ttoColumn: C.d\n", "model Model\n\tculture: en"]
)
def test_other_files_of_a_model_stay_code(text: str) -> None:
    assert definition_of(text, "tmdl") is None


def test_a_tree_nested_without_end_is_read() -> None:
    deep = read_tmdl("\n".join("\t" * n + f"table T{n}" for n in range(2000)))
    assert sum(1 for _ in deep.every()) == 2000


BIM: dict[str, Any] = {
    "model": {
        "tables": [
            {
                "name": "Calls",
                "description": ["Ships", "that called."],
                "columns": [{"name": "id", "description": "Number"}, {"name": "Late", "expression": "[id] > 3"}],
                "measures": [
                    {
                        "name": "Calls a day",
                        "expression": ["DIVIDE(", "  [Calls], [Days])"],
                        "formatString": "0",
                        "displayFolder": "KPI",
                    }
                ],
                "partitions": [{"source": {"type": "query", "query": "SELECT * FROM [dbo].[Calls] c"}}],
            },
            {"name": "Time", "calculationGroup": {"calculationItems": [{"name": "YTD", "expression": "1"}]}},
        ],
        "expressions": [{"name": "Rates", "expression": 'Source{[Schema="core",Item="Rates"]}[Data]'}],
    }
}


@pytest.mark.parametrize(
    "data", [BIM, {"createOrReplace": {"object": {}, "database": BIM}}, {"create": {"database": BIM}}]
)
def test_a_model_kept_as_json_is_told_like_one_in_tmdl(data: dict[str, Any]) -> None:
    definition, sections = told(json.dumps(data), "json")
    assert definition.sql_names == ("dbo.calls", "core.rates")
    assert "```dax\nCalls a day = DIVIDE(\n  [Calls], [Days])\n```" in sections[("Calls", "Calls a day")]
    assert "format 0, folder KPI" in sections[("Calls", "Calls a day")]
    assert sections[("Calls",)].startswith("Ships\nthat called.")
    assert ("Time", "YTD") in sections
    assert "measure:Calls[Calls a day]" in definition.aliases


def test_dax_files_are_told_definition_by_definition() -> None:
    text = (
        "// How full.\nDEFINE\n    MEASURE 'Port Calls'[Occupancy %] =\n        DIVIDE([a], [b]) -- MEASURE X[no] = 1\n"
        "    MEASURE Quays[Length] = SUM(Quays[m])\n\nEVALUATE\n  SUMMARIZECOLUMNS(Quays[name])\n"
    )
    definition, sections = told(text, "dax")
    assert "DIVIDE([a], [b])" in sections[("Port Calls", "Measure Occupancy %")]
    assert "SUM(Quays[m])" in sections[("Quays", "Measure Length")]
    assert "measure:no" not in definition.aliases
    assert "measure:Quays[Length]" in definition.aliases
    assert sections[("Query",)].endswith("EVALUATE\n  SUMMARIZECOLUMNS(Quays[name])\n```")


def test_a_plain_list_of_measures_is_told_one_by_one() -> None:
    text = (
        "-- Ships a day.\nCalls a day :=\nVAR n = [Calls]\nRETURN\n  DIVIDE(n,\nDays = 3)\n\n"
        "Share of calls = DIVIDE([Calls], CALCULATE([Calls], ALL(Quays)))\n"
    )
    found = statements(text)
    assert [(s.kind, s.name) for s in found] == [("measure", "Calls a day"), ("measure", "Share of calls")]
    assert found[0].text.startswith("-- Ships a day.")
    assert "\n".join(s.text for s in found).split() == text.split()


@pytest.mark.parametrize("text", ["", "EVALUATE Quays\n", "// nothing here\n", "SUM(x) == 3\n"])
def test_dax_that_names_nothing_stays_code(text: str) -> None:
    assert definition_of(text, "dax") is None


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('Source{[Schema="Core",Item="Rates"]}[Data]', ("core.rates",)),
        (
            'S{[Name="DB",Kind="Database"]}[Data]{[Name="sales",Kind="Schema"]}[Data]{[Name="Orders",Kind="View"]}[Data]',
            ("sales.orders",),
        ),
        (
            'Value.NativeQuery(S, "select ""a"" from core.orders o#(lf)join [dbo].[Rates] r on 1=1", null)',
            ("core.orders", "dbo.rates"),
        ),
        ('Sql.Database("srv", "db", [Query="with x as (select 1 from core.a) select * from x"])', ("core.a",)),
        ('/* {[Schema="a",Item="b"]} */ "from here"', ()),
    ],
)
def test_power_query_names_the_tables_that_it_reads(text: str, names: tuple[str, ...]) -> None:
    assert m_names(text) == names


MEASURE = {"Expression": {"SourceRef": {"Entity": "Port Calls"}}, "Property": "Occupancy %"}
VISUAL = {
    "$schema": "https://developer.microsoft.com/json-schemas/fabric/item/report/definition/visualContainer/1.0.0/schema.json",
    "name": "v1",
    "visual": {
        "visualType": "card",
        "query": {
            "queryState": {
                "Values": {"projections": [{"field": {"Measure": MEASURE}}, {"field": {"Measure": MEASURE}}]}
            }
        },
        "visualContainerObjects": {
            "title": [{"properties": {"text": {"expr": {"Literal": {"Value": "'Today''s quays'"}}}}}]
        },
    },
}
CONFIG = {
    "singleVisual": {
        "visualType": "lineChart",
        "prototypeQuery": {
            "From": [{"Name": "p", "Entity": "Port Calls"}],
            "Select": [
                {"Measure": {"Expression": {"SourceRef": {"Source": "p"}}, "Property": "Calls"}},
                {"Column": {"Expression": {"SourceRef": {"Source": "p"}}, "Property": "Day"}},
            ],
        },
    }
}
REPORT = {
    "sections": [
        {"displayName": "Week", "visualContainers": [{"config": json.dumps(CONFIG)}, {"config": "{"}, {"config": "{}"}]}
    ]
}


def test_a_visual_is_told_with_the_measures_that_it_shows() -> None:
    definition, sections = told(json.dumps(VISUAL), "json")
    assert sections == {("Today's quays",): "Visual of kind card.\n\nShows measures: Port Calls[Occupancy %]."}
    assert definition.attributes == {"measures": "Port Calls[Occupancy %]"}


def test_a_report_in_one_file_is_told_page_by_page() -> None:
    _, sections = told(json.dumps(REPORT), "json")
    assert sections == {
        ("Week", "Visual lineChart"): (
            "Visual of kind lineChart.\n\nShows measures: Port Calls[Calls].\n\nShows columns: Port Calls[Day]."
        )
    }


@pytest.mark.parametrize(
    "data", [{"model": 1}, {"model": {}}, {"sections": 3}, {"visual": {}}, {"create": 1}, 7, None, [1]]
)
def test_other_json_is_neither_model_nor_report(data: Any) -> None:
    assert definition_of(json.dumps(data), "json") is None
