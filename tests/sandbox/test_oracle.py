"""The oracle says of each rule of the world format who may read, in both directions."""

from __future__ import annotations

from typing import Any

import pytest

from fixtures.sandbox.access import may_read
from tests.sandbox import small
from tests.sandbox.small import allow, deny, item, message, page

ALL = ["ann", "ben", "cat", "dan", "eve", "gil", "bot"]
OPEN = allow("group:everyone", "gil", "bot")
PULL = {"id": 1, "title": "p", "created": small.stamp()}
REPO: dict[str, Any] = {"commits": [small.commit("c1", a_md="x")], "pull_requests": [PULL]}
ITEM, PAGE, FILE = "work_item:1", "wiki:P.wiki/A", "file:r/a.md"
CODE_PAGE = "wiki:Docs/A"


def readers(project: dict[str, Any], ref: str, **more: Any) -> set[str]:
    """Who may read `ref` in a project with an item, a page, a repo and a code wiki."""
    whole: dict[str, Any] = {"work_items": [item(1)], "repos": {"r": REPO}} | project
    wiki = {"pages": {"A": page()}} | whole.pop("wiki", {})
    code = {"kind": "code", "repo": "r", "path": "/docs", "pages": {"A": page()}} | whole.pop("code_wiki", {})
    state = small.state(whole | {"wikis": {"P.wiki": wiki, "Docs": code}}, **more)
    return {person for person in ALL if may_read(state, person, ref)}


# --- gate 1: the project


def test_a_project_without_an_acl_lets_nobody_in() -> None:
    assert readers({}, ITEM) == set()


def test_naming_people_and_nested_groups_lets_them_in() -> None:
    assert readers({"acl": allow("ann")}, ITEM) == {"ann"}
    assert readers({"acl": allow("group:staff")}, ITEM) == {"ann", "ben"}
    assert readers({"acl": allow("group:ops")}, ITEM) == {"ann", "ben", "cat"}


def test_everyone_is_all_members_but_neither_guests_nor_service_principals() -> None:
    assert readers({"acl": allow("group:everyone")}, ITEM) == {"ann", "ben", "cat"}


def test_a_guest_or_service_principal_reads_what_names_them() -> None:
    assert readers({"acl": allow("gil", "bot")}, ITEM) == {"gil", "bot"}


def test_a_person_who_left_or_was_disabled_reads_nothing() -> None:
    assert "eve" not in readers({"acl": allow("eve")}, ITEM)
    event = {"id": "off", "after": "1m", "disable_person": {"who": "ann"}}
    state = small.state({"acl": OPEN, "work_items": [item(1)]}, events=[event])
    assert may_read(state, "ann", ITEM)
    state.apply("off")
    assert not may_read(state, "ann", ITEM)


def test_deny_beats_allow_on_one_node() -> None:
    assert readers({"acl": [*OPEN, *deny("group:inner")]}, ITEM) == {"cat", "gil", "bot"}


def test_an_entry_for_other_rights_names_nobody() -> None:
    other = [{"to": "group:everyone", "allow": ["write"], "deny": ["admin"]}]
    assert readers({"acl": other}, ITEM) == set()
    assert readers({"acl": OPEN, "areas": {"/": {"acl": other}}}, ITEM) == {"ann", "ben", "cat", "gil", "bot"}


def test_the_project_gate_stands_before_every_object() -> None:
    nodes: dict[str, Any] = {"areas": {"/": {"acl": allow("cat")}}, "wiki": {"acl": allow("cat")}}
    assert readers({"acl": allow("ann")} | nodes, ITEM) == {"ann"}
    assert readers({"acl": allow("ann")} | nodes, PAGE) == {"ann"}


# --- visibility


def test_an_organization_project_is_open_to_members_only() -> None:
    assert readers({"visibility": "organization"}, ITEM) == {"ann", "ben", "cat"}


def test_a_public_project_is_open_to_anyone_signed_in_with_a_licence() -> None:
    assert readers({"visibility": "public"}, ITEM) == {"ann", "ben", "cat", "gil", "bot"}


def test_an_explicit_deny_of_the_project_beats_open_visibility() -> None:
    assert readers({"visibility": "public", "acl": deny("ann")}, ITEM) == {"ben", "cat", "gil", "bot"}


def test_visibility_counts_at_the_far_end_of_the_chain_only() -> None:
    closed = {"areas": {"/": {"acl": deny("group:everyone")}}}
    assert readers({"visibility": "public"} | closed, ITEM) == {"gil", "bot"}
    cut = {"areas": {"/": {"inherit": False}}}
    assert readers({"visibility": "public"} | cut, ITEM) == set()


