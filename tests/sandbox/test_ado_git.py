"""Repositories, items, objects, commits and differences, as the SDK and plain REST read them."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from azure.devops.v7_1.git.models import (
    GitBaseVersionDescriptor,
    GitQueryCommitsCriteria,
    GitTargetVersionDescriptor,
    GitVersionDescriptor,
)

from tests.sandbox.ado import POINTER, Rest

APP = "/P/_apis/git/repositories/app"


@pytest.fixture(scope="module")
def git(clients: Any) -> Any:
    return clients.get_git_client()


@pytest.fixture(scope="module")
def shas(rest: Rest) -> dict[str, str]:
    """The id of each commit by its message's last word."""
    found: dict[str, str] = {}
    for branch in ("main", "topic"):
        rows = rest.get(f"{APP}/commits", **{"searchCriteria.itemVersion.version": branch})["value"]
        found |= {row["comment"].split()[-1]: row["commitId"] for row in rows}
    return found


def at(sha: str) -> dict[str, str]:
    return {"versionDescriptor.version": sha, "versionDescriptor.versionType": "commit"}


# --- repositories and refs


def test_repositories_are_listed_disabled_ones_too_and_hidden_ones_on_demand(git: Any, rest: Rest) -> None:
    found = {repo.name: repo for repo in git.get_repositories("P")}
    assert set(found) == {"app", "off", "empty"}
    assert (found["app"].default_branch, found["app"].is_disabled) == ("refs/heads/main", False)
    assert found["off"].is_disabled is True
    assert found["empty"].default_branch is None
    assert {repo.name for repo in git.get_repositories(include_hidden=True)} == {*found, "P.wiki"}
    assert found["app"].web_url == "https://dev.azure.com/Small/P/_git/app"
    assert rest.get(APP)["sensitivityLabel"] == "Secret"
    assert git.get_repository(found["app"].id).name == "app"


def test_the_content_of_a_disabled_repository_is_refused(rest: Rest) -> None:
    status, _, message = rest.refused("/P/_apis/git/repositories/off/commits")
    assert (status, message[:8]) == (403, "TF401027")
    assert rest.get("/P/_apis/git/repositories/off")["isDisabled"] is True


def test_an_empty_repository_has_no_commits_and_no_items(rest: Rest) -> None:
    assert rest.get("/P/_apis/git/repositories/empty/commits")["value"] == []
    assert rest.refused("/P/_apis/git/repositories/empty/items", scopePath="/")[0] == 404


def test_refs_come_in_pages(git: Any, rest: Rest, shas: dict[str, str]) -> None:
    pages = rest.header_pages(f"{APP}/refs", filter="heads/", **{"$top": 1})
    assert [[row["name"] for row in rows] for rows in pages] == [["refs/heads/main"], ["refs/heads/topic"]]
    assert pages[1][0]["objectId"] == shas["much"]
    assert [ref.name for ref in git.get_refs("app", "P", filter_contains="top")] == ["refs/heads/topic"]


# --- items


def test_a_whole_tree_is_listed_with_folders_and_metadata(git: Any, rest: Rest) -> None:
    rows = {row["path"]: row for row in rest.get(
        f"{APP}/items", scopePath="/", recursionLevel="full", includeContentMetadata=True)["value"]}  # fmt: skip
    assert {"/", "/README.md", "/src", "/src/deep", "/src/deep/a.py", "/src/new.py", "/logo.png"} <= set(rows)
    assert "/src/old.py" not in rows
    assert (rows["/src"]["gitObjectType"], rows["/src"]["isFolder"]) == ("tree", True)
    assert rows["/README.md"]["objectId"] == hashlib.sha1(b"blob 6\0# App\n").hexdigest()
    assert rows["/logo.png"]["contentMetadata"]["isBinary"] is True
    assert rows["/README.md"]["contentMetadata"]["encoding"] == 65001
    assert len({row["commitId"] for row in rows.values()}) == 1
    found = git.get_items("app", "P", scope_path="/src", recursion_level="oneLevel")
    assert {item.path for item in found} == {"/src", "/src/big.bin", "/src/deep", "/src/new.py"}


def test_a_version_can_be_a_branch_or_a_commit(git: Any, rest: Rest, shas: dict[str, str]) -> None:
    def content(**version: str) -> str:
        found = git.get_item(
            "app", "/src/deep/a.py", "P", include_content=True, version_descriptor=GitVersionDescriptor(**version)
        )
        return str(found.content)

    assert content(version="topic", version_type="branch") == "a = 2\n"
    assert content(version="main", version_type="branch") == "a = 1\n"
    assert content(version=shas["much"], version_type="commit") == "a = 2\n"
    old = rest.get(f"{APP}/items", path="/src/old.py", includeContent=True, **at(shas["c1"]))
    assert (old["content"], old["commitId"]) == ("print('hello')\n", shas["c1"])


