"""Reconciliation holds the source's list, the record and the index against each other; rules and points meet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from core.access import WITHHELD, ScopeId
from core.index.port import IndexPoint
from core.items import Source
from core.principals import Principal
from graph.db import Database
from graph.inventory import Expected
from tests.graph.support import IRIS, TEO, allow, asking, scope
from tests.ingestion.scripted import ScriptedSide, scripted_side

A, B, C = "ctx://ado/o/wikis/w/pages/1", "ctx://ado/o/wikis/w/pages/2", "ctx://ado/o/wikis/v/pages/3"


@pytest.fixture
def side(ingest_db: Database, tmp_path: Path) -> Iterator[ScriptedSide]:
    # So long that only what asks for a comparison makes one.
    with scripted_side(ingest_db, tmp_path / "index", reconcile_every=timedelta(days=99)) as made:
        made.source.items = {A: "Apples.", B: "Bananas."}
        made.sync()
        yield made


def shown(side: ScriptedSide) -> set[str]:
    return set(side.items.visible(side.scopes.trim_for(asking(IRIS)), [A, B, C]))


def test_what_no_feed_told_of_is_fetched(side: ScriptedSide) -> None:
    checkpoint = side.runs.checkpoint("scripted", "wikis")
    assert checkpoint is not None
    side.source.items[C] = "Cherries."
    # The feed takes the page as told already, and so never gives it.
    side.runs.commit_checkpoint("scripted", "wikis", {"given": {**checkpoint["given"], C: "Cherries."}})
    assert side.sync().counts == {}
    report = side.synchronizer.reconcile(side.connector, side.source)
    assert (report.reader, report.state) == ("wikis/reconcile", "complete")
    assert (report.counts["absent"], report.counts["new"]) == (1, 1)
    assert shown(side) == {A, B, C}


def test_what_is_left_out_on_purpose_is_asked_for_once(side: ScriptedSide) -> None:
    side.source.items[C] = "Cherries."
    side.source.broken = {C}
    side.runs.commit_checkpoint("scripted", "wikis", {"given": side.source.items})
    assert side.synchronizer.reconcile(side.connector, side.source).counts["absent"] == 1
    assert side.synchronizer.reconcile(side.connector, side.source).counts.get("absent") is None


def test_points_that_the_record_does_not_know_as_such_are_withheld_and_written_anew(side: ScriptedSide) -> None:
    side.index.writer.delete_items([A])
    report = side.synchronizer.reconcile(side.connector, side.source)
    assert (report.state, report.checks["differing"]) == ("failed", 1)
    # Mended in the same pass: withheld first, and shown once the index holds it again.
    assert side.indexed().keys() == {A, B}
    assert shown(side) == {A, B}
    assert side.synchronizer.reconcile(side.connector, side.source).state == "complete"


def test_a_withheld_item_is_shown_to_nobody_at_once_and_back_when_it_is_read(side: ScriptedSide) -> None:
    assert side.synchronizer.withhold([A, C], "said to be deleted") == 1
    assert shown(side) == {B}
    assert side.indexed()[A] == WITHHELD
    report = side.synchronizer.read_items(side.connector, side.source, [A])
    assert (report.reader, report.state, report.counts["restored"]) == ("wikis/hints", "complete", 1)
    assert shown(side) == {A, B}


def test_a_rule_that_changes_while_points_are_written_is_theirs_in_the_end(side: ScriptedSide) -> None:
    """The rewrite of a scope may pass before the points of an item on its way in are there."""
    writer = side.index.writer
    real = writer.replace_item

    def late(uri: str, points: Sequence[IndexPoint]) -> None:
        if points[0].allowed == (IRIS,):
            change(TEO)
        real(uri, points)

    def change(who: Principal) -> None:
        side.scopes.apply("scripted", [scope("open", allow(who))], complete=True, at=side.clock.now())
        side.synchronizer.write_access()

    writer.replace_item = late  # type: ignore[method-assign]
    side.source.items[C] = "Cherries."
    report = side.synchronizer.sync_reader(side.connector, side.source)
    assert report.state == "complete"
    assert report.checks["passed"] is True
    assert {p.acl_version for p in writer.inventory(side.source.source)} == {2}
    assert shown(side) == set()


def test_a_rule_on_its_way_to_the_index_fails_the_run_and_withholds_nothing(side: ScriptedSide) -> None:
    side.scopes.apply("scripted", [scope("open", allow(IRIS, TEO))], complete=True, at=side.clock.now())
    report = side.synchronizer.sync_reader(side.connector, side.source)
    assert (report.state, report.checks["pending_scopes"], report.checks["differing"]) == ("failed", 1, 0)
    assert shown(side) == {A, B}
    # What else is wrong there is found and withheld all the same.
    side.index.writer.move_item(A, ScopeId("elsewhere"), (IRIS,), 1)
    assert side.synchronizer.sync_reader(side.connector, side.source).checks["differing"] == 1
    assert shown(side) == {B}
    side.synchronizer.repair()
    assert side.synchronizer.sync_reader(side.connector, side.source).state == "complete"
    assert shown(side) == {A, B}


def test_rules_that_change_and_are_rewritten_while_the_gate_looks_withhold_nothing(
    side: ScriptedSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = side.synchronizer._gate
    wanted = gate._inventory.expected
    changes = iter([(IRIS, TEO), (IRIS,)])

    def while_looking(source: Source) -> Iterator[Expected]:
        if (who := next(changes, None)) is not None:
            side.scopes.apply("scripted", [scope("open", allow(*who))], complete=True, at=side.clock.now())
            side.synchronizer.write_access()
        return wanted(source)

    monkeypatch.setattr(gate._inventory, "expected", while_looking)
    report = side.synchronizer.sync_reader(side.connector, side.source)
    assert (report.state, report.checks["differing"]) == ("failed", 0)
    assert shown(side) == {A, B}
    assert side.synchronizer.sync_reader(side.connector, side.source).state == "complete"


def test_memberships_alone_leave_the_rules_as_they_are(side: ScriptedSide) -> None:
    report = side.synchronizer.sync_memberships(side.connector)
    assert (report.reader, report.state) == ("memberships", "complete")
    assert shown(side) == {A, B}
    read_at = side.scopes.ages()["scripted"]
    side.clock.move_to(side.clock.now() + timedelta(minutes=6))
    side.synchronizer.sync_memberships(side.connector)
    # Rules are as old as they were, so they shut in spite of it.
    assert side.scopes.ages()["scripted"] == read_at
    assert shown(side) == set()