# --- gate 2: the object's chain


def chain(area: str, areas: dict[str, Any], **project: Any) -> set[str]:
    return readers({"acl": OPEN, "areas": areas, "work_items": [item(1, area)]} | project, ITEM)


def test_the_nearest_area_that_names_the_asker_decides() -> None:
    areas: dict[str, Any] = {"/A": {"acl": deny("group:inner")}, "/A/B": {"acl": allow("ben")}}
    assert chain("/A", areas) == {"cat", "gil", "bot"}  # inner holds ann too, through the cycle
    assert chain("/A/B", areas) == {"ben", "cat", "gil", "bot"}
    assert chain("/A/B/C", areas) == {"ben", "cat", "gil", "bot"}


def test_the_root_area_stands_between_areas_and_project() -> None:
    areas: dict[str, Any] = {"/": {"acl": deny("cat")}, "/A": {}}
    assert chain("/A", areas) == {"ann", "ben", "gil", "bot"}


def test_a_node_that_does_not_inherit_cuts_everything_behind_it() -> None:
    areas: dict[str, Any] = {"/": {"acl": allow("cat")}, "/A": {"acl": allow("ann"), "inherit": False}}
    assert chain("/A", areas) == {"ann"}
    assert chain("/A/B", areas) == {"ann"}
    assert chain("/", areas) == {"ann", "ben", "cat", "gil", "bot"}


def test_a_cut_without_an_acl_leaves_nobody() -> None:
    assert chain("/A", {"/A": {"inherit": False}}) == set()


def test_a_repo_has_a_chain_of_its_own() -> None:
    assert readers({"acl": OPEN}, FILE) == {"ann", "ben", "gil", "bot"}  # cat is a stakeholder
    closed = {"r": REPO | {"acl": allow("ann"), "inherit": False}}
    for ref in (FILE, "commit:r/c1", "pr:r/1", "repo:r"):
        assert readers({"acl": OPEN, "repos": closed}, ref) == {"ann"}
    assert readers({"acl": OPEN, "repos": closed}, ITEM) == {"ann", "ben", "cat", "gil", "bot"}


def test_a_grant_on_one_repo_is_none_on_its_sibling() -> None:
    repos = {"r": REPO | {"acl": allow("ben"), "inherit": False}, "s": REPO | {"acl": allow("ann"), "inherit": False}}
    assert readers({"acl": OPEN, "repos": repos}, FILE) == {"ben"}
    assert readers({"acl": OPEN, "repos": repos}, "file:s/a.md") == {"ann"}


def test_a_branch_acl_gives_and_takes_no_right_to_read() -> None:
    branches = {"r": REPO | {"branches": {"main": {"acl": deny("ann"), "inherit": False}}}}
    assert readers({"acl": OPEN, "repos": branches}, FILE) == {"ann", "ben", "gil", "bot"}


def test_a_disabled_repo_is_read_by_nobody_nor_is_its_code_wiki() -> None:
    off = {"r": REPO | {"disabled": True}}
    assert readers({"acl": OPEN, "repos": off}, FILE) == set()
    assert readers({"acl": OPEN, "repos": off}, CODE_PAGE) == set()


def test_a_project_wiki_has_its_own_acl_and_a_code_wiki_its_repos() -> None:
    assert readers({"acl": OPEN, "wiki": {"acl": deny("ann")}}, PAGE) == {"ben", "cat", "gil", "bot"}
    assert readers({"acl": OPEN, "wiki": {"acl": allow("ann"), "inherit": False}}, PAGE) == {"ann"}
    assert readers({"acl": OPEN, "code_wiki": {"acl": allow("cat"), "inherit": False}}, CODE_PAGE) == {
        *("ann", "ben", "gil", "bot")
    }
    assert readers({"acl": OPEN, "repos": {"r": REPO | {"acl": deny("ann")}}}, CODE_PAGE) == {"ben", "gil", "bot"}


# --- gate 3: the licence


def test_a_stakeholder_reads_items_and_project_wikis_but_no_code() -> None:
    seen = {ref: "cat" in readers({"acl": OPEN}, ref) for ref in (ITEM, PAGE, FILE, "commit:r/c1", "pr:r/1", CODE_PAGE)}
    assert seen == {ITEM: True, PAGE: True, FILE: False, "commit:r/c1": False, "pr:r/1": False, CODE_PAGE: False}


