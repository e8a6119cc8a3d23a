"""Where work items lie, and whether they are there: moves, areas that change, the recycle bin, deleted comments."""

from __future__ import annotations

from typing import Any

from fixtures.sandbox.state_additions import destroy_work_item
from ingestion.connector import ItemDeleted
from tests.ingestion.azure_devops.canned import base_table, listed, organization
from tests.ingestion.azure_devops.small_worlds import ORG, Serve, happen, read
from tests.ingestion.azure_devops.support import Store, connect, reader_of
from tests.sandbox.small import item

ITEMS = f"{ORG}/work-items"


def test_an_item_that_moves_to_a_project_that_is_not_read_is_gone_at_once(serve: Serve) -> None:
    two = {
        "organization": "Small",
        "projects": {"P": {"work_items": [item(1), item(2)]}, "Q": {"work_items": [item(3)]}},
    }
    server = serve(azure_devops=two)
    connector, store = connect(server, projects=("P",)), Store()
    store.sync(connector, ["work_items"])
    assert set(store.items) == {f"{ITEMS}/1", f"{ITEMS}/2"}
    happen(server, move={"item": "work_item:1", "to": "project:Q"})
    changes = [c for b in reader_of(connector, "work_items").read(store.checkpoints["work_items"]) for c in b.changes]
    assert [c.uri for c in changes if isinstance(c, ItemDeleted)] == [f"{ITEMS}/1"]
    store.sync(connector, ["work_items"])
    assert set(store.items) == {f"{ITEMS}/2"}
    happen(server, "2d", move={"item": "work_item:1", "to": "project:P"})
    store.sync(connector, ["work_items"])
    assert set(store.items) == {f"{ITEMS}/1", f"{ITEMS}/2"}
    connector.close()


def test_an_area_that_is_renamed_reaches_its_items_without_a_revision_of_theirs(serve: Serve) -> None:
    server = serve(item(1, "/Pay"), item(2), project={"areas": {"/Pay": {}}})
    connector, store = connect(server), Store()
    store.sync(connector, ["work_items"])
    versions = {u: i.version for u, i in store.items.items()}
    happen(server, rename={"what": "area:P/Pay", "to": "Payments"})
    store.sync(connector, ["work_items"])
    assert store.items[f"{ITEMS}/1"].container == "P/Payments"
    assert {u: i.version for u, i in store.items.items()} == versions
    assert store.items == read(server, "work_items").items
    connector.close()


def test_a_moved_item_stands_in_the_scope_of_its_new_area_at_the_next_read(serve: Serve) -> None:
    server = serve(item(1), project={"areas": {"/Closed": {}}})
    connector, store = connect(server), Store()
    store.sync(connector, ["work_items"])
    before = store.items[f"{ITEMS}/1"].scope
    happen(server, move={"item": "work_item:1", "to": "area:P/Closed"})
    store.sync(connector, ["work_items"])
    after = store.items[f"{ITEMS}/1"].scope
    assert before != after
    assert after in {s.id for s in connector.access().scopes if s.name == "P\\Closed"}
    connector.close()


def test_an_area_that_is_deleted_gives_its_items_to_another_without_a_revision_of_theirs() -> None:
    below = {"id": 8, "identifier": "n8", "name": "Old", "structureType": "area", "hasChildren": False}
    root = {"id": 7, "identifier": "n7", "name": "Fjordline", "structureType": "area", "hasChildren": True}
    tree = {**root, "children": [below]}
    fields = {"System.Title": "Crane", "System.TeamProject": "Fjordline", "System.AreaId": 8, "System.CommentCount": 0}
    row = {"id": 1, "rev": 1, "fields": fields}
    news = [{"id": 1, "rev": 1}]

    def feed(query: dict[str, Any]) -> dict[str, Any]:
        # The organization's feed tells of each revision once; a project's is read again from its beginning.
        rows = [] if query.get("continuationtoken") else news
        return {"values": rows, "continuationToken": "1;1;1", "isLastBatch": True}

    table = {
        r"/[^/]+/_apis/wit/classificationnodes": lambda _: listed(tree),
        r"(/[^/]+)?/_apis/wit/reporting/workitemrevisions": feed,
        r"/_apis/wit/workitemsbatch": listed(row),
        r"/_apis/wit/fields": listed(),
        r"/_apis/wit/recyclebin": listed(),
    }
    with organization({**base_table(), **table}) as connector:
        store, reader = Store(), reader_of(connector, "work_items")
        store.drain(reader)
        (before,) = store.items.values()
        assert before.container == "Fjordline/Old"
        tree, fields["System.AreaId"] = {**root, "hasChildren": False}, 7
        store.drain(reader)
        (after,) = store.items.values()
    assert (after.container, after.version) == ("Fjordline", "1")
    assert after.scope != before.scope


# --- recycle bin and comments


def test_an_item_that_is_destroyed_is_not_brought_back_by_the_bin_that_no_longer_holds_it(serve: Serve) -> None:
    server = serve(item(1), item(2))
    connector, store = connect(server), Store()
    store.sync(connector, ["work_items"])
    happen(server, delete={"item": "work_item:1"})
    store.sync(connector, ["work_items"])
    destroy_work_item(server.state, 1)
    store.sync(connector, ["work_items"])
    assert set(store.items) == {f"{ITEMS}/2"}
    assert store.failures == {}
    connector.close()


def test_a_comment_that_is_deleted_later_goes_and_comes_back_when_it_is_restored(serve: Serve) -> None:
    said = {"by": "ben", "at": "2026-02-03T09:00:00Z", "text": "It is locker 42"}
    server = serve(item(1, comments=[said]))
    connector, store = connect(server), Store()
    store.sync(connector, ["work_items"])

    def comments() -> list[str]:
        return [p.text for p in store.items[f"{ITEMS}/1"].parts if p.uri != f"{ITEMS}/1"]

    assert comments() == ["It is locker 42"]
    happen(server, delete={"item": "comment:1/1"})
    store.sync(connector, ["work_items"])
    assert comments() == []
    happen(server, "2d", restore={"item": "comment:1/1"})
    store.sync(connector, ["work_items"])
    assert comments() == ["It is locker 42"]
    connector.close()
