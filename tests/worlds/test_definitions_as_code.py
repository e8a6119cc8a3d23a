"""Somebody looks at a Power BI visual or model and is led to its measure and to the view behind it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.embedding.port import Embedder
from tests.sandbox.small import commit, world
from tests.support.engines import LiveEngine, live_engine
from tests.support.postgres import PostgresServer

TMDL = (Path(__file__).parents[1] / "ingestion" / "azure_devops" / "inputs" / "port_calls.tmdl").read_text("utf-8")
VIEW = "CREATE OR ALTER VIEW analytics.vw_port_calls AS\nSELECT called_at, hours FROM core.berth_calls;\n"
VISUAL = {
    "$schema": "https://schemas.example/fabric/item/report/definition/visualContainer/1.0.0/schema.json",
    "visual": {
        "visualType": "card",
        "query": {
            "projections": [
                {
                    "field": {
                        "Measure": {"Expression": {"SourceRef": {"Entity": "Port Calls"}}, "Property": "Occupancy %"}
                    }
                }
            ]
        },
    },
}
MODEL, VISUAL_FILE, SQL = (
    "Port.SemanticModel/tables/Port Calls.tmdl",
    "Port.Report/visual.json",
    "sql/vw_port_calls.sql",
)
FILES = {
    MODEL: TMDL,
    VISUAL_FILE: json.dumps(VISUAL),
    SQL: VIEW,
    "README.md": "# Ships\n\nNothing about quays.\n",
}


@pytest.fixture(scope="module")
def port(postgres: PostgresServer, embedder: Embedder) -> Iterator[LiveEngine]:
    project = {
        "acl": [{"to": "ann", "allow": ["read"]}],
        "repos": {"app": {"commits": [commit("one") | {"files": FILES}]}},
    }
    with live_engine(world(project), postgres, embedder) as engine:
        yield engine


def path_of(port: LiveEngine, question: str, **focus: str) -> dict[str, str]:
    """Title of each piece of evidence to why it is related."""
    bundle = port.ask("ann", {"question": question, "focus": focus} if focus else {"question": question})
    return {e["title"]: json.dumps(e) for e in bundle["evidence"]}


def test_a_measure_is_found_by_its_name_and_its_definition_is_shown(port: LiveEngine) -> None:
    bundle = port.ask("ann", "How is Occupancy % calculated?")
    first = bundle["evidence"][0]
    assert first["title"] == MODEL
    assert "DIVIDE(taken, [Quay Hours])" in first["snippet"]
    assert first["heading"][:2] == ["Port Calls", "Occupancy %"]


def test_a_model_in_focus_leads_to_the_view_that_its_table_reads(port: LiveEngine) -> None:
    found = path_of(port, "Where does this come from?", file=f"app/{MODEL}")
    assert "reads analytics.vw_port_calls" in found[SQL]


def test_a_visual_in_focus_leads_to_the_measure_that_it_shows(port: LiveEngine) -> None:
    found = path_of(port, "Where does this come from?", file=f"app/{VISUAL_FILE}")
    assert "shows Port Calls[Occupancy %]" in found[MODEL]