def test_a_stakeholder_reads_code_where_the_project_is_public() -> None:
    for ref in (FILE, "commit:r/c1", "pr:r/1", CODE_PAGE):
        assert "cat" in readers({"acl": OPEN, "visibility": "public"}, ref)
        assert "cat" not in readers({"acl": OPEN, "visibility": "organization"}, ref)


def test_without_a_licence_nothing_is_read_even_where_all_is_public() -> None:
    for ref in (ITEM, PAGE, FILE, CODE_PAGE, "project:P", "area:P"):
        assert "dan" not in readers({"acl": allow("dan"), "visibility": "public"}, ref)


# --- what is gone


def test_deleted_items_are_read_by_nobody() -> None:
    gone = small.stamp()
    project = {"work_items": [item(1, deleted=gone)], "wiki": {"pages": {"A": page(deleted=gone)}}}
    assert readers({"acl": OPEN} | project, ITEM) == set()
    assert readers({"acl": OPEN} | project, PAGE) == set()


def test_a_deleted_comment_is_gone_though_its_item_is_not() -> None:
    comments = [small.stamp() | {"text": "kept"}, small.stamp() | {"text": "gone", "deleted": True}]
    project = {"acl": OPEN, "work_items": [item(1, comments=comments)]}
    assert readers(project, "comment:1/1") == readers(project, ITEM) != set()
    assert readers(project, "comment:1/2") == set()


def test_a_file_is_read_only_while_it_stands_at_the_head_of_the_default_branch() -> None:
    commits = [small.commit("c1", a_md="x", b_md="y"), small.commit("c2", a_md=None)]
    side = small.commit("c3", c_md="z") | {"branch": "side"}
    repos = {"r": REPO | {"commits": [*commits, side]}}
    assert readers({"acl": OPEN, "repos": repos}, FILE) == set()
    assert readers({"acl": OPEN, "repos": repos}, "file:r/c.md") == set()
    assert "ann" in readers({"acl": OPEN, "repos": repos}, "file:r/b.md")


# --- Teams

TEAMS: dict[str, Any] = {
    "T": {
        "members": ["ben", "gil"],
        "owners": ["ann"],
        "channels": {
            "General": {"messages": [message("m", replies=[message("r")])]},
            "Private": {"kind": "private", "members": ["ann"], "messages": [message("m")]},
            "Shared": {"kind": "shared", "members": ["bot"], "shared_with": ["team:U"], "messages": [message("m")]},
        },
    },
    "U": {"members": ["group:ops", "gil", "eve"], "channels": {}},
}


def talkers(ref: str, **team: Any) -> set[str]:
    state = small.state(teams=TEAMS | {"T": TEAMS["T"] | team})
    return {person for person in ALL if may_read(state, person, ref)}


def test_members_read_a_standard_channel_and_owners_who_are_no_members_do_not() -> None:
    assert talkers("message:T/General/m") == talkers("message:T/General/r") == {"ben", "gil"}


def test_a_private_channel_has_its_own_members_whatever_the_team() -> None:
    assert talkers("message:T/Private/m") == {"ann"}
    assert talkers("message:T/Private/m", visibility="public") == {"ann"}


def test_a_shared_channel_is_read_by_its_members_and_the_members_but_not_guests_of_its_teams() -> None:
    assert talkers("message:T/Shared/m") == {"bot", "ann", "ben", "cat"}


def test_a_public_teams_standard_channels_are_read_by_every_member_of_the_tenant() -> None:
    assert talkers("message:T/General/m", visibility="public") == {"ann", "ben", "cat", "dan", "gil"}


def test_a_deleted_message_is_gone_and_its_replies_are_not() -> None:
    messages = [message("m", deleted=small.NOW, replies=[message("r")])]
    team = {"members": ["ben"], "channels": {"General": {"messages": messages}}}
    state = small.state(teams={"T": team})
    assert not may_read(state, "ben", "message:T/General/m")
    assert may_read(state, "ben", "message:T/General/r")


def test_no_licence_of_azure_devops_is_needed_in_teams() -> None:
    assert "dan" in talkers("message:T/General/m", members=["dan"])


@pytest.mark.parametrize("ref", ["project:P", "repo:r", "area:P", "wiki:P.wiki", ITEM])
def test_a_deleted_project_takes_everything_along(ref: str) -> None:
    events = [{"id": "gone", "after": "1m", "delete": {"item": "project:P"}}]
    project = {"acl": OPEN, "work_items": [item(1)], "repos": {"r": REPO}, "wikis": {"P.wiki": {"pages": {}}}}
    state = small.state(project, events=events)
    assert may_read(state, "ann", ref)
    state.apply("gone")
    assert not may_read(state, "ann", ref)