def test_what_is_not_there_is_told_by_its_code(rest: Rest) -> None:
    assert rest.refused(f"{APP}/items", path="/nope.md")[2].startswith("TF401174")
    version = {"versionDescriptor.version": "nope"}
    assert rest.refused(f"{APP}/items", path="/README.md", **version)[2].startswith("TF401175")
    assert rest.refused(f"{APP}/commits/{'0' * 40}")[0] == 404
    assert rest.refused(f"{APP}/blobs/{'0' * 40}")[2].startswith("TF401035")


def test_bytes_come_without_a_word_on_json_and_pointers_stay_pointers(git: Any, rest: Rest) -> None:
    raw = rest.client.get(f"{APP}/items?path=/logo.png", headers={"Accept": "application/octet-stream"})
    assert raw.content == b"\x89PNG\x00\x01"
    assert raw.headers["content-type"] == "application/octet-stream"
    assert rest.client.get(f"{APP}/items?path=/README.md", headers={"Accept": "*/*"}).text == "# App\n"
    assert b"".join(git.get_item_content("app", "/src/big.bin", "P", resolve_lfs=True)).decode() == POINTER
    assert b"".join(git.get_item_text("app", "/README.md", "P")) == b"# App\n"


def test_blobs_and_trees_are_found_by_their_ids(git: Any, rest: Rest) -> None:
    items = {row["path"]: row for row in rest.get(f"{APP}/items", recursionLevel="full")["value"]}
    assert git.get_blob("app", items["/README.md"]["objectId"], "P").size == 6
    assert b"".join(git.get_blob_content("app", items["/README.md"]["objectId"], "P")) == b"# App\n"
    tree = git.get_tree("app", items["/src"]["objectId"], "P", recursive=True)
    assert "deep/a.py" in [entry.relative_path for entry in tree.tree_entries]
    root = git.get_commit(rest.get(f"{APP}/refs")["value"][0]["objectId"], "app", "P").tree_id
    assert root == items["/"]["objectId"]
    assert {entry.relative_path for entry in git.get_tree("app", root, "P").tree_entries} >= {"src", "README.md"}


# --- commits


def test_commits_are_newest_first_and_paged(git: Any, rest: Rest) -> None:
    every = [c.comment for c in git.get_commits("app", GitQueryCommitsCriteria(), "P")]
    assert [c for c in every if c.startswith("Commit")] == ["Commit c3", "Commit c2", "Commit c1"]
    one = rest.get(f"{APP}/commits", **{"searchCriteria.$top": 1, "searchCriteria.$skip": 1})["value"]
    assert [row["comment"] for row in one] == [every[1]]
    assert rest.get(f"{APP}/commits", **{"$top": 100, "$skip": 100})["value"] == []


@pytest.mark.parametrize(
    ("criteria", "found"),
    [
        ({"item_path": "/src/old.py"}, ["c3", "c1"]),
        ({"item_path": "/src/old.py", "exclude_deletes": True}, ["c1"]),
        ({"author": "Ben Baker"}, ["c2"]),
        ({"from_date": "2026-01-04T00:00:00Z", "to_date": "2026-01-06T00:00:00Z"}, ["c2"]),
    ],
)
def test_commits_are_found_by_criteria(git: Any, criteria: dict[str, Any], found: list[str]) -> None:
    commits = git.get_commits("app", GitQueryCommitsCriteria(**criteria), "P")
    assert [c.comment.split()[-1] for c in commits if c.comment.startswith("Commit")] == found


def test_a_long_message_is_cut_in_lists_and_whole_alone(git: Any, rest: Rest, shas: dict[str, str]) -> None:
    rows = rest.get(f"{APP}/commits", **{"searchCriteria.itemVersion.version": "topic"})["value"]
    assert (rows[0]["commentTruncated"], len(rows[0]["comment"])) == (True, 255)
    whole = git.get_commit(rows[0]["commitId"], "app", "P", change_count=5)
    assert whole.comment.endswith("much")
    assert whole.push.pushed_by.display_name == "Ben Baker"
    assert len(whole.parents) == 1
    assert [change.as_dict()["change_type"] if hasattr(change, "as_dict") else change["changeType"]
            for change in whole.changes] == ["edit"]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _whole_shas(rest: Rest, shas: dict[str, str]) -> None:
    """The cut message of the topic's commit ends in the middle; give it its name."""
    rows = rest.get(f"{APP}/refs", filter="heads/topic")["value"]
    shas["much"] = rows[0]["objectId"]


