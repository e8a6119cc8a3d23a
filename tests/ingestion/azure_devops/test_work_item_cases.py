"""Work items as real organizations have them: namesakes, holes, ceilings, late news."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.items import Role
from fixtures.sandbox.server import SandboxServer
from fixtures.sandbox.state_additions import add_comment
from ingestion.connector import Failure, ItemDeleted, ItemUpserted
from tests.ingestion.azure_devops.canned import base_table, listed, organization
from tests.ingestion.azure_devops.small_worlds import ORG, Serve, edit, happen, read
from tests.ingestion.azure_devops.support import Store, connect, reader_of
from tests.sandbox.small import item, person, stamp, world

ITEMS = f"{ORG}/work-items"


# --- fields


def test_tags_are_a_clean_list(serve: Serve) -> None:
    server = serve(item(1, tags=["pay ", "New", "pay"]), item(2))
    store = read(server, "work_items")
    assert store.items[f"{ITEMS}/1"].attributes["tags"] == "pay; New"
    assert "tags" not in store.items[f"{ITEMS}/2"].attributes


def test_two_people_with_one_name_are_told_apart_and_a_bare_name_is_nobody(serve: Serve) -> None:
    """C030"""
    people = {"m1": person("Marek Zielony", upn="marek1@x.example"), "m2": person("Marek Zielony", upn="m2@x.example")}
    server = serve(
        item(4102, assigned="m2", created=stamp("m1"), description="Ask Marek Zielony", fields={"Custom.Ask": "Marek"}),
        people=people,
        groups={},
    )
    found = read(server, "work_items").items[f"{ITEMS}/4102"]
    who = {c.role: c.person.principal for c in found.contributions}
    tenant = server.state.tenant_id
    assert who[Role.ASSIGNED] == f"user:{tenant}/{server.state.oid('m2')}"
    assert who[Role.WROTE] == f"user:{tenant}/{server.state.oid('m1')}"
    assert {c.role for c in found.contributions} == {Role.WROTE, Role.ASSIGNED}


def test_entities_in_html_and_in_markdown_are_undone_once_by_the_format_that_each_field_declares(serve: Serve) -> None:
    server = serve(
        item(1, description="<p>a &lt; b &amp;amp; c</p>", format="html"),
        item(2, description="a &gt; b, <b>kept</b>", format="markdown"),
    )
    store = read(server, "work_items")
    texts = {n: store.items[f"{ITEMS}/{n}"].parts[0].text for n in (1, 2)}
    assert "a < b" in texts[1].replace("\\", "")
    assert "&amp;" in texts[1].replace("\\", "")
    assert "a > b" in texts[2]


def test_values_that_are_null_and_people_in_every_form_are_read() -> None:
    row = {
        "id": 7,
        "rev": 1,
        "fields": {
            "System.Title": "Crane",
            "System.TeamProject": "Fjordline",
            "System.AreaPath": "Fjordline",
            "System.AreaId": None,
            "System.State": None,
            "System.Tags": [{"name": "eu"}, {"name": "tax"}, {"name": "EU"}],
            "System.CreatedBy": "Ida Moe <ida@nimbus.example>",
            "System.AssignedTo": "Ida Moe",
            "System.ChangedBy": None,
            "System.CreatedDate": "2031-02-03T10:11:12.13Z",
            "System.Description": None,
            "System.CommentCount": 0,
            "Custom.Empty": None,
            "Custom.Owner": {"displayName": "Ida Moe", "descriptor": None, "id": None},
        },
        "relations": None,
    }
    table = {r"/_apis/wit/workitemsbatch": listed(row), r"/_apis/wit/fields": listed(), **base_table()}
    with organization(table) as connector:
        (change,) = reader_of(connector, "work_items").fetch(["ctx://ado/novaruud/work-items/7"])
    assert isinstance(change, ItemUpserted)
    found = change.item
    assert (found.author and found.author.name, found.author and found.author.principal) == ("Ida Moe", None)
    assert [p.text for p in found.parts] == ["- Owner: Ida Moe"]
    assert found.attributes == {"project": "Fjordline", "tags": "eu; tax"}
    assert found.state is None
    assert {(c.role, c.person.principal) for c in found.contributions} == {(Role.WROTE, None), (Role.ASSIGNED, None)}


def test_people_who_are_mentioned_are_looked_up_together_and_once(serve: Serve) -> None:
    server = serve(item(1), item(2), item(3))
    key = {p: server.state.ids.storage_key("person", p) for p in ("ann", "ben", "cat", "gil")}
    html = f'<p>Ask <a href="#" data-vss-mention="version:2.0,{key["ben"].upper()}">@Ben</a></p>'
    edit(server, 1, "1d", description=html)
    edit(server, 2, "1d", description=f"Ask @<{key['cat']}> and @<{'0' * 8}-{'0' * 4}-{'0' * 4}-{'0' * 4}-{'0' * 12}>")
    add_comment(server.state, 3, "ann", f"@<{key['gil']}> knows")
    connector, store = connect(server), Store()
    store.sync(connector, ["work_items"])

    def told(number: int) -> set[str | None]:
        found = store.items[f"{ITEMS}/{number}"].contributions
        return {c.person.principal for c in found if c.role is Role.MENTIONED}

    users = {p: f"user:{server.state.tenant_id}/{server.state.oid(p)}" for p in key}
    assert (told(1), told(2), told(3)) == ({users["ben"]}, {users["cat"]}, {users["gil"]})
    assert connector.traffic.requests["identities"] == 2  # those in the fields of the batch, those in a comment
    assert "data-vss-mention" not in store.items[f"{ITEMS}/1"].parts[0].text
    connector.close()


# --- order, holes, ceilings


def test_an_older_revision_never_overwrites_a_newer_one(serve: Serve) -> None:
    """C035: whatever tells us of an item, what is read is the item as it is now."""
    server = serve(item(4105, title="old title"))
    connector, store = connect(server), Store()
    reader = reader_of(connector, "work_items")
    store.sync(connector, ["work_items"])
    first = dict(store.checkpoints["work_items"])
    edit(server, 4105, "1d", title="middle title")
    edit(server, 4105, "2d", title="new title")
    for _ in range(3):
        # The same news twice, and news of long ago.
        for batch in reader.read(first):
            store.take(reader, batch)
        assert store.items[f"{ITEMS}/4105"].title == "new title"
        assert store.items[f"{ITEMS}/4105"].version == "3"
    happen(server, "3d", delete={"item": "work_item:4105"})
    for batch in reader.read(first):
        store.take(reader, batch)
    assert store.items == {}
    connector.close()


def test_what_changes_within_the_same_second_is_read_and_what_did_not_change_is_not(serve: Serve) -> None:
    """C042: nothing is paged by date, so there is no precision of a date to be wrong about. The feed's own token
    says where to go on: a change in the same day, second or millisecond comes after it, and what came before does not.
    """
    server = serve(item(1), item(2))
    connector, store = connect(server), Store()
    reader = reader_of(connector, "work_items")
    store.sync(connector, ["work_items"])
    for title in ("first", "second"):
        edit(server, 1, "1d", title=title)  # the clock stands still between the two
        changes = [c for b in reader.read(store.checkpoints["work_items"]) for c in b.changes]
        assert [c.item.uri for c in changes if isinstance(c, ItemUpserted)] == [f"{ITEMS}/1"]
        store.drain(reader)
        assert store.items[f"{ITEMS}/1"].title == title
    assert not [path for path in server.faults.seen if "ChangedDate" in path]
    connector.close()


def test_a_deleted_child_leaves_its_parent_alone_and_is_known_to_be_deleted(serve: Serve) -> None:
    """C071"""
    server = serve(item(13, links=[{"rel": "child", "to": "work_item:670"}]), item(670))
    connector = connect(server)
    happen(server, delete={"item": "work_item:670"})
    changes = list(reader_of(connector, "work_items").fetch([f"{ITEMS}/13", f"{ITEMS}/670", f"{ITEMS}/671"]))
    by_uri = {c.item.uri if isinstance(c, ItemUpserted) else c.uri: c for c in changes}  # type: ignore[union-attr]
    assert isinstance(by_uri[f"{ITEMS}/13"], ItemUpserted)
    gone = by_uri[f"{ITEMS}/670"]
    assert isinstance(gone, ItemDeleted)
    assert gone.at == datetime(2026, 3, 3, 9, tzinfo=UTC)
    # Neither there nor in the recycle bin: hidden, not deleted.
    unknown = by_uri[f"{ITEMS}/671"]
    assert isinstance(unknown, Failure)
    assert unknown.hide
    connector.close()


def test_more_items_than_one_query_may_find_are_all_listed(tmp_path: Path) -> None:
    """C044, with a ceiling of 40 in the place of 20,000"""
    from fixtures.sandbox.azure_devops import Limits
    from ingestion.azure_devops import work_items

    numbers = [*range(1, 60), *range(200, 230)]
    made = world({"work_items": [item(n) for n in numbers]})
    with SandboxServer(made, tmp_path, remember=False, azure_devops=Limits(wiql=40)) as server:
        connector = connect(server)
        reader = reader_of(connector, "work_items")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(work_items, "WIQL_MOST", 39)
            found = list(reader.present() or ())
        assert sorted(found) == sorted(f"{ITEMS}/{n}" for n in numbers)
        connector.close()


@pytest.mark.parametrize("bins", ["organization", "all"])
def test_a_recycle_bin_that_holds_too_many_is_never_taken_for_an_empty_one(bins: str, serve: Serve) -> None:
    """C044: nothing is deleted and nothing restored by it; the feed tells of both as well."""
    server = serve(item(1), item(2), item(3))
    connector, store = connect(server), Store()
    happen(server, delete={"item": "work_item:3"})
    store.sync(connector, ["work_items"])
    before = store.checkpoints["work_items"]["bin"]
    path = r"/ado/[^/]+/_apis/wit/recyclebin$" if bins == "organization" else r".*/_apis/wit/recyclebin$"
    server.faults.fail(path, status=400, times=None)
    happen(server, "2d", delete={"item": "work_item:2"})
    store.sync(connector, ["work_items"])
    assert set(store.items) == {f"{ITEMS}/1"}
    assert store.failures == {}
    assert store.checkpoints["work_items"]["bin"] == ([2, 3] if bins == "organization" else before)
    connector.close()


def test_the_bins_of_projects_that_may_not_be_read_are_not_opened(serve: Serve) -> None:
    server = serve(item(1))
    read(server, "work_items", projects=("P",))
    asked = [path for path in server.faults.seen if path.lower().endswith("/recyclebin")]
    assert len(asked) == 1
    assert server.state.project_id("P") in asked[0]
