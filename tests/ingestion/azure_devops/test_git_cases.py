"""Repos as they are: files that go, pushes by force, another default branch, empty, renamed and deleted repos."""

from __future__ import annotations

from typing import Any

import pytest

from core.errors import SourceGoneError
from fixtures.sandbox import state_additions as add
from fixtures.sandbox.refs import Ref
from ingestion.connector import ItemDeleted, ItemUpserted
from tests.ingestion.azure_devops.small_worlds import Serve, happen, read
from tests.ingestion.azure_devops.support import Store, connect, reader_of
from tests.sandbox.small import commit


def repo(*commits: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"repos": {"app": {"commits": list(commits)} | more}}


def names(store: Store) -> set[str]:
    """Paths of the files, and subjects of the commits."""
    return {i.attributes.get("path", "").strip("/") or i.title for i in store.items.values()}


def whole(store: Store, connector: Any) -> None:
    """Read on; where the checkpoint is no longer valid, from the beginning, as a sync does."""
    try:
        store.sync(connector, ["code"])
    except SourceGoneError:
        store.checkpoints.pop("code")
        store.sync(connector, ["code"])


def test_a_file_that_is_deleted_is_told_as_deleted_and_only_that_one(serve: Serve) -> None:
    """C039"""
    server = serve(project=repo(commit("one", a_md="# A\n", b_md="# B\n")))
    connector, store = connect(server), Store()
    store.sync(connector, ["code"])
    add.push(server.state, "app", {"b.md": None}, by="ann", message="Drop b")
    changes = [c for b in reader_of(connector, "code").read(store.checkpoints["code"]) for c in b.changes]
    assert [c.uri.rpartition("/")[2] for c in changes if isinstance(c, ItemDeleted)] == ["b.md"]
    assert [c.item.title for c in changes if isinstance(c, ItemUpserted)] == ["Drop b"]
    store.sync(connector, ["code"])
    assert "b.md" not in names(store)
    assert "a.md" in names(store)
    connector.close()


@pytest.mark.parametrize("forget", [False, True])
def test_after_a_push_by_force_what_was_thrown_away_is_gone(forget: bool, serve: Serve) -> None:
    server = serve(
        project=repo(commit("one", a_md="# A\n"), commit("two", b_md="# B\n"), commit("three", c_md="# C\n"))
    )
    connector, store = connect(server), Store()
    whole(store, connector)
    assert names(store) == {"a.md", "b.md", "c.md", "Commit one", "Commit two", "Commit three"}
    add.reset_branch(server.state, "app", 2, forget=forget)
    add.push(server.state, "app", {"d.md": "# D\n"}, by="ben", message="Another way")
    whole(store, connector)
    assert names(store) == {"a.md", "d.md", "Commit one", "Another way"}
    assert store.items == read(server, "code").items
    connector.close()


def test_another_default_branch_is_read_in_the_place_of_the_old_one(serve: Serve) -> None:
    server = serve(project=repo(commit("one", a_md="# A\n")))
    add.push(server.state, "app", {"new.md": "# N\n"}, by="ann", message="On a side", branch="next")
    connector, store = connect(server), Store()
    whole(store, connector)
    assert "new.md" not in names(store)
    add.set_default_branch(server.state, "app", "next")
    whole(store, connector)
    assert {"a.md", "new.md"} <= names(store)
    assert store.items == read(server, "code").items
    connector.close()


def test_a_repo_that_is_renamed_keeps_its_items_under_their_addresses(serve: Serve) -> None:
    server = serve(project=repo(commit("one", a_md="# A\n")))
    connector, store = connect(server), Store()
    whole(store, connector)
    before = set(store.items)
    happen(server, rename={"what": "repo:app", "to": "application"})
    whole(store, connector)
    assert set(store.items) == before
    assert {i.container for i in store.items.values()} == {"application"}
    assert all("/_git/application" in i.url for i in store.items.values())
    connector.close()


def test_a_repo_that_is_deleted_takes_its_items_and_its_code_wiki_with_it(serve: Serve) -> None:
    pages = {"Guide": {"revisions": [{"by": "ann", "at": "2026-02-02T09:00:00Z", "content": "The guide."}]}}
    wikis = {"Manual": {"kind": "code", "repo": "repo:app", "path": "/docs", "pages": pages}}
    server = serve(project=repo(commit("one", a_md="# A\n")) | {"wikis": wikis})
    connector, store = connect(server), Store()
    store.sync(connector)
    assert {i.kind.value for i in store.items.values()} == {"file", "commit", "wiki_page"}
    happen(server, delete={"item": "repo:app"})
    store.sync(connector)
    assert store.items == {}
    happen(server, "2d", restore={"item": "repo:app"})
    store.sync(connector)
    assert {i.kind.value for i in store.items.values()} == {"file", "commit", "wiki_page"}
    connector.close()


def test_a_disabled_repo_and_one_whose_branch_is_not_there_stop_no_other(serve: Serve) -> None:
    repos = {
        "off": {"commits": [commit("one", a_md="# A\n")], "disabled": True},
        "empty": {"commits": [commit("side", x_md="# X\n") | {"branch": "side"}]},
        "on": {"commits": [commit("two", b_md="# B\n")]},
    }
    store = read(serve(project={"repos": repos}))
    assert names(store) == {"b.md", "Commit two"}
    assert store.failures == {}


def test_a_commit_names_its_work_items_and_its_pull_request(serve: Serve) -> None:
    text = "Merged PR 12: Fix the crane\n\nRelated work items: #4102, AB#7"
    server = serve(project=repo(commit("one", a_md="# A\n") | {"message": text}))
    (found,) = [i for i in read(server, "code").items.values() if i.kind == "commit"]
    links = {(x.rel, x.to.rpartition("small/")[2]) for x in found.links}
    repo_id = server.state.git("app").id
    assert links == {
        ("pull_request", f"repos/{repo_id}/pull-requests/12"),
        ("mentions", "work-items/4102"),
        ("mentions", "work-items/7"),
        ("touches", f"repos/{repo_id}/files/a.md"),
    }
    assert server.state.is_deleted(Ref("repo", ("app",))) is False
