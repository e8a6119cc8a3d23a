"""What a world's reference is in the engine."""

from __future__ import annotations

import pytest

from fixtures.sandbox.references import target
from fixtures.sandbox.world import WorldError
from tests.sandbox import small

REPO = {
    "commits": [small.commit("c1", src_x_py="print()")],
    "pull_requests": [{"id": 12, "title": "Pull", "description": "why", "created": small.stamp()}],
}
PROJECT = {
    "work_items": [small.item(1, description="what", comments=[small.stamp() | {"text": "said"}])],
    "wikis": {"P.wiki": {"pages": {"How to/Start here": small.page("steps")}}},
    "repos": {"r": REPO},
}
TEAMS = {"T": {"members": ["ann"], "channels": {"C": {"messages": [small.message("m", replies=[small.message("q")])]}}}}
STATE = small.state(
    PROJECT,
    teams=TEAMS,
    events=[{"id": "later", "after": "1m", "post": {"channel": "T/C", "message": small.message("n", "to come")}}],
)


def test_a_comment_belongs_to_its_work_item() -> None:
    item, comment = target(STATE, "work_item:1"), target(STATE, "comment:1/1")
    assert item.uri == item.item_uri == "ctx://ado/small/work-items/1"
    assert (comment.uri, comment.item_uri) == (f"{item.uri}/comments/1", item.uri)
    assert (item.number, item.title, item.source) == ("1", "Item 1", "work_items")
    assert item.text == "Item 1\n\nwhat\n\nsaid"
    assert item.url == "https://dev.azure.com/Small/P/_workitems/edit/1"


def test_a_page_has_the_address_of_its_id_and_the_url_of_its_title() -> None:
    page = target(STATE, "wiki:P.wiki/How to/Start here")
    number = STATE.page_now("P.wiki", "How to/Start here").id
    assert page.uri == f"ctx://ado/small/wikis/{STATE.wiki_id('P.wiki')}/pages/{number}"
    assert page.url == f"https://dev.azure.com/Small/P/_wiki/wikis/P.wiki/{number}/Start-here"
    assert (page.title, page.text, page.source) == ("Start here", "steps", "wikis")


def test_files_commits_and_pull_requests() -> None:
    repo = STATE.git("r").id
    file, commit, pull = (target(STATE, ref) for ref in ("file:r/src.x.py", "commit:r/c1", "pr:r/12"))
    assert file.uri == f"ctx://ado/small/repos/{repo}/files/src.x.py"
    assert file.url == "https://dev.azure.com/Small/P/_git/r?path=/src.x.py"
    assert commit.uri == f"ctx://ado/small/repos/{repo}/commits/{STATE.git('r').commits[0].sha}"
    assert (commit.source, commit.title) == ("code", "Commit c1")
    assert pull.uri == f"ctx://ado/small/repos/{repo}/pull-requests/12"
    assert (pull.source, pull.number, pull.text) == ("pull_requests", "12", "Pull\n\nwhy")


def test_a_reply_belongs_to_its_thread() -> None:
    root, reply = target(STATE, "message:T/C/m"), target(STATE, "message:T/C/q")
    assert reply.item_uri == root.uri
    assert reply.uri == f"{root.uri}/replies/{STATE.message('T', 'C', 'q').id}"
    assert root.url is not None
    assert root.url.startswith("https://teams.microsoft.com/l/message/19%3A")
    assert f"tenantId={small.TENANT}" in root.url


def test_a_message_that_an_event_will_post_has_its_address_already() -> None:
    before = target(STATE, "message:T/C/n")
    state = small.state(PROJECT, teams=TEAMS, events=[e.model_dump(exclude_none=True) for e in STATE.world.events])
    state.apply("later")
    assert target(state, "message:T/C/n") == before
    assert before.text == "to come"


@pytest.mark.parametrize(
    ("ref", "title"),
    [
        ("project:P", "P"),
        ("area:P", "/"),
        ("repo:r", "r"),
        ("team:T", "T"),
        ("channel:T/C", "C"),
        ("group:staff", "Staff"),
    ],
)
def test_containers_and_people_are_named_and_not_indexed(ref: str, title: str) -> None:
    found = target(STATE, ref)
    assert (found.uri, found.title, found.text) == (None, title, "")


@pytest.mark.parametrize(
    "ref",
    ["work_item:2", "comment:1/2", "wiki:P.wiki/No", "file:r/no", "commit:r/c2", "pr:r/1", "message:T/C/z"],
)
def test_a_reference_that_names_nothing_is_an_error_that_quotes_it(ref: str) -> None:
    with pytest.raises(WorldError) as caught:
        target(STATE, ref)
    assert str(caught.value).startswith(ref)
