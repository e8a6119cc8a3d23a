"""The generated organization: as large as it says, the same each time, and read by the connectors to its end."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benchmarks.organization import Organization, Size
from fixtures.sandbox.server import SandboxServer
from fixtures.sandbox.world import build_world
from ingestion.sync import RunReport
from tests.support.ingest_side import ingest_side, whole_read
from tests.support.postgres import PostgresServer

TINY = Size(projects=2, work_items=30, pages=10, repos=4, files=24, people=20, groups=8, nodes=24)


@pytest.fixture(scope="module")
def whole() -> dict[str, Any]:
    """The organization at scale 1."""
    return Organization(Size()).world


def test_the_same_seed_gives_the_same_organization_and_another_seed_another() -> None:
    one, again, other = (Organization(TINY, seed).world for seed in (7, 7, 8))
    assert one == again
    assert one != other


def test_at_scale_one_it_is_as_large_as_it_says(whole: dict[str, Any]) -> None:
    projects = list(whole["azure_devops"]["projects"].values())
    repos = [r for p in projects for r in p["repos"].values()]
    assert len(projects) == 20
    assert sum("deleted" not in x for p in projects for x in p["work_items"]) == 20_000
    assert sum("deleted" not in x for p in projects for w in p["wikis"].values() for x in w["pages"].values()) == 2_000
    assert len(repos) == 200
    assert sum(_files(r) for r in repos) == 10_000
    assert (len(whole["people"]), len(whole["groups"])) == (5_000, 800)
    nodes = [*projects, *repos, *(n for p in projects for kind in ("areas", "wikis") for n in p[kind].values())]
    assert sum("acl" in n for n in nodes) == 3_000
    assert any(g.startswith("group:") for x in whole["groups"].values() for g in x["members"])


def test_no_two_of_its_texts_are_the_same(whole: dict[str, Any]) -> None:
    texts = Counter(x["description"] for p in whole["azure_devops"]["projects"].values() for x in p["work_items"])
    assert texts.most_common(1)[0][1] == 1


def test_its_events_change_one_percent_of_each_kind(whole: dict[str, Any]) -> None:
    kinds = Counter(kind for event in whole["events"] for kind in event if kind not in ("id", "after"))
    named = Counter(
        str(change["item"]).partition(":")[0]
        for event in whole["events"]
        for change in event.values()
        if isinstance(change, dict) and "item" in change
    )
    assert kinds["set_acl"] == 30
    assert named["work_item"] == 200
    assert {"edit", "delete", "restore", "move", "rename", "add_member"} <= set(kinds)


def test_a_small_one_syncs_to_its_end_and_its_changes_lead_where_a_whole_read_leads(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    world = build_world(Organization(TINY).world)
    with SandboxServer(world, tmp_path, remember=False) as sandbox, ingest_side(sandbox, postgres) as side:
        first = side.sync()
        assert {r.state for r in first} == {"complete"}
        assert (_new(first, "work_items"), _new(first, "wikis")) == (30, 10)
        sandbox.apply(world.events[-1].id)
        assert side.settle() == []
        assert side.dump() == whole_read(sandbox, postgres)


def _new(reports: list[RunReport], reader: str) -> int:
    return next(r.counts["new"] for r in reports if r.reader == reader)


def _files(repo: dict[str, Any]) -> int:
    """Files at the head of the default branch, before the pull requests' branches."""
    present: set[str] = set()
    for commit in repo["commits"]:
        for path, content in commit["files"].items():
            present = present - {path} if content is None else present | {path}
    return len(present)
