"""Answers of a shape that nobody documented: told as a failure of the source, never a crash, never fewer rules."""

from __future__ import annotations

from typing import Any

import pytest

from core import uris
from core.access import NOBODY, ScopeAcl
from core.errors import SourceError
from ingestion.azure_devops.addresses import grouped
from ingestion.azure_devops.faults import number_in
from ingestion.connector import Failure
from tests.ingestion.azure_devops.canned import GIT, PROJECT, acl, listed, organization
from tests.ingestion.azure_devops.support import reader_of
from tests.ingestion.azure_devops.test_odd_answers import BASIC, GROUP, IRIS, claims, open_table, user

REPO = f"repoV2/{PROJECT}/R1"
FEED = r"/_apis/wit/reporting/workitemrevisions"
DEEP: Any = []
for _ in range(5_000):
    DEEP = [DEEP]


def repo_rule(row: Any) -> tuple[ScopeAcl | None, bool]:
    """The rule of the repo whose list is `row`, None where it is left as it was known; and whether all was read."""
    table = open_table({})
    table[rf"/_apis/accesscontrollists/{GIT}"] = row if callable(row) else listed(row)
    with organization(table) as connector:
        snapshot = connector.access()
    return next((s.acl for s in snapshot.scopes if s.kind == "repo"), None), snapshot.complete


@pytest.mark.parametrize(
    "change",
    [
        {"acesDictionary": [{"descriptor": GROUP, "allow": 0, "deny": 2}]},
        {"acesDictionary": {claims(IRIS): {"allow": 2}, GROUP: {"deny": "all"}}},
        {"acesDictionary": {claims(IRIS): {"allow": 2}, GROUP: [0, 2]}},
        {"inheritPermissions": "false"},
        {"inheritPermissions": None},
        {"token": None},
        {"token": 7},
    ],
)
def test_a_list_that_cannot_be_understood_is_not_taken_for_one_without_denies(change: dict[str, Any]) -> None:
    rule, complete = repo_rule({**acl(REPO, {claims(IRIS): (2, 0)}), **change})
    assert rule is None
    assert not complete


@pytest.mark.parametrize("answer", [{}, {"count": 3, "value": None}, {"value": "none"}, {"value": [None]}, "none", 7])
def test_an_answer_without_the_lists_is_not_taken_for_no_lists(answer: Any) -> None:
    rule, complete = repo_rule(lambda _: answer)
    assert rule is None
    assert not complete


def test_an_entry_of_two_names_denies_both() -> None:
    row = acl(REPO, {claims(IRIS): (2, 0)})
    row["acesDictionary"][GROUP] = {"descriptor": claims(IRIS), "allow": 0, "deny": 2}
    rule, _ = repo_rule(row)
    assert rule is not None
    assert not rule.permits(frozenset({user(IRIS), BASIC}))


@pytest.mark.parametrize("row", [None, [], "x", {}, {"id": 7}, {"name": "P"}])
@pytest.mark.parametrize("path", ["projects", "graph/users", "graph/groups"])
def test_a_row_that_is_none_ends_the_reading_of_permissions_as_a_failure(path: str, row: Any) -> None:
    table = {rf"/_apis/{path}": listed(row)}
    table |= {k: v for k, v in open_table({}).items() if k not in table}
    with organization(table) as connector, pytest.raises(SourceError):
        connector.access()


@pytest.mark.parametrize("answer", [{}, {"values": [[1]], "isLastBatch": True}, {"values": [{"id": "x"}]}, [1], DEEP])
def test_a_feed_of_another_shape_ends_the_run_as_a_failure(answer: Any) -> None:
    table = {FEED: answer, r"/_apis/wit/reporting/workitemlinks": {}, **open_table({claims(IRIS): (2, 0)})}
    with organization(table) as connector, pytest.raises(SourceError):
        list(reader_of(connector, "work_items").read(None))


def test_a_feed_whose_tokens_go_round_in_a_circle_ends() -> None:
    def page(asked: dict[str, Any]) -> dict[str, Any]:
        following = {"a": "b", "b": "c"}.get(asked.get("continuationtoken", ""), "a")
        return {"values": [], "continuationToken": following, "isLastBatch": False}

    links = {"values": [], "continuationToken": "1", "isLastBatch": True}
    table = {FEED: page, r"/_apis/wit/reporting/workitemlinks": links, **open_table({claims(IRIS): (2, 0)})}
    with organization(table) as connector, pytest.raises(SourceError, match="does not go on"):
        list(reader_of(connector, "work_items").read(None))


