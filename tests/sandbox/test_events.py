"""Each of the twelve events changes what is served, and keys stay what they were."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from fixtures.sandbox.references import target
from fixtures.sandbox.refs import Ref
from fixtures.sandbox.state import SandboxState
from tests.sandbox import small
from tests.sandbox.small import item, message, page

REPO = {"commits": [small.commit("c1", a_md="one", b_md="two")], "pull_requests": []}
PULL = {"id": 7, "title": "p", "created": small.stamp(), "commits": ["c1"]}


def after(**event: Any) -> SandboxState:
    """The state after one event on a world that has one of everything."""
    comments = [small.stamp() | {"text": "first"}]
    project: dict[str, Any] = {
        "acl": small.allow("group:everyone"),
        "areas": {"/A": {}, "/A/B": {}},
        "work_items": [item(1, "/A", comments=comments, state="Active")],
        "wikis": {"W": {"pages": {"Home": page("home"), "Home/Sub": page("sub"), "Other": page("other")}}},
        "repos": {"r": REPO | {"pull_requests": [PULL]}},
    }
    teams = {
        "T": {"members": ["ann"], "channels": {"C": {"messages": [message("m", replies=[message("r")])]}}},
    }
    state = small.state(project, teams=teams, events=[{"id": "e", "after": "10m", **event}])
    assert state.apply("e") == ["e"]
    assert state.apply("e") == []  # once is enough
    return state


def test_the_clock_moves_to_the_worlds_now_and_the_events_after() -> None:
    state = after(disable_person={"who": "ann"})
    assert state.now == state.first.now + timedelta(minutes=10)
    assert not state.enabled("ann")


def test_an_event_takes_all_before_it_along_in_order() -> None:
    events = [
        {"id": "a", "after": "10m", "rename": {"what": "group:staff", "to": "One"}},
        {"id": "b", "after": "20m", "rename": {"what": "group:staff", "to": "Two"}},
        {"id": "c", "after": "30m", "rename": {"what": "group:staff", "to": "Three"}},
    ]
    state = small.state(events=events)
    assert state.apply("b") == ["a", "b"]
    assert state.name(Ref("group", ("staff",))) == "Two"
    assert state.apply("c") == ["c"]
    with pytest.raises(KeyError):
        state.apply("d")
    state.reset()
    assert (state.applied, state.name(Ref("group", ("staff",)))) == ([], "Staff")


def test_set_acl() -> None:
    state = after(set_acl={"on": "area:P/A", "acl": small.deny("ann"), "inherit": False})
    acl, inherit = state.acl(Ref("area", ("P", "/A")))
    assert acl is not None
    assert ([entry.to for entry in acl], inherit) == (["ann"], False)
    assert [c.kind for c in state.journal] == ["acl"]


def test_add_and_remove_member() -> None:
    assert "cat" in after(add_member={"group": "group:inner", "who": "person:cat"}).group_people("staff")
    assert "ann" not in after(remove_member={"group": "staff", "who": "ann"}).group_people("staff")
    assert after(remove_member={"team": "T", "who": "ann"}).team_people("T") == []


def test_delete_and_restore() -> None:
    state = after(delete={"item": "work_item:1"})
    assert state.work_item_numbers() == []
    assert state.work_item_numbers(deleted=True) == [1]
    assert state.revisions(1)[-1].deleted
    assert [p.key for p in after(delete={"item": "wiki:W/Other"}).pages("W")] == ["Home", "Home/Sub"]
    assert list(after(delete={"item": "file:r/a.md"}).files("r")) == ["b.md"]
    assert after(delete={"item": "message:T/C/m"}).message("T", "C", "m").deleted is not None
    assert after(delete={"item": "repo:r"}).repos() == {}
    assert list(after(delete={"item": "comment:1/1"}).comments(1)) == []


def test_what_was_deleted_comes_back_with_its_number_and_text() -> None:
    events = [
        {"id": "gone", "after": "1m", "delete": {"item": "file:r/a.md"}},
        {"id": "back", "after": "2m", "restore": {"item": "file:r/a.md"}},
    ]
    state = small.state({"repos": {"r": REPO}}, events=events)
    state.apply("back")
    assert state.files("r")["a.md"].content == b"one"
    assert len(state.git("r").log(path="a.md")) == 3


def test_edit_of_a_work_item_in_either_naming_makes_a_revision() -> None:
    for fields in ({"state": "Closed", "title": "New"}, {"System.State": "Closed", "System.Title": "New"}):
        state = after(edit={"item": "work_item:1", "by": "ben", "fields": fields})
        last = state.revisions(1)[-1]
        assert (last.rev, last.by, last.state, last.item.title) == (3, "ben", "Closed", "New")
        assert last.closed is not None
        assert last.watermark > state.revisions(1)[-2].watermark
    other = after(edit={"item": "work_item:1", "by": "ben", "fields": {"Custom.Risk": 3, "tags": "a; b"}})
    assert other.lookup.work_items[1][1].fields == {"Custom.Risk": 3}
    assert other.lookup.work_items[1][1].tags == ["a", "b"]


def test_edit_of_a_comment_makes_a_new_version_and_a_revision() -> None:
    state = after(edit={"item": "comment:1/1", "by": "ann", "content": "changed"})
    assert state.comments(1)[0][1].text == "changed"
    assert state.comment_version(1, 1) == 2
    assert state.revisions(1)[-1].comment == 1


def test_edit_of_a_page_file_pull_request_and_message() -> None:
    state = after(edit={"item": "wiki:W/Home", "by": "ben", "content": "new home"})
    assert state.page_now("W", "Home").page.revisions[-1].content == "new home"
    assert state.wiki_repo("W").log(path="Home.md")[0].by == "ben"
    assert after(edit={"item": "file:r/a.md", "by": "ben", "content": "x"}).files("r")["a.md"].content == b"x"
    pull = after(edit={"item": "pr:r/7", "by": "ben", "fields": {"status": "completed"}}).pull_requests("r")[7]
    assert (pull.status, pull.closed and pull.closed.by) == ("completed", "ben")
    said = after(edit={"item": "message:T/C/r", "by": "ann", "body": "edited"}).message("T", "C", "r")
    assert (said.message.body, said.message.edited) == ("edited", said.modified)


def test_move_of_a_work_item_between_areas_keeps_its_key() -> None:
    state = after(move={"item": "work_item:1", "to": "area:P/A/B"})
    assert state.revisions(1)[-1].item.area == "/A/B"


def test_move_of_a_work_item_to_another_project() -> None:
    data = {"organization": "o", "projects": {"P": {"work_items": [item(1)]}, "Q": {"areas": {"/Z": {}}}}}
    events = [{"id": "e", "after": "1m", "move": {"item": "work_item:1", "to": "area:Q/Z"}}]
    state = small.state(azure_devops=data, events=events)
    state.apply("e")
    assert (state.work_item_numbers("P"), state.work_item_numbers("Q")) == ([], [1])
    assert state.revisions(1)[-1].project == "Q"


def test_a_renamed_page_takes_its_sub_pages_along_and_keeps_id_and_key() -> None:
    state = after(rename={"what": "wiki:W/Home", "to": "Start here"})
    assert [p.path for p in state.pages("W")] == ["Other", "Start here", "Start here/Sub"]
    assert state.page_now("W", "Home").id == small.state(state.first.azure_devops and _pages()).page_now("W", "Home").id
    assert state.page_now("W", "Home").git_path == "/Start-here.md"
    assert sorted(state.wiki_repo("W").files()) == ["Other.md", "Start-here.md", "Start-here/Sub.md"]
    assert (target(state, "wiki:W/Home").title, target(state, "wiki:W/Home/Sub").title) == ("Start here", "Sub")


def _pages() -> dict[str, Any]:
    return {"wikis": {"W": {"pages": {"Home": page("home")}}}}


def test_a_moved_file_is_a_rename_commit() -> None:
    state = after(move={"item": "file:r/a.md", "to": "docs/a.md"})
    assert sorted(state.files("r")) == ["b.md", "docs/a.md"]
    change = state.git("r").commits[-1].changes[0]
    assert (change.type, change.original_path) == ("rename", "a.md")
    uri = target(state, "file:r/a.md").uri
    assert uri is not None
    assert uri.endswith("/files/docs/a.md")


def test_renames_of_containers_keep_ids_and_change_urls() -> None:
    state = after(rename={"what": "project:P", "to": "Renamed"})
    assert target(state, "work_item:1").url == "https://dev.azure.com/Small/Renamed/_workitems/edit/1"
    state = after(rename={"what": "area:P/A", "to": "Alpha"})
    assert state.area_path_now("P", "/A/B") == "/Alpha/B"
    assert state.repo_name(next(iter(after(rename={"what": "repo:r", "to": "s"}).repos()))) == "r"
    assert after(rename={"what": "repo:r", "to": "s"}).repo_name("r") == "s"
    assert after(rename={"what": "channel:T/C", "to": "D"}).name(Ref("channel", ("T", "C"))) == "D"


def test_post_of_a_message_and_of_a_reply() -> None:
    state = after(post={"channel": "T/C", "message": message("n", "news")})
    assert {now.key for now in state.messages("T", "C")} == {"m", "n"}
    assert state.journal[-1].ref == Ref("message", ("T", "C", "n"))
    state = after(post={"channel": "message:T/C/m", "message": message("n", "news")})
    assert {now.key for now in state.replies("T", "C", "m")} == {"r", "n"}
    assert state.journal[-1].ref == Ref("message", ("T", "C", "m"))  # the root surfaces


def test_label_and_access_level() -> None:
    assert after(label={"on": "work_item:1", "label": "Secret"}).lookup.work_items[1][1].label == "Secret"
    assert after(label={"on": "channel:T/C", "label": "Secret"}).channels("T")["C"].label == "Secret"
    assert after(set_access_level={"who": "ann", "access_level": "none"}).world.people["ann"].access_level == "none"


def test_people_whose_last_day_passes_are_switched_off_and_told_to_delta_readers() -> None:
    people = small.PEOPLE | {"ann": small.person("Ann", left="2026-03-03")}
    events = [{"id": "e", "after": "2d", "rename": {"what": "group:staff", "to": "S"}}]
    state = small.state(people=people, events=events)
    assert state.enabled("ann")
    state.apply("e")
    assert not state.enabled("ann")
    assert ("user", Ref("person", ("ann",))) in [(c.kind, c.ref) for c in state.journal]


def test_a_completed_pull_request_brings_its_branch_into_the_target() -> None:
    side = small.commit("c2", side_md="s") | {"branch": "f/x"}
    for status, there in (("completed", True), ("active", False), ("abandoned", False)):
        pull = {"id": 1, "title": "p", "created": small.stamp(), "source": "f/x", "status": status}
        repo = {"commits": [small.commit("c1", a_md="a"), side], "pull_requests": [pull]}
        state = small.state({"repos": {"r": repo}})
        assert ("side.md" in state.files("r")) is there
        assert "a.md" in state.git("r").files("f/x")


def test_revisions_tell_the_stamps_of_the_world_in_order() -> None:
    comments = [small.stamp("ben", "2026-02-03T09:00:00Z") | {"text": "c"}]
    closed = small.stamp("cat", "2026-02-04T09:00:00Z")
    state = small.state({"work_items": [item(1, comments=comments, closed=closed, changed=closed, state="Done")]})
    rows = [(r.rev, r.by, r.state, r.comment) for r in state.revisions(1)]
    assert rows == [(1, "ann", "Active", None), (2, "ben", "Active", 1), (3, "cat", "Done", None)]
