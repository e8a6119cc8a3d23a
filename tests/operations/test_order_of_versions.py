"""Whatever order versions and deletions arrive in, and however often, the newest word of the source stands."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import permutations
from pathlib import Path

import pytest

from core.items import Source
from graph.db import Database
from ingestion.connector import Change, ItemDeleted, ItemUpserted
from tests.graph.support import IRIS, NOW, asking, item
from tests.ingestion.scripted import ScriptedSide, scripted_side


def at(version: int) -> datetime:
    """When a version came about."""
    return NOW + timedelta(minutes=version)


def updated(uri: str, version: int) -> Change:
    """A version of an item, with a text of its own."""
    return ItemUpserted(item(uri, text=f"Text {version}.", version=str(version), modified_at=at(version)))


def deleted(uri: str, version: int) -> Change:
    """The item's deletion, which came about as its next version would have."""
    return ItemDeleted(uri, at(version))


@pytest.fixture
def side(ingest_db: Database, tmp_path: Path) -> Iterator[ScriptedSide]:
    with scripted_side(ingest_db, tmp_path / "index", reconcile_every=timedelta(days=365)) as made:
        made.sync()  # nothing yet; from now on no list is compared, so that only what arrives counts
        yield made


def arrive(side: ScriptedSide, *changes: Change) -> None:
    """Each change comes with a sync of its own."""
    for change in changes:
        side.source.extra = [change]
        side.sync()
    side.source.extra = []


def shown(side: ScriptedSide, uri: str) -> str | None:
    """The text that a reader is shown; None where it is shown nothing."""
    trim = side.scopes.trim_for(asking(IRIS))
    found = side.items.full(trim, uri)
    return found[1].strip() if found is not None else None


def test_an_older_version_never_replaces_a_newer_one(side: ScriptedSide) -> None:
    """C035: 7 after 8, and 8 again and again."""
    for n, order in enumerate(sorted(set(permutations((7, 8, 8))))):
        uri = f"ctx://ado/o/wikis/w/pages/{n}"
        arrive(side, *(updated(uri, version) for version in order))
        assert shown(side, uri) is not None, order
        assert "Text 8." in str(shown(side, uri)), order
    assert len(list(side.index.writer.inventory(Source.WIKIS))) == 3


def test_what_was_deleted_stays_so_whatever_older_word_of_it_comes_late(side: ScriptedSide) -> None:
    """C034, C035: the deletion is version 9; a poll that began before it still shows 7 and 8."""
    for n, order in enumerate(permutations((7, 8, 9))):
        uri = f"ctx://ado/o/wikis/w/pages/{n}"
        arrive(side, *(deleted(uri, v) if v == 9 else updated(uri, v) for v in order))
        assert side.life(uri) == "deleted", order
        assert shown(side, uri) is None, order
        arrive(side, deleted(uri, 9), updated(uri, 8))
        assert shown(side, uri) is None, order
    assert list(side.index.writer.inventory(Source.WIKIS)) == []


def test_what_was_restored_comes_back_with_its_next_version(side: ScriptedSide) -> None:
    """C035: a later version than the deletion is a new word of the source."""
    uri = "ctx://ado/o/wikis/w/pages/1"
    arrive(side, updated(uri, 8), deleted(uri, 9), updated(uri, 10))
    assert "Text 10." in str(shown(side, uri))


def test_a_deletion_that_was_only_concluded_gives_way_to_the_same_version_read_again(side: ScriptedSide) -> None:
    uri = "ctx://ado/o/wikis/w/pages/1"
    sha = ItemUpserted(item(uri, text="As it was.", version="c0ffee", modified_at=at(1)))
    arrive(side, sha, ItemDeleted(uri, stated=False))
    assert shown(side, uri) is None
    arrive(side, sha)
    assert "As it was." in str(shown(side, uri))
    assert [p.uri for p in side.index.writer.inventory(Source.WIKIS)] == [uri]
