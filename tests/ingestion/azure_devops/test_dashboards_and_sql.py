"""A dashboard leads from its panel to the query and the view behind it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingestion.azure_devops.dashboards import Panel
from ingestion.azure_devops.file_item import definition_of
from ingestion.azure_devops.grafana import read_dashboard
from ingestion.azure_devops.sql_names import defined_names, used_names

BOARD = {
    "uid": "abc",
    "title": "Quays",
    "description": "How full they are.",
    "tags": ["port"],
    "templating": {"list": [{"name": "quay", "type": "query", "query": "select quay from core.quays"}]},
    "panels": [
        {"id": 3, "title": "Ships", "type": "stat", "targets": [{"rawSql": "SELECT 1 FROM berth_calls"}]},
        {
            "id": 10,
            "type": "row",
            "title": "Occupancy",
            "panels": [
                {
                    "id": 12,
                    "title": "Occupancy (%)",
                    "type": "gauge",
                    "fieldConfig": {"defaults": {"unit": "percent"}},
                    "targets": [{"expr": "sum(rate(x[5m]))"}, {"hide": True}, None],
                }
            ],
        },
    ],
}


def test_panels_inside_rows_are_told_with_their_queries() -> None:
    board = read_dashboard(BOARD)
    assert board is not None
    assert [(p.id, p.title, p.row) for p in board.panels] == [("3", "Ships", ""), ("12", "Occupancy (%)", "Occupancy")]
    assert board.aliases == ("grafana:abc", "grafana:abc/3", "grafana:abc/12")
    assert "```promql\nsum(rate(x[5m]))\n```" in board.panels[1].markdown()
    assert "unit percent" in board.panels[1].markdown()
    assert "select quay from core.quays" in board.overview()


def test_a_dashboard_wrapped_as_the_api_gives_it_is_read_too() -> None:
    board = read_dashboard({"dashboard": BOARD, "meta": {}})
    assert board is not None
    assert board.uid == "abc"


def panels_of(*panels: Any, **more: Any) -> list[Panel]:
    """Panels of a dashboard, as they are told."""
    board = read_dashboard({"title": "Board", "panels": list(panels), **more})
    assert board is not None
    return list(board.panels)


def test_rows_hold_the_panels_that_follow_them_or_that_lie_in_them() -> None:
    found = panels_of(
        {"id": 1, "type": "stat", "title": "Above"},
        {"id": 2, "type": "row", "title": "Open", "panels": []},
        {"id": 3, "type": "stat", "title": "Below"},
        {"id": 4, "type": "row", "title": "Shut", "panels": [{"id": 5, "type": "stat", "title": "Inside"}]},
    )
    assert [(p.id, p.row) for p in found] == [("1", ""), ("3", "Open"), ("5", "Shut")]


def test_old_dashboards_keep_panels_in_rows() -> None:
    board = read_dashboard({"title": "Old", "rows": [{"title": "Row", "panels": [{"id": 7, "title": "Ships"}]}]})
    assert board is not None
    assert [(p.id, p.title, p.row) for p in board.panels] == [("7", "Ships", "Row")]


def test_a_library_panel_is_told_by_its_name_and_by_its_model_where_the_file_holds_it() -> None:
    model = {"type": "gauge", "title": "", "targets": [{"rawSql": "select 1 from core.calls"}]}
    used = {"id": 4, "gridPos": {}, "libraryPanel": {"uid": "lib", "name": "Quay gauge"}}
    (alone,) = panels_of(used)
    assert (alone.title, alone.queries) == ("Quay gauge", ())
    assert "Library panel Quay gauge." in alone.markdown()
    (whole,) = panels_of(used, __elements={"lib": {"name": "Quay gauge", "model": model}})
    assert (whole.id, whole.title, whole.kind) == ("4", "Quay gauge", "gauge")
    assert [q.text for q in whole.queries] == ["select 1 from core.calls"]


def test_data_sources_tell_the_language_and_stand_with_the_panel() -> None:
    (panel,) = panels_of(
        {
            "id": 1,
            "type": "timeseries",
            "datasource": {"type": "datasource", "uid": "-- Mixed --"},
            "targets": [
                {"datasource": {"type": "loki", "uid": "logs"}, "expr": '{app="gate"}'},
                {"datasource": {"type": "mssql", "uid": "warehouse"}, "rawSql": "select 1"},
                {"datasource": {"type": "azure-monitor", "uid": "az"}, "azureLogAnalytics": {"query": "T | count"}},
                {"datasource": {"type": "__expr__", "uid": "__expr__"}, "type": "math", "expression": "$A / $B"},
                {"datasource": {"type": "cloudwatch", "uid": "cw"}, "namespace": "AWS/SQS", "metricName": "Age"},
                {"refId": "E", "hide": True},
            ],
        }
    )
    assert [(q.language, q.text) for q in panel.queries] == [
        ("logql", '{app="gate"}'),
        ("sql", "select 1"),
        ("", "T | count"),
        ("", "$A / $B"),
        ("", "namespace: AWS/SQS\nmetricName: Age"),
    ]
    assert panel.markdown().startswith("Panel 1, timeseries, data source logs and warehouse and az and cw.")


def test_what_a_panel_says_besides_its_queries_is_told() -> None:
    words, html = panels_of(
        {"id": 1, "type": "text", "options": {"mode": "markdown", "content": "Ask **Pieter** first."}},
        {"id": 2, "type": "text", "options": {"mode": "html", "content": "<ul><li>one</li></ul>"}},
    )
    assert "Ask **Pieter** first." in words.markdown()
    assert "- one" in html.markdown()
    steps = [{"color": "green", "value": None}, {"color": "red", "value": 80}]
    (panel,) = panels_of(
        {
            "id": 3,
            "type": "stat",
            "fieldConfig": {"defaults": {"thresholds": {"steps": steps}}},
            "transformations": [{"id": "calculateField", "options": {"alias": "share"}}, {"id": "merge"}],
            "links": [{"title": "Runbook", "url": "https://wiki.example/run"}],
            "alert": {"name": "Full", "message": "Call the gate."},
        }
    )
    text = panel.markdown()
    assert "Thresholds: red at 80." in text
    assert 'Transformation calculateField: `{"alias": "share"}`.\n\nTransformation merge.' in text
    assert "[Runbook](https://wiki.example/run)" in text
    assert "Alert Full. Call the gate." in text


def test_dashboards_as_newer_apis_write_them_are_read() -> None:
    classic = {
        "apiVersion": "v1beta1",
        "kind": "Dashboard",
        "metadata": {"name": "uid1"},
        "spec": BOARD | {"uid": None},
    }
    board = read_dashboard(classic)
    assert board is not None
    assert board.aliases[:2] == ("grafana:uid1", "grafana:uid1/3")
    query = {"kind": "DataQuery", "group": "prometheus", "spec": {"expr": "up"}}
    element = {
        "kind": "Panel",
        "spec": {
            "id": 9,
            "title": "Up",
            "data": {"spec": {"queries": [{"kind": "PanelQuery", "spec": {"query": query}}]}},
            "vizConfig": {"group": "stat", "spec": {"fieldConfig": {"defaults": {"unit": "short"}}}},
        },
    }
    spec = {"title": "New", "elements": {"panel-9": element, "odd": 3}}
    board = read_dashboard({"kind": "Dashboard", "metadata": {"name": "n"}, "spec": spec})
    assert board is not None
    assert [(p.id, p.kind, p.unit, p.queries[0].language) for p in board.panels] == [("9", "stat", "short", "promql")]


def test_a_variable_s_query_may_be_an_object() -> None:
    variables = [
        {"name": "q", "type": "query", "query": {"query": "select 1 from core.quays"}},
        {"name": "c", "type": "custom"},
    ]
    board = read_dashboard({"title": "B", "panels": [{"type": "stat"}], "templating": {"list": variables}})
    assert board is not None
    assert board.definition().sql_names == ("core.quays",)


WORDS = (
    "title panels rows targets type spec kind elements model tables measures libraryPanel datasource sections visual"
    " options partitions source links alert"
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | st.sampled_from(["row", "text", "x", "Dashboard"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(WORDS.split()),
            inner,
            max_size=4,
        )
    ),
    max_leaves=25,
)


@settings(max_examples=300, deadline=None)
@given(JSON)
def test_no_json_breaks_the_reading_of_definitions(data: Any) -> None:
    for shape in (data, {"title": "T", "panels": [data]}, {"model": {"tables": [data]}}, {"sections": [data]}):
        definition_of(json.dumps(shape), "json")


@pytest.mark.parametrize("text", ["{", "[]", "3", '{"panels": [1], "title": "x"}', '{"title": "x"}', "[" * 100_000])
def test_other_json_is_no_dashboard(text: str) -> None:
    assert definition_of(text, "json") is None


def test_views_that_a_script_defines_and_tables_that_it_reads_are_told_apart() -> None:
    sql = """
    -- create view not.this; select from nor.this
    CREATE OR REPLACE VIEW "analytics"."V_Value" AS
    WITH orders AS (SELECT 'from nothing.here' FROM core.orders o), more (a) AS (SELECT 1 FROM [dbo].[Rates])
    SELECT * FROM orders JOIN more USING (a) LEFT JOIN lateral unnest(x) ON true
    """
    assert defined_names(sql) == ("analytics.v_value",)
    assert used_names(sql) == ("core.orders", "dbo.rates")


def test_materialized_views_and_bare_names_are_found() -> None:
    sql = "create materialized view if not exists vw_x as select * from berth_calls c join vessels v on true"
    assert defined_names(sql) == ("vw_x",)
    assert used_names(sql) == ("berth_calls", "vessels")


def test_a_list_of_columns_after_a_table_is_no_call() -> None:
    sql = "insert into core.deductions (a, b) select x from core.raw r join generate_series(1, 2) g on true"
    assert used_names(sql) == ("core.deductions", "core.raw")


@pytest.mark.parametrize(
    ("sql", "defined", "used"),
    [
        (
            "CREATE OR ALTER VIEW [dbo].[Order Values] AS SELECT * FROM [dbo].[Order Details]",
            "dbo.order values",
            "dbo.order details",
        ),
        ("ALTER VIEW dbo.v AS SELECT 1 FROM db.dbo.t", "dbo.v", "db.dbo.t"),
        (
            "create secure view v as with q as materialized (select 1 from x), r as (select 2 from q) select * from r",
            "v",
            "x",
        ),
        ("select * from core.t x, core.u as y, w where x.i = y.i", "", "core.t core.u w"),
        ("select extract(year from called_at), trim(both ' ' from name) from calls", "", "calls"),
        ("select 1 from t where x is distinct from y", "", "t"),
        ("select '--', 'it''s from nowhere' from t -- from u\n/* from w */ join d using (id)", "", "t d"),
        ("delete from t using u where t.i = u.i", "", "t u"),
        ("select f(x, y) from t, generate_series(1, 2) g", "", "t"),
        ("create table if not exists t (id int references core.u (id))", "t", "core.u"),
        ("", "", ""),
    ],
)
def test_names_are_found_in_every_dialect(sql: str, defined: str, used: str) -> None:
    assert defined_names(sql) == tuple([defined] if defined else [])
    assert " ".join(used_names(sql)) == used


def test_a_dbt_model_defines_its_file_s_name_and_reads_what_it_refers_to() -> None:
    sql = (
        "{{ config(materialized='view') }}\n{# from nothing #}\nwith o as (select * from {{ ref('stg_orders') }})\n"
        "select * from o join {{ source('core', 'partners') }} p using (id)\n"
        "{% if is_incremental() %} where at > (select max(at) from {{ this }}) {% endif %}"
    )
    assert defined_names(sql, "/models/mart/partner_value.sql") == ("partner_value",)
    assert used_names(sql) == ("stg_orders", "core.partners")
    assert defined_names("select 1 from a", "/q.sql") == ()
