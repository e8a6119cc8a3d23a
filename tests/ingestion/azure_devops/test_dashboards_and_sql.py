"""A dashboard leads from its panel to the query and the view behind it."""

from __future__ import annotations

import pytest

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
