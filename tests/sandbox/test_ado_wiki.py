"""Wikis: tree, pages, batch of ids, and who wrote what in the repository behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from azure.devops.v7_1.wiki.models import WikiPagesBatchRequest

from fixtures.sandbox.server import SandboxServer
from tests.sandbox.ado import P, Rest, ado_world

NIGHT = "Run books/On-call: night"
NIGHT_FILE = "/Run-books/On%2Dcall%3A-night.md"
BASE = "/P/_apis/wiki/wikis/P.wiki"


def page_ids(rest: Rest) -> dict[str, int]:
    """The id of each page by path."""
    rows = rest.post(f"{BASE}/pagesbatch", {"top": 100})["value"]
    return {row["path"]: row["id"] for row in rows}


def test_the_sdk_lists_wikis_of_both_kinds(clients: Any) -> None:
    wiki = clients.get_wiki_client()
    found = {row.name: row for row in wiki.get_all_wikis("P")}
    assert (found["P.wiki"].type, found["P.wiki"].mapped_path) == ("projectWiki", "/")
    assert found["P.wiki"].repository_id == found["P.wiki"].id
    assert [v.version for v in found["P.wiki"].versions] == ["wikiMaster"]
    assert (found["Docs"].type, found["Docs"].mapped_path) == ("codeWiki", "/docs")
    assert found["Docs"].repository_id != found["Docs"].id
    assert {row.name for row in wiki.get_all_wikis()} == {"P.wiki", "Docs"}
    assert wiki.get_wiki("P.wiki", "P").id == wiki.get_wiki(found["P.wiki"].id).id


def test_the_tree_shows_paths_and_no_ids_below(clients: Any) -> None:
    root = clients.get_wiki_client().get_page("P", "P.wiki", path="/", recursion_level="full").page
    assert [page.path for page in root.sub_pages] == ["/Home", "/Run books"]
    books = root.sub_pages[1]
    assert (books.is_parent_page, books.git_item_path) == (True, "/Run-books")
    assert [(page.path, page.id, page.content) for page in books.sub_pages] == [
        (f"/{NIGHT}", None, None),
        ("/Run books/Spare", None, None),
    ]


def test_a_tree_goes_as_deep_as_it_is_asked(rest: Rest) -> None:
    assert rest.get(f"{BASE}/pages", path="/")["subPages"] == []
    one = rest.get(f"{BASE}/pages", path="/", recursionLevel="oneLevel")
    assert [page["subPages"] for page in one["subPages"]] == [[], []]
    assert rest.refused(f"{BASE}/pages", recursionLevel="deep")[0] == 400


def test_a_page_has_its_content_only_if_asked_for_and_an_etag(clients: Any) -> None:
    wiki = clients.get_wiki_client()
    bare = wiki.get_page("P", "P.wiki", path=f"/{NIGHT}")
    assert bare.page.content is None
    whole = wiki.get_page("P", "P.wiki", path=f"/{NIGHT}", include_content=True)
    assert (whole.page.content, whole.page.git_item_path) == ("Call Ben.", NIGHT_FILE)
    assert len(whole.eTag.strip('"')) == 40
    again = wiki.get_page_by_id("P", "P.wiki", whole.page.id, include_content=True)
    assert (again.page.path, again.page.content, again.eTag) == (f"/{NIGHT}", "Call Ben.", whole.eTag)


def test_the_text_and_a_zip_of_a_page_can_be_had(clients: Any) -> None:
    wiki = clients.get_wiki_client()
    assert b"".join(wiki.get_page_text("P", "P.wiki", path="/Home")) == b"# Home"
    assert b"".join(wiki.get_page_zip("P", "P.wiki", path="/Home")).startswith(b"PK")


def test_a_page_carries_its_label_and_owner_and_its_address_on_the_real_host(rest: Rest) -> None:
    page = rest.get(f"{BASE}/pages", path=f"/{NIGHT}")
    assert (page["sensitivityLabel"], page["owner"]["displayName"]) == ("Secret", "Ann Arbor")
    assert page["remoteUrl"].startswith("https://dev.azure.com/Small/P/_wiki/wikis/P.wiki?pagePath=%2FRun%20books")
    assert "sensitivityLabel" not in rest.get(f"{BASE}/pages", path="/Home")


def test_a_git_path_is_no_page_path(rest: Rest) -> None:
    assert rest.refused(f"{BASE}/pages", path=NIGHT_FILE)[:2] == (404, "WikiPageNotFoundException")
    assert rest.refused(f"{BASE}/pages", path="/Run%20books/Spare")[0] == 404
    assert rest.refused(f"{BASE}/pages", path="/Run books/Old")[0] == 404


def test_a_version_that_is_not_published_is_refused(rest: Rest) -> None:
    query = {"versionDescriptor.version": "elsewhere"}
    assert rest.refused(f"{BASE}/pages", path="/Home", **query)[1] == "WikiVersionNotFoundException"
    assert rest.refused("/P/_apis/wiki/wikis/Nowhere")[1] == "WikiNotFoundException"


# --- the batch


def test_the_batch_comes_in_short_pages_to_the_end(rest: Rest, clients: Any) -> None:
    token, found, sizes = None, [], []
    while True:
        body = {"top": 2, **({"continuationToken": token} if token else {})}
        answer = rest.client.post(f"{BASE}/pagesbatch?api-version=7.1", json=body)
        rows = answer.json()["value"]
        found += [row["path"] for row in rows]
        sizes.append(len(rows))
        token = answer.headers.get("x-ms-continuationtoken")
        if token is None:
            break
    assert sorted(found) == ["/Home", f"/{NIGHT}", "/Run books/Spare"]
    assert sorted(sizes) == [1, 2]  # the deleted page leaves its place empty
    listed = clients.get_wiki_client().get_pages_batch(WikiPagesBatchRequest(top=100), "P", "P.wiki")
    assert {page.path for page in listed} == set(found)


def test_the_batch_gives_labels_and_refuses_too_much(rest: Rest) -> None:
    rows = {row["path"]: row for row in rest.post(f"{BASE}/pagesbatch", {})["value"]}
    assert rows[f"/{NIGHT}"]["sensitivityLabel"] == "Secret"
    assert rest.client.post(f"{BASE}/pagesbatch?api-version=7.1", json={"top": 101}).status_code == 400


def test_a_page_has_statistics_without_views(rest: Rest, clients: Any) -> None:
    number = page_ids(rest)["/Home"]
    assert clients.get_wiki_client().get_page_data("P", "P.wiki", number, page_views_for_days=30).view_stats == []


# --- who wrote what


def test_authors_and_dates_stand_in_the_commits_of_the_hidden_repository(clients: Any) -> None:
    from azure.devops.v7_1.git.models import GitQueryCommitsCriteria, GitVersionDescriptor

    wiki = clients.get_wiki_client().get_wiki("P.wiki", "P")
    git = clients.get_git_client()
    # The SDK puts criteria into the address as they are, so a literal % has to be encoded by its caller.
    criteria = GitQueryCommitsCriteria(
        item_path=quote(NIGHT_FILE), item_version=GitVersionDescriptor(version="wikiMaster", version_type="branch")
    )
    found = git.get_commits(wiki.repository_id, criteria, project="P")
    assert [(c.author.name, c.author.date.day, c.comment) for c in found] == [
        ("Ben Baker", 20, "New number"),
        ("Ann Arbor", 3, f"Updated {NIGHT}"),
    ]
    criteria.top = 1
    assert [c.author.email for c in git.get_commits(wiki.repository_id, criteria)] == ["ben@small.example"]


def test_a_code_wiki_is_written_in_its_repository_below_its_folder(rest: Rest) -> None:
    page = rest.get("/P/_apis/wiki/wikis/Docs/pages", path="/Guide", includeContent=True)
    assert (page["content"], page["gitItemPath"]) == ("How to", "/docs/Guide.md")
    repo = rest.get("/P/_apis/wiki/wikis/Docs")["repositoryId"]
    query = {"searchCriteria.itemPath": page["gitItemPath"], "searchCriteria.$top": 1}
    commits = rest.get(f"/P/_apis/git/repositories/{repo}/commits", **query)["value"]
    assert commits[0]["author"]["name"] == "Ann Arbor"


EVENTS: list[dict[str, Any]] = [
    {"id": "edit", "after": "1m", "edit": {"item": f"wiki:P.wiki/{NIGHT}", "by": "cat", "content": "Call Cat."}},
    {"id": "rename", "after": "2m", "rename": {"what": f"wiki:P.wiki/{NIGHT}", "to": "On-call: day"}},
    {"id": "delete", "after": "3m", "delete": {"item": "wiki:P.wiki/Home"}},
]


@pytest.fixture
def moving(tmp_path: Path) -> Any:
    with SandboxServer(ado_world({"P": P, "Salt": {}}, events=EVENTS), tmp_path, remember=False) as server:
        yield server


def test_an_edit_a_rename_and_a_deletion_are_served_and_the_id_stays(moving: SandboxServer) -> None:
    rest = Rest(moving)
    number = page_ids(rest)[f"/{NIGHT}"]
    before = rest.client.get(f"{BASE}/pages/{number}?api-version=7.1").headers["etag"]
    moving.apply("edit")
    after = rest.client.get(f"{BASE}/pages/{number}?api-version=7.1&includeContent=true")
    assert after.json()["content"] == "Call Cat."
    assert after.headers["etag"] != before
    moving.apply("rename")
    page = rest.get(f"{BASE}/pages/{number}", includeContent=True)
    assert (page["path"], page["content"]) == ("/Run books/On-call: day", "Call Cat.")
    commits = rest.get("/P/_apis/git/repositories/P.wiki/commits", **{"searchCriteria.itemPath": page["gitItemPath"]})[
        "value"
    ]
    changes = rest.get(f"/P/_apis/git/repositories/P.wiki/commits/{commits[0]['commitId']}/changes")["changes"]
    assert [(c["changeType"], c["originalPath"]) for c in changes] == [("rename", NIGHT_FILE)]
    moving.apply("delete")
    assert set(page_ids(rest)) == {"/Run books/On-call: day", "/Run books/Spare"}
