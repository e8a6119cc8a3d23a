"""Sync state: how runs ended, where readers go on, what failed"""

from __future__ import annotations

from datetime import timedelta

import pytest

from core.clock import FixedClock
from core.items import Source
from graph.db import Database
from graph.runs import RunStore
from tests.graph.support import NOW


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(NOW)


@pytest.fixture
def runs(ingest_db: Database, clock: FixedClock) -> RunStore:
    return RunStore(ingest_db, clock=clock)


def test_a_run_that_was_cut_short_shows_as_running(runs: RunStore) -> None:
    runs.start("azure_devops", "work_items")
    [run] = runs.last()
    assert (run.source, run.reader, run.state, run.finished_at) == ("azure_devops", "work_items", "running", None)


def test_the_last_run_of_each_reader_is_told(runs: RunStore, clock: FixedClock) -> None:
    first = runs.start("teams", "messages", Source.TEAMS)
    runs.finish(first, "complete", None, {"new": 3})
    clock.advance(timedelta(hours=1))
    second = runs.start("teams", "messages", Source.TEAMS)
    runs.finish(second, "failed", "the source said \x00no", {})
    runs.start("azure_devops", "access")
    assert [(r.reader, r.state, r.reason, r.counts) for r in runs.last()] == [
        ("access", "running", None, {}),
        ("messages", "failed", "the source said no", {}),
    ]
    assert [r.id for r in runs.last("teams")] == [second]
    assert runs.synced_at() == {Source.TEAMS: NOW}


def test_a_source_is_synced_as_of_the_slowest_of_its_readers(runs: RunStore, clock: FixedClock) -> None:
    runs.finish(runs.start("azure_devops", "files", Source.CODE), "complete", None, {})
    unfinished = runs.start("azure_devops", "commits", Source.CODE)
    runs.finish(runs.start("azure_devops", "wikis"), "partial", "one failed", {})
    assert runs.synced_at() == {}
    clock.advance(timedelta(hours=1))
    runs.finish(unfinished, "complete", None, {})
    assert runs.synced_at() == {Source.CODE: NOW}


def test_a_checkpoint_is_kept_for_each_reader(runs: RunStore) -> None:
    assert runs.checkpoint("teams", "messages") is None
    runs.commit_checkpoint("teams", "messages", {"link": "a\x00b", "pages": [1, 2]})
    runs.commit_checkpoint("teams", "other", {"link": "z"})
    assert runs.checkpoint("teams", "messages") == {"link": "ab", "pages": [1, 2]}
    runs.commit_checkpoint("teams", "messages", {"link": "c"})
    assert runs.checkpoint("teams", "messages") == {"link": "c"}


def test_a_failed_item_is_remembered_until_it_was_read(runs: RunStore) -> None:
    runs.fail("wikis", "ctx://a", "403", NOW)
    runs.fail("wikis", "ctx://a", "500", NOW + timedelta(hours=1))
    runs.fail("code", "ctx://b", "odd \x00 file", NOW)
    [failure] = runs.failures("wikis")
    assert (failure.uri, failure.reason, failure.first_at, failure.attempts) == ("ctx://a", "500", NOW, 2)
    assert [f.reason for f in runs.failures()] == ["500", "odd  file"]
    runs.clear_failures(["ctx://a"])
    assert runs.failures("wikis") == []


def test_the_query_plane_can_tell_how_fresh_sources_are(runs: RunStore, query_db: Database) -> None:
    runs.finish(runs.start("teams", "messages", Source.TEAMS), "complete", None, {})
    assert RunStore(query_db).synced_at() == {Source.TEAMS: NOW}