def test_a_move_is_told_as_a_rename_and_new_folders_as_folders(git: Any, rest: Rest, shas: dict[str, str]) -> None:
    rows = rest.get(f"{APP}/commits/{shas['c3']}/changes")
    assert [(r["item"]["path"], r["changeType"], r["originalPath"]) for r in rows["changes"]] == [
        ("/src/new.py", "rename", "/src/old.py")
    ]
    assert rows["changeCounts"] == {"Rename": 1}
    made = {r["item"]["path"]: r for r in rest.get(f"{APP}/commits/{shas['c1']}/changes")["changes"]}
    assert (made["/src"]["changeType"], made["/src"]["item"]["isFolder"]) == ("add", True)
    assert len(rest.get(f"{APP}/commits/{shas['c1']}/changes", top=1, skip=1)["changes"]) == 1
    assert git.get_changes(shas["c1"], "app", "P").change_counts == {"Add": 4}


def test_the_work_items_of_a_commit_can_be_asked_for(rest: Rest, shas: dict[str, str]) -> None:
    rows = rest.get(f"{APP}/commits", **{"searchCriteria.includeWorkItems": True})["value"]
    assert [i["id"] for r in rows if r["commitId"] == shas["c2"] for i in r["workItems"]] == ["1"]


# --- differences and pushes


def test_a_difference_comes_in_pages_until_all_is_included(rest: Rest, shas: dict[str, str]) -> None:
    query = {
        "baseVersion": shas["c1"], "baseVersionType": "commit", "targetVersion": shas["c3"],
        "targetVersionType": "commit", "diffCommonCommit": False, "$top": 2,
    }  # fmt: skip
    rows: list[Any] = []
    while True:
        body = rest.get(f"{APP}/diffs/commits", **query, **{"$skip": len(rows)})
        rows += body["changes"]
        if body["allChangesIncluded"]:
            break
    assert {(r["item"]["path"], r["changeType"]) for r in rows if not r["item"].get("isFolder")} == {
        ("/src/big.bin", "add"), ("/src/deep/a.py", "add"), ("/src/new.py", "rename"),
    }  # fmt: skip
    assert (body["aheadCount"], body["behindCount"], body["targetCommit"]) == (2, 0, shas["c3"])


def test_a_difference_starts_at_the_common_commit_unless_told_not_to(git: Any, shas: dict[str, str]) -> None:
    def paths(common: bool) -> set[str]:
        found = git.get_commit_diffs(
            "app", "P", diff_common_commit=common,
            base_version_descriptor=GitBaseVersionDescriptor(base_version=shas["much"], base_version_type="commit"),
            target_version_descriptor=GitTargetVersionDescriptor(target_version="main", target_version_type="branch"),
        )  # fmt: skip
        return {change["item"]["path"] for change in found.changes}

    assert "/src/deep/a.py" in paths(False)
    assert "/src/deep/a.py" not in paths(True)


def test_a_base_that_is_gone_is_refused(rest: Rest, shas: dict[str, str]) -> None:
    query = {"baseVersion": "f" * 40, "baseVersionType": "commit", "targetVersion": "main"}
    assert rest.refused(f"{APP}/diffs/commits", **query)[0] == 404


def test_pushes_tell_who_brought_what_and_where_refs_stood(git: Any, rest: Rest, shas: dict[str, str]) -> None:
    criteria = {"searchCriteria.refName": "refs/heads/topic", "searchCriteria.includeRefUpdates": True, "$top": 1}
    push = rest.get(f"{APP}/pushes", **criteria)["value"][0]
    assert push["pushedBy"]["displayName"] == "Ben Baker"
    assert push["refUpdates"][0]["newObjectId"] == shas["much"]
    first = rest.get(f"{APP}/pushes", **{"searchCriteria.includeRefUpdates": True})["value"][-1]
    assert first["refUpdates"][0]["oldObjectId"] == "0" * 40
    one = git.get_push("app", push["pushId"], "P")
    assert [c.commit_id for c in one.commits] == [shas["much"]]
    assert [c.commit_id for c in git.get_push_commits("app", push["pushId"], "P")] == [shas["much"]]
    assert rest.refused(f"{APP}/pushes/5")[0] == 404