def test_a_work_item_without_fields_is_parked_and_not_taken_for_one_that_was_moved_away() -> None:
    batch = listed({"id": 1, "rev": 1, "fields": None}, {"id": 2, "rev": 1, "fields": {}})
    table = {
        FEED: {"values": [{"id": 1}, {"id": 2}], "continuationToken": "1", "isLastBatch": True},
        r"/_apis/wit/reporting/workitemlinks": {"values": [], "continuationToken": "1", "isLastBatch": True},
        r"/_apis/wit/workitemsbatch": batch,
        r"/_apis/wit/recyclebin": listed(),
        **open_table({claims(IRIS): (2, 0)}),
    }
    with organization(table) as connector:
        changes = [c for b in reader_of(connector, "work_items").read(None) for c in b.changes]
    assert [type(c) for c in changes] == [Failure, Failure]


def test_a_repo_whose_commits_come_again_and_again_does_not_hold_up_the_others() -> None:
    sha = "a" * 40
    refs = listed({"name": "refs/heads/main", "objectId": sha})
    commits = listed(*({"commitId": f"{n:040x}", "author": {"name": "I"}} for n in range(100)))
    table = {
        rf"/{PROJECT}/_apis/git/repositories/r1/refs": refs,
        rf"/{PROJECT}/_apis/git/repositories/r1/items": listed({"path": "/", "isFolder": True}),
        rf"/{PROJECT}/_apis/git/repositories/r1/commits": commits,
        rf"/{PROJECT}/_apis/git/repositories/r1/commits/.*/changes": {"changes": []},
        **open_table({claims(IRIS): (2, 0)}),
    }
    with organization(table) as connector, pytest.raises(SourceError, match="does not go on"):
        list(reader_of(connector, "code").read(None))


@pytest.mark.parametrize(
    "path", ["/a b/c?d#e%2F.py", "/line\nbreak.py", "/\ud800.py", "/%00/é.py", "/a//b.py", "/..py"]
)
def test_a_file_of_any_name_has_an_address_of_its_own_that_leads_back_to_it(path: str) -> None:
    uri = uris.file("novaruud", "r1", path)
    assert uri.isascii()
    assert uri.isprintable()
    assert list(grouped([uri], "novaruud", "repos", "files")) == [("r1", [(uri, tuple(path[1:].split("/")))])]


def test_an_area_number_that_two_projects_have_opens_no_item_of_either() -> None:
    other = "cccccccc-0000-4000-8000-000000000002"
    table = {
        FEED: {"values": [{"id": 1}], "continuationToken": "1", "isLastBatch": True},
        r"/_apis/wit/reporting/workitemlinks": {"values": [], "continuationToken": "1", "isLastBatch": True},
        r"/_apis/wit/workitemsbatch": listed(
            {"id": 1, "rev": 1, "fields": {"System.TeamProject": "Fjordline", "System.AreaId": 7}}
        ),
        r"/_apis/wit/recyclebin": listed(),
        **open_table({claims(IRIS): (2, 0)}),
        r"/_apis/projects": listed(
            {"id": PROJECT, "name": "Fjordline", "state": "wellFormed"},
            {"id": other, "name": "Zeeland", "state": "wellFormed"},
        ),
    }
    with organization(table) as connector:
        changes = [c for b in reader_of(connector, "work_items").read(None) for c in b.changes]
    assert [isinstance(c, Failure) and c.hide for c in changes] == [True]


def test_two_wikis_of_one_id_and_two_rules_are_nobody_s() -> None:
    wikis = [
        {"id": "W1", "name": "W", "projectId": PROJECT, "repositoryId": repo, "type": "projectWiki"}
        for repo in ("r1", "r9")
    ]
    table = {**open_table({claims(IRIS): (2, 0)}), r"/_apis/wiki/wikis": listed(*wikis)}
    with organization(table) as connector:
        snapshot = connector.access()
    assert [s.acl for s in snapshot.scopes if s.kind == "wiki"] == [NOBODY]
    assert not snapshot.complete


@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "1e999", "soon", ""])
def test_a_wait_without_end_is_no_wait_that_is_asked_for(value: str) -> None:
    assert number_in({"Retry-After": value}, "Retry-After") is None
