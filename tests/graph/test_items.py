"""The life of an item in the record: written, hidden, outdated, deleted, brought back."""

from __future__ import annotations

from datetime import timedelta

import pytest

from core.items import Contribution, Item, Link, Part, PersonRef, Role, Source
from graph.db import Database
from graph.edges import EdgeStore
from graph.glossary import GlossaryEntry, GlossaryStore
from graph.records import ItemStore
from graph.supersession import Supersession, SupersessionStore
from tests.graph.support import IRIS, NOW, chunks_of, item, open_trim, scope_store, store

A, B = "ctx://ado/org/wikis/w/pages/1", "ctx://ado/org/wikis/w/pages/2"
SOON = NOW + timedelta(minutes=1)


HANGING = ("chunks", "item_aliases", "links", "edges", "glossary", "supersessions")


def left_of(db: Database, uri: str) -> dict[str, int]:
    """Rows that hang on an item, by table."""
    counts = {}
    with db.connection() as connection:
        for table in HANGING:
            row = connection.execute(f"SELECT count(*) AS n FROM {table} WHERE uri = %s", [uri]).fetchone()
            assert row is not None
            counts[table] = row["n"]
    return {table: n for table, n in counts.items() if n}


@pytest.fixture
def items(ingest_db: Database) -> ItemStore:
    return ItemStore(ingest_db)


def everything(uri: str = A) -> Item:
    return item(
        uri,
        parts=(
            Part(uri=uri, text="body", heading=("One", "Two"), author=PersonRef("Iris", IRIS), at=NOW),
            Part(uri=f"{uri}/comments/1", text="comment", author=PersonRef("Someone"), language="sql"),
        ),
        author=PersonRef("Iris", IRIS),
        owner=PersonRef("Team"),
        validated_at=NOW,
        state="active",
        container="Project/Wiki",
        number="4711",
        label="internal",
        contributions=(Contribution(person=PersonRef("Iris", IRIS), role=Role.WROTE, at=NOW, note="n"),),
        links=(Link(to=B, rel="see"), Link(to="https://example.org/x", rel="see")),
        aliases=("Alias", "https://example.org/a?b=1&a=2#f"),
        deprecated=True,
        replaced_by=("Page Two",),
        attributes={"k": "v"},
    )


def test_an_item_comes_back_from_the_record_as_it_went_in(items: ItemStore) -> None:
    given = everything()
    items.upsert(given, chunks_of(given), at=NOW)
    assert items.body(A) == (given, chunks_of(given))
    assert items.digest_of(A) == (given.digest, "open")


def test_an_item_is_seen_only_from_when_the_index_holds_it(items: ItemStore, ingest_db: Database) -> None:
    trim = open_trim(ingest_db, "open")
    first, second = item(A, text="first"), item(A, text="second", version="2")
    items.upsert(first, chunks_of(first), at=NOW)
    assert items.visible(trim, [A]) == {}
    assert list(items.not_indexed()) == [A]
    items.record_indexed(A, first.digest)
    assert items.visible(trim, [A])[A].chunk_digests == (chunks_of(first)[0].digest,)
    assert list(items.not_indexed()) == []
    items.upsert(second, chunks_of(second), at=NOW)
    assert items.visible(trim, [A]) == {}
    # What was indexed is no longer what the record holds.
    items.record_indexed(A, first.digest)
    assert items.visible(trim, [A]) == {}
    items.record_indexed(A, second.digest)
    assert items.visible(trim, [A])[A].digest == second.digest


def test_the_same_item_again_writes_nothing(items: ItemStore) -> None:
    given = everything()
    first = items.upsert(given, chunks_of(given), at=NOW)
    again = items.upsert(given, chunks_of(given), at=SOON)
    assert (first.new, first.changed_content, first.scope_changed) == (True, True, False)
    assert (again.new, again.changed_content, again.scope_changed) == (False, False, False)


def test_a_move_changes_the_scope_and_the_epoch_but_no_content(items: ItemStore, ingest_db: Database) -> None:
    trim = open_trim(ingest_db, "open")
    store(items, item(A))
    epoch = scope_store(ingest_db).epoch()
    moved = items.upsert(item(A, "shut", version="2"), (), at=NOW)
    assert (moved.new, moved.changed_content, moved.scope_changed) == (False, False, True)
    assert items.visible(trim, [A]) == {}
    assert scope_store(ingest_db).epoch() > epoch
    assert list(items.not_indexed()) == [A]
    body = items.body(A)
    assert body is not None
    assert body[0].scope == "shut"
    assert len(body[1]) == 1


