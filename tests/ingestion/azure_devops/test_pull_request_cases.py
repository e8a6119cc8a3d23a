"""Pull requests as they are: cut lists, talk on files and lines, late comments on closed ones, labels, files."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from core.clock import FixedClock
from core.items import Item, Role
from fixtures.sandbox import state_additions as add
from fixtures.sandbox.server import SandboxServer
from ingestion.azure_devops.client import AdoClient
from ingestion.azure_devops.connector import AzureDevOpsConnector
from ingestion.azure_devops.pull_requests import _due
from ingestion.connector import ItemUpserted
from tests.ingestion.azure_devops.canned import base_table, listed, organization
from tests.ingestion.azure_devops.small_worlds import Serve, happen, read
from tests.ingestion.azure_devops.support import Store, reader_of, settings_for
from tests.sandbox.small import commit, item, stamp

CLOSED = datetime(2026, 2, 20, 9, tzinfo=UTC)


def pull(number: int, **more: Any) -> dict[str, Any]:
    return {"id": number, "title": f"Pull {number}", "created": stamp()} | more


def closed(number: int, **more: Any) -> dict[str, Any]:
    return pull(number, status="completed", closed=stamp("ben", "2026-02-20T09:00:00Z"), **more)


def repo(*pulls: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"repos": {"app": {"commits": [commit("one", a_py="x = 1\n")], "pull_requests": list(pulls)} | more}}


def at(server: SandboxServer, clock: FixedClock, **changes: Any) -> AzureDevOpsConnector:
    """A connector for which it is as late as the clock says."""
    settings = settings_for(server, **changes)
    client = AdoClient(settings, sleep=lambda _: None, jitter=lambda: 0.0, now=lambda: 0.0)
    return AzureDevOpsConnector(settings, client=client, clock=clock)


def only(store: Store) -> Item:
    (found,) = store.items.values()
    return found


def test_the_whole_description_is_read_though_lists_cut_it(serve: Serve) -> None:
    """C072: the same holds for what a list of work items would cut."""
    long = "word " * 120 + "and the fix is in locker 42"
    server = serve(item(4102, description=f"<p>{long}</p>"), project=repo(pull(88, description=long)))
    store = read(server, "work_items", "pull_requests")
    for found in store.items.values():
        assert found.parts[0].text.endswith("locker 42")


def test_talk_keeps_its_file_line_and_status_and_what_is_deleted_or_the_service_s_own_is_no_speech() -> None:
    """C078"""
    people = {"id": "k1", "displayName": "Teo Vane", "descriptor": "aad.none"}
    row = {
        "pullRequestId": 7,
        "status": "completed",
        "title": "Fix the crane",
        "createdBy": people,
        "creationDate": "2031-02-03T10:00:00Z",
        "closedDate": "2031-02-05T10:00:00Z",
        "closedBy": people,
        "reviewers": [
            {**people, "vote": 10},
            {"id": "g1", "displayName": "[P]\\Team", "isContainer": True, "vote": 10},
        ],
        "labels": [{"name": "hotfix", "active": True}, {"name": "old", "active": False}],
        "workItemRefs": [{"id": "4102"}],
        "commits": [{"commitId": "A" * 40}],
        "lastMergeCommit": {"commitId": "B" * 40},
    }
    talk = [
        {
            "id": 1,
            "status": "active",
            "threadContext": {"filePath": "/src/kai.cs", "rightFileStart": {"line": 12}},
            "comments": [
                {"id": 1, "commentType": "text", "content": "off by one", "author": people},
                {"id": 2, "commentType": "text", "isDeleted": True, "content": None},
            ],
        },
        {
            "id": 2,
            "properties": {"CodeReviewThreadType": {"$type": "System.String", "$value": "VoteUpdate"}},
            "comments": [
                {
                    "id": 1,
                    "commentType": "system",
                    "content": "Teo Vane voted 10",
                    "author": people,
                    "publishedDate": "2031-02-04T10:00:00Z",
                }
            ],
        },
        {"id": 3, "isDeleted": True, "comments": [{"id": 1, "commentType": "text", "content": "gone"}]},
    ]
    entries = [
        {"item": {"path": "/src/kai.cs"}, "changeType": "edit"},
        {"item": {"path": "/src/old.cs"}, "changeType": "delete, sourceRename"},
        {"item": {"path": "/src", "isFolder": True}, "changeType": "edit"},
    ]
    base = r"/[^/]+/_apis/git/repositories/r1/pullrequests/7"
    table = {
        base: row,
        f"{base}/threads": listed(*talk),
        f"{base}/iterations": listed({"id": 1}, {"id": 2}),
        f"{base}/iterations/2/changes": {"changeEntries": entries},
        **base_table(),
    }
    with organization(table) as connector:
        uri = "ctx://ado/novaruud/repos/r1/pull-requests/7"
        (change,) = reader_of(connector, "pull_requests").fetch([uri])
    assert isinstance(change, ItemUpserted)
    found = change.item
    assert [(p.heading, p.text) for p in found.parts] == [(("/src/kai.cs:12 (active)",), "off by one")]
    approved = [c for c in found.contributions if c.role is Role.APPROVED]
    assert [(c.person.name, c.note, c.at) for c in approved] == [
        ("Teo Vane", "vote 10", datetime(2031, 2, 4, 10, tzinfo=UTC))
    ]
    assert {(x.rel, x.to.removeprefix("ctx://ado/novaruud/")) for x in found.links} == {
        ("work_item", "work-items/4102"),
        ("merge_commit", f"repos/r1/commits/{'b' * 40}"),
        ("commit", f"repos/r1/commits/{'a' * 40}"),
        ("touches", "repos/r1/files/src/kai.cs"),
    }
    assert found.attributes["labels"] == "hotfix"


def test_a_pull_request_names_the_files_that_it_touches(serve: Serve) -> None:
    second = commit("two", b_py="y = 2\n") | {"branch": "topic"}
    project = repo(pull(5, source="topic", commits=["two"]), commits=[commit("one", a_py="x = 1\n"), second])
    found = only(read(serve(project=project), "pull_requests"))
    assert [x.to.rpartition("/files/")[2] for x in found.links if x.rel == "touches"] == ["b.py"]


def test_people_who_are_mentioned_in_the_talk_are_known(serve: Serve) -> None:
    server = serve(project=repo(pull(5)))
    add.comment_on(server.state, "app", 5, "ann", f"@<{server.state.ids.storage_key('person', 'gil')}> knows")
    found = only(read(server, "pull_requests"))
    people = {c.person.principal for c in found.contributions if c.role is Role.MENTIONED}
    assert people == {f"user:{server.state.tenant_id}/{server.state.oid('gil')}"}


def test_the_files_of_an_open_one_are_asked_for_again_only_after_a_push(serve: Serve) -> None:
    second = commit("two", b_py="y = 2\n") | {"branch": "topic"}
    project = repo(pull(5, source="topic", commits=["two"]), commits=[commit("one", a_py="x = 1\n"), second])
    server = serve(project=project)
    connector, store = at(server, FixedClock(CLOSED)), Store()
    store.sync(connector, ["pull_requests"])
    first, before = dict(store.items), connector.traffic
    store.sync(connector, ["pull_requests"])
    assert not [area for area in connector.traffic.since(before).requests if "iterations" in area]
    assert store.items == first
    add.push(server.state, "app", {"c.py": "z = 3\n"}, by="ben", message="More", branch="topic")
    server.state.lookup.pull_requests["app"][5].commits.append(server.state.git("app").commits[-1].key)
    store.sync(connector, ["pull_requests"])
    touched = [x.to.rpartition("/files/")[2] for x in only(store).links if x.rel == "touches"]
    assert touched == ["b.py", "c.py"]
    connector.close()


def test_a_comment_on_an_open_pull_request_is_read_by_the_next_run(serve: Serve) -> None:
    server = serve(project=repo(pull(5)))
    clock = FixedClock(CLOSED + timedelta(days=400))
    connector, store = at(server, clock), Store()
    store.sync(connector, ["pull_requests"])
    add.comment_on(server.state, "app", 5, "ben", "Off by one", "a.py")
    store.sync(connector, ["pull_requests"])
    assert [p.text for p in only(store).parts] == ["Off by one"]
    connector.close()


def test_a_comment_on_one_that_was_closed_not_long_ago_is_read_without_any_change_in_the_list(serve: Serve) -> None:
    server = serve(project=repo(closed(5)))
    clock = FixedClock(CLOSED + timedelta(days=1))
    connector, store = at(server, clock), Store()
    store.sync(connector, ["pull_requests"])
    add.comment_on(server.state, "app", 5, "ben", "It broke the crane")
    clock.move_to(CLOSED + timedelta(days=1, hours=3))
    store.sync(connector, ["pull_requests"])
    assert [p.text for p in only(store).parts] == ["It broke the crane"]
    assert store.items == read(server, "pull_requests").items
    connector.close()


def test_a_comment_long_after_the_closing_is_read_by_the_next_full_read(serve: Serve) -> None:
    server = serve(project=repo(closed(5)))
    clock = FixedClock(CLOSED + timedelta(days=40))
    connector, store = at(server, clock, reread_closed_pull_requests_days=30), Store()
    store.sync(connector, ["pull_requests"])
    add.comment_on(server.state, "app", 5, "ben", "A late word")
    clock.move_to(CLOSED + timedelta(days=80))
    store.sync(connector, ["pull_requests"])
    assert only(store).parts == ()
    store.checkpoints.clear()
    store.sync(connector, ["pull_requests"])
    assert [p.text for p in only(store).parts] == ["A late word"]
    connector.close()


def test_closed_ones_are_not_all_looked_at_in_every_run(serve: Serve) -> None:
    server = serve(project=repo(*(closed(n) for n in range(1, 6))))
    clock = FixedClock(CLOSED + timedelta(days=10))
    connector, store = at(server, clock), Store()
    store.sync(connector, ["pull_requests"])
    clock.move_to(CLOSED + timedelta(days=10, hours=12))
    before = connector.traffic
    store.sync(connector, ["pull_requests"])
    assert "git/repositories/pullrequests/threads" not in connector.traffic.since(before).requests
    assert set(store.checkpoints["pull_requests"]["repos"].popitem()[1]["looked"]) == {"1", "2", "3", "4", "5"}
    connector.close()


@pytest.mark.parametrize(
    ("looked", "now", "due"),
    [
        (None, timedelta(days=9), True),
        (timedelta(0), timedelta(minutes=5), True),
        (timedelta(hours=1), timedelta(hours=1, minutes=5), False),
        (timedelta(hours=1), timedelta(hours=1, minutes=6), True),
        (timedelta(days=10), timedelta(days=10, hours=23), False),
        (timedelta(days=10), timedelta(days=11), True),
    ],
)
def test_the_older_a_closing_the_rarer_it_is_looked_at_again(
    looked: timedelta | None, now: timedelta, due: bool
) -> None:
    assert _due(CLOSED, int((CLOSED + looked).timestamp()) if looked is not None else None, CLOSED + now) is due


def test_a_vote_that_changes_is_read_though_nothing_else_does(serve: Serve) -> None:
    server = serve(project=repo(closed(5, reviewers=[{"who": "ben", "vote": 10}])))
    connector, store = at(server, FixedClock(CLOSED + timedelta(days=400))), Store()
    store.sync(connector, ["pull_requests"])
    add.vote(server.state, "app", 5, "ben", -10)
    store.sync(connector, ["pull_requests"])
    votes = [(c.role, c.note) for c in only(store).contributions if c.note.startswith("vote")]
    assert votes == [(Role.REVIEWED, "vote -10")]
    connector.close()


def test_a_pull_request_that_is_edited_after_a_repo_was_renamed_is_read_once_under_its_new_name(serve: Serve) -> None:
    server = serve(project=repo(closed(5)))
    connector, store = at(server, FixedClock(CLOSED + timedelta(days=400))), Store()
    store.sync(connector, ["pull_requests"])
    happen(server, rename={"what": "repo:app", "to": "application"})
    store.sync(connector, ["pull_requests"])
    assert only(store).container == "application"
    assert "/_git/application/pullrequest/5" in only(store).url
    assert store.items == read(server, "pull_requests").items
    connector.close()
