"""What a run may be called, what vanishes, what is parked, and what the gate finds between index and record."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from core.access import WITHHELD, ScopeId
from core.items import Source
from graph.db import Database
from ingestion.connector import ItemDeleted, ItemMissing
from tests.graph.support import IRIS, asking
from tests.ingestion.scripted import ScriptedSide, scripted_side

A, B, C = "ctx://ado/o/wikis/w/pages/1", "ctx://ado/o/wikis/w/pages/2", "ctx://ado/o/wikis/v/pages/3"
W = "ctx://ado/o/wikis/w/"


@pytest.fixture
def side(ingest_db: Database, tmp_path: Path) -> Iterator[ScriptedSide]:
    with scripted_side(ingest_db, tmp_path / "index") as made:
        made.source.items = {A: "Apples.", B: "Bananas.", C: "Cherries."}
        yield made


def shown(side: ScriptedSide) -> set[str]:
    """What Iris is shown by the record."""
    trim = side.scopes.trim_for(asking(IRIS))
    return set(side.items.visible(trim, [A, B, C]))


def test_a_run_counts_what_it_did_and_keeps_what_its_checks_found(side: ScriptedSide) -> None:
    report = side.sync()
    assert report.state == "complete"
    assert report.counts == {"seen": 3, "new": 3, "embedded": 3}
    assert report.checks["passed"] is True
    assert report.checks["points"] == report.checks["expected_points"] == 3
    side.source.items[A] = "Apricots."
    assert side.sync().counts == {"seen": 1, "changed": 1, "embedded": 1}
    stored = next(r for r in side.runs.last() if r.reader == "wikis")
    assert (stored.state, stored.checks["points"]) == ("complete", 3)


def test_what_vanishes_is_withheld_at_once_and_deleted_when_it_is_missed_again(side: ScriptedSide) -> None:
    side.sync()
    del side.source.items[B]
    report = side.sync()
    assert (report.state, report.counts["missed"], report.counts.get("deleted")) == ("complete", 1, None)
    assert side.life(B) == "hidden"
    assert shown(side) == {A, C}
    # Its points match no search and weigh in no statistic, but its vectors are still there.
    assert side.indexed()[B] == WITHHELD
    report = side.sync()
    assert (report.state, report.counts["deleted"]) == ("complete", 1)
    assert side.life(B) == "deleted"
    assert side.indexed().keys() == {A, C}


def test_what_was_missed_once_and_is_back_is_read_again_and_shown_without_embedding(side: ScriptedSide) -> None:
    side.sync()
    text = side.source.items.pop(B)
    side.sync()
    side.source.items[B] = text
    embedded = side.embedder.texts
    report = side.sync()
    assert report.state == "complete"
    assert side.source.fetched == [B]
    assert shown(side) == {A, B, C}
    assert side.indexed()[B] == "open"
    assert side.embedder.texts == embedded
    # Missed again much later, it counts from the beginning.
    del side.source.items[B]
    side.sync()
    assert side.life(B) == "hidden"


def test_the_source_s_own_word_deletes_at_once_and_a_list_that_lacks_it_does_not(side: ScriptedSide) -> None:
    side.sync()
    side.source.extra = [ItemDeleted(A), ItemMissing(B)]
    del side.source.items[A], side.source.items[B]
    side.sync()
    assert (side.life(A), side.life(B), side.life(C)) == ("deleted", "hidden", "live")


def test_a_list_that_breaks_off_takes_nothing_away(side: ScriptedSide) -> None:
    side.sync()
    del side.source.items[B]
    side.source.list_breaks = True
    for _ in range(3):
        assert side.sync().state == "failed"
    assert shown(side) == {A, B, C}
    side.source.list_breaks, side.source.unlisted = False, True
    for _ in range(3):
        report = side.sync()
        assert (report.state, report.reason) == (
            "partial",
            "1 parts could not be listed, so nothing there was taken as gone",
        )
    assert shown(side) == {A, B, C}


def test_what_the_source_refuses_as_a_whole_is_withheld_for_as_long_and_never_deleted(side: ScriptedSide) -> None:
    side.sync()
    side.source.refused = {W}
    for _ in range(4):
        side.sync()
        assert shown(side) == {C}
        assert (side.life(A), side.life(B)) == ("hidden", "hidden")
    side.source.refused = set()
    side.runs.commit_checkpoint("scripted", "wikis", {"given": {C: "Cherries."}})
    embedded = side.embedder.texts
    assert side.sync().state == "complete"
    assert shown(side) == {A, B, C}
    assert side.embedder.texts == embedded


def test_a_failed_item_is_parked_with_its_reason_waits_longer_each_time_and_blocks_no_other(
    side: ScriptedSide,
) -> None:
    side.source.broken = {B}
    report = side.sync()
    assert (report.state, report.reason) == ("partial", "1 items failed and will be retried")
    assert report.counts["failed:the answer has an unexpected shape"] == 1
    assert shown(side) == {A, C}
    [parked] = side.runs.failures()
    assert (parked.uri, parked.attempts, parked.due_at) == (B, 1, None)
    side.sync()
    [parked] = side.runs.failures()
    assert parked.attempts == 2
    assert parked.due_at == side.clock.now() + timedelta(minutes=10)
    side.sync(after=timedelta(minutes=9))
    assert side.runs.failures()[0].attempts == 2
    side.sync(after=timedelta(minutes=1))
    assert side.runs.failures()[0].attempts == 3
    assert side.runs.failures()[0].due_at == side.clock.now() + timedelta(minutes=40)
    side.source.broken = set()
    assert side.runs.retry_now() == 1
    assert side.sync().state == "complete"
    assert side.runs.failures() == []
    assert shown(side) == {A, B, C}


def test_no_reader_runs_where_the_permissions_can_t_be_read(side: ScriptedSide) -> None:
    side.connector.access_fails = True
    report = side.sync()
    assert report.state == "blocked"
    assert report.reason is not None
    assert "the projects can't be listed" in report.reason
    assert side.items.uris(Source.WIKIS) == set()


def test_items_on_a_scope_without_permissions_block_a_run(side: ScriptedSide) -> None:
    side.source.in_scope = "elsewhere"
    report = side.sync()
    assert report.state == "blocked"
    assert report.reason == "3 items hang on a scope of which no permissions were read"
    assert shown(side) == set()


def test_a_point_that_got_lost_is_found_and_written_anew(side: ScriptedSide) -> None:
    side.sync()
    side.index.writer.delete_items([B])
    report = side.sync()
    assert report.state == "complete"
    assert side.indexed().keys() == {A, B, C}
    failed, good = [r for r in reversed(side.runs.recent(3)) if r.reader == "wikis"][-2:]
    assert (failed.state, failed.checks["differing"], failed.checks["passed"]) == ("failed", 1, False)
    assert failed.reason is not None
    assert B in failed.reason
    assert (good.state, good.checks["passed"]) == ("complete", True)


def test_points_without_a_record_are_removed(side: ScriptedSide) -> None:
    side.sync()
    with side.database.connection() as connection:
        connection.execute("DELETE FROM items WHERE uri IN (%s, %s)", [B, C])
    del side.source.items[B]
    report = side.sync()
    # The source still has one of them, although its checkpoint has moved past it: the whole list tells.
    assert side.indexed().keys() == {A, C}
    assert report.checks["passed"] is True


def test_a_point_with_an_old_rule_or_on_another_scope_is_found(side: ScriptedSide) -> None:
    side.sync()
    side.index.writer.move_item(A, ScopeId("open"), (), 7)
    side.index.writer.move_item(B, ScopeId("shut"), (IRIS,), 1)
    verdict = side.synchronizer._gate.check(Source.WIKIS)
    assert verdict.differing == (A, B)
    # Nobody is shown what differs until it is written anew.
    assert shown(side) == {C}
    side.synchronizer.repair()
    assert side.synchronizer._gate.check(Source.WIKIS).passed
    assert shown(side) == {A, B, C}


def test_chunks_that_an_item_does_not_name_are_found(side: ScriptedSide) -> None:
    side.sync()
    with side.database.connection() as connection:
        connection.execute(
            "INSERT INTO chunks (uri, ordinal, digest, heading, text, embedded_text, part_uris) "
            "VALUES (%s, 9, 'x', '{}', 'x', 'x', '{}')",
            [A],
        )
    report = side.sync()
    assert report.state == "failed"
    assert report.reason == "1 items have chunks that they do not name"


def test_a_kill_between_hiding_and_the_index_is_made_good(side: ScriptedSide) -> None:
    side.sync()
    side.items.hide(B, "404", side.clock.now())
    assert side.indexed()[B] == "open"
    assert side.items.not_withheld() == [B]
    side.synchronizer.repair()
    assert side.indexed()[B] == WITHHELD
    assert side.items.not_withheld() == []


def test_a_change_of_the_rule_does_not_bring_a_withheld_item_back_into_searches(side: ScriptedSide) -> None:
    side.sync()
    side.source.refused = {W}
    side.sync()
    side.index.writer.set_access(ScopeId("open"), [IRIS], 9)
    assert side.indexed()[A] == WITHHELD


def test_permissions_are_looked_at_between_the_batches_of_a_long_reader(side: ScriptedSide) -> None:
    side.source.per_batch = 1
    calls: list[int] = []
    side.sync(between=lambda: calls.append(len(side.items.uris(Source.WIKIS))))
    # Before the reader, after each of its three batches, and at the end.
    assert calls == [0, 1, 2, 3, 3]


def test_whole_lists_are_compared_now_and_then_and_sooner_where_something_is_missed(
    ingest_db: Database, tmp_path: Path
) -> None:
    with scripted_side(ingest_db, tmp_path / "index", reconcile_every=timedelta(hours=1)) as side:
        side.source.items = {A: "Apples.", B: "Bananas."}
        side.sync()
        assert side.source.listed == 1
        del side.source.items[B]
        side.sync()
        assert (side.source.listed, side.life(B)) == (1, "live")
        side.sync(after=timedelta(hours=1))
        assert (side.source.listed, side.life(B)) == (2, "hidden")
        side.sync()
        assert (side.source.listed, side.life(B)) == (3, "deleted")
        side.sync()
        assert side.source.listed == 3


def test_what_an_older_version_cut_otherwise_is_cut_anew_and_keeps_the_vectors_of_what_is_the_same(
    side: ScriptedSide,
) -> None:
    side.source.items = {A: "Apples.", B: " ".join(f"Word {n}." for n in range(90))}
    side.sync()
    cut = side.items.body(B)
    assert cut is not None
    assert len(cut[1]) > 1
    # As if an older version had made one chunk of it.
    side.items.replace_chunks(B, cut[1][:1])
    side.runs.commit_checkpoint("chunks", "wikis", {"chunking": 1})
    embedded = side.embedder.texts
    assert side.sync().state == "complete"
    again = side.items.body(B)
    assert again is not None
    assert again[1] == cut[1]
    assert side.embedder.texts == embedded
    assert len([p for p in side.index.writer.inventory(Source.WIKIS) if p.uri == B]) == len(cut[1])


def test_a_read_from_the_beginning_can_be_asked_for_and_embeds_nothing_again(side: ScriptedSide) -> None:
    side.sync()
    side.source.items[A] = "Apricots."
    side.runs.commit_checkpoint("scripted", "wikis", {"given": dict(side.source.items)})
    assert side.sync().counts.get("changed") is None
    side.synchronizer.forget_checkpoints(side.connector)
    assert side.sync().counts == {"seen": 3, "changed": 1, "unchanged": 2, "embedded": 1}


def test_a_run_that_is_repeated_for_the_gate_s_sake_is_no_second_look(side: ScriptedSide) -> None:
    side.sync()
    del side.source.items[B]
    side.index.writer.delete_items([A])
    # Time goes on between the two runs.
    report = side.sync(between=lambda: side.clock.move_to(side.clock.now() + timedelta(seconds=1)))
    assert report.state == "complete"
    assert len([r for r in side.runs.recent(9) if r.reader == "wikis"]) == 3
    assert side.life(B) == "hidden"