@pytest.mark.parametrize("order", [(8, 7), (7, 8), (8, 8, 8), (7, 8, 7), (8, 7, 8)])
def test_whatever_the_order_of_events_the_highest_revision_stands(items: ItemStore, order: tuple[int, ...]) -> None:
    states = {
        7: item(A, "open", version="7", title="old title"),
        8: item(A, "payroll", version="8", title="new title"),
    }
    for revision in order:
        items.upsert(states[revision], chunks_of(states[revision]), at=NOW)
    body = items.body(A)
    assert body is not None
    assert (body[0].version, body[0].title, body[0].scope) == ("8", "new title", "payroll")


def test_revisions_are_compared_as_numbers(items: ItemStore) -> None:
    items.upsert(item(A, version="10", text="ten"), (), at=NOW)
    assert items.upsert(item(A, version="9", text="nine"), (), at=NOW).outdated
    assert not items.upsert(item(A, version="11", text="eleven"), (), at=NOW).outdated


def test_versions_without_an_order_are_compared_by_time(items: ItemStore) -> None:
    items.upsert(item(A, version="c0ffee", text="new"), (), at=NOW)
    old = item(A, version="beef", text="old", modified_at=NOW - timedelta(days=3))
    assert items.upsert(old, (), at=NOW).outdated
    # Read again later it is the truth: the branch was reset.
    assert items.upsert(old, (), at=SOON).changed_content


def test_a_deletion_stands_against_a_late_older_revision(items: ItemStore, ingest_db: Database) -> None:
    trim = open_trim(ingest_db, "open")
    store(items, item(A, version="8"))
    assert items.tombstone([A], at=NOW, reason="deleted", version="9") == 1
    for late in ("8", "9"):
        assert items.upsert(item(A, version=late, text="late"), (), at=SOON).outdated
    store(items, item(A, version="8", text="late"))
    assert items.visible(trim, [A]) == {}
    assert items.digest_of(A) is None
    store(items, item(A, version="10"))
    assert items.visible(trim, [A]).keys() == {A}


def test_a_deletion_without_a_version_stands_against_what_was_there(items: ItemStore) -> None:
    store(items, item(A, version="8"))
    items.tombstone([A], at=NOW, reason="deleted", deleted_at=NOW)
    assert items.upsert(item(A, version="8"), (), at=SOON).outdated
    assert items.upsert(item(A, version="9", modified_at=NOW - timedelta(hours=1)), (), at=SOON).outdated
    assert items.upsert(item(A, version="9", modified_at=SOON), (), at=SOON).new


def test_a_deletion_that_overtakes_the_creation_stands_too(items: ItemStore) -> None:
    assert items.tombstone([A], at=NOW, reason="deleted", version="9") == 0
    assert items.upsert(item(A, version="8"), (), at=SOON).outdated
    assert items.upsert(item(A, version="10"), (), at=SOON).new


def test_what_was_only_concluded_to_be_gone_comes_back_at_the_same_version(items: ItemStore) -> None:
    store(items, item(A, version="8"))
    items.tombstone([A], at=NOW, reason="no longer listed", stated=False)
    assert items.upsert(item(A, version="7"), (), at=SOON).outdated
    assert items.upsert(item(A, version="8"), (), at=SOON).new
    items.tombstone([A], at=NOW, reason="no longer listed", stated=False)
    items.tombstone([A], at=SOON, reason="deleted")
    assert items.upsert(item(A, version="8"), (), at=SOON).outdated


def test_a_file_that_is_added_again_comes_back(items: ItemStore) -> None:
    store(items, item(A, version="aaaa"))
    items.tombstone([A], at=NOW, reason="deleted")
    assert items.upsert(item(A, version="aaaa"), (), at=SOON).outdated
    again = item(A, version="bbbb", modified_at=NOW - timedelta(days=30))
    assert items.upsert(again, (), at=NOW).outdated
    assert items.upsert(again, (), at=SOON).new


def test_nothing_that_hung_on_a_deleted_item_is_left(items: ItemStore, ingest_db: Database) -> None:
    epoch = scope_store(ingest_db).epoch()
    given = everything()
    store(items, given, item(B))
    entry = GlossaryEntry(term="CSR", key="csr", meaning="M", meaning_key="m", quote="q", at=None, method="stated")
    GlossaryStore(ingest_db).replace(A, [entry])
    row = Supersession(old_uri=A, new_uri=B, kind="mined", confidence=0.5, quote="q")
    SupersessionStore(ingest_db).replace(A, [row])
    assert left_of(ingest_db, A).keys() == set(HANGING)
    items.tombstone([A, A, "ctx://never/there"], at=NOW, reason="deleted")
    assert left_of(ingest_db, A) == {}
    # What derives late must not bring anything back.
    GlossaryStore(ingest_db).replace(A, [entry])
    SupersessionStore(ingest_db).replace(A, [row])
    EdgeStore(ingest_db).replace(A, given.contributions)
    assert left_of(ingest_db, A) == {}
    with ingest_db.connection() as connection:
        tombstone = connection.execute("SELECT * FROM items WHERE uri = %s", [A]).fetchone()
    assert tombstone is not None
    assert "body" not in str({k: v for k, v in tombstone.items() if k != "body"})
    assert (tombstone["title"], tombstone["url"], tombstone["body"], tombstone["author"]) == ("", "", None, None)
    assert items.uris(Source.WIKIS) == {B}
    assert items.body(A) is None
    assert scope_store(ingest_db).epoch() > epoch


def test_a_deletion_that_has_not_reached_the_index_is_not_forgotten(items: ItemStore) -> None:
    store(items, item(A), item(B))
    items.tombstone([A], at=NOW, reason="deleted")
    assert list(items.not_indexed()) == [A]
    items.record_removed([A, B])
    assert list(items.not_indexed()) == []
    items.forget_index()
    assert list(items.not_indexed()) == [B]


def test_a_hidden_item_is_seen_by_nobody_until_it_is_read_again(items: ItemStore, ingest_db: Database) -> None:
    trim = open_trim(ingest_db, "open")
    epoch = scope_store(ingest_db).epoch()
    store(items, item(A))
    items.hide(A, "404", NOW)
    assert items.visible(trim, [A]) == {}
    assert items.full(trim, A) is None
    assert items.uris(Source.WIKIS) == {A}
    assert scope_store(ingest_db).epoch() > epoch
    again = items.upsert(item(A), chunks_of(item(A)), at=SOON)
    assert not again.changed_content
    assert items.visible(trim, [A]).keys() == {A}


def test_a_nul_sinks_neither_an_item_nor_its_neighbours(items: ItemStore, ingest_db: Database) -> None:
    trim = open_trim(ingest_db, "open")
    odd = item(
        B,
        text="kai\x007 open\x0b",
        title="kai\x00 7",
        attributes={"k\x00": "v\x00"},
        aliases=("a\x00b",),
        contributions=(Contribution(person=PersonRef("I\x00ris"), role=Role.WROTE, at=None, note="\x00"),),
        links=(Link(to="https://example.org/\x00", rel="see"),),
        number="1\x00",
    )
    store(items, *[item(f"{A}{n}") for n in range(49)], odd)
    assert len(items.visible(trim, items.uris(Source.WIKIS))) == 50
    found = items.full(trim, B)
    assert found is not None
    row, text = found
    assert (row.title, row.attributes, text) == ("kai 7", {"k": "v"}, "kai7 open\x0b")
    # Built again from the record, it counts as indexed under the digest of what the record holds.
    body = items.body(B)
    assert body is not None
    assert items.digest_of(B) != (body[0].digest, "open")
    items.forget_index()
    items.record_indexed(B, body[0].digest)
    assert items.visible(trim, [B]).keys() == {B}


def test_a_version_that_says_nothing_new_is_kept_wherever_the_item_is(items: ItemStore) -> None:
    items.upsert(item(A, version="1"), (), at=NOW)
    assert not items.upsert(item(A, version="2"), (), at=NOW).changed_content
    body = items.body(A)
    assert body is not None
    assert body[0].version == "2"
