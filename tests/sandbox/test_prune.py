"""A pruned world holds what its person may read, unchanged, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.sandbox.access import readable
from fixtures.sandbox.prune import world_without_unreadable
from fixtures.sandbox.references import target
from fixtures.sandbox.refs import Ref
from fixtures.sandbox.state import SandboxState
from fixtures.sandbox.world import World, load_world
from tests.sandbox import small

WORLDS = Path(__file__).parents[2] / "fixtures" / "worlds"
CASES = [(folder.name, key) for folder in sorted(WORLDS.iterdir()) for key in load_world(folder).people]


@pytest.fixture(scope="module")
def loaded() -> dict[str, World]:
    return {folder.name: load_world(folder) for folder in sorted(WORLDS.iterdir())}


@pytest.mark.parametrize(("name", "person"), CASES)
def test_what_a_person_may_read_is_the_same_with_and_without_the_rest(
    loaded: dict[str, World], name: str, person: str
) -> None:
    world = loaded[name]
    full, pruned = SandboxState(world), SandboxState(world_without_unreadable(world, person))
    may = readable(full, person)
    assert readable(pruned, person) == may
    assert {target(pruned, str(ref)) for ref in may} == {target(full, str(ref)) for ref in may}
    assert list(pruned.world.people) == list(full.world.people)
    assert pruned.world.groups == full.world.groups
    assert list(pruned.projects()) == list(full.projects())
    assert list(pruned.channel_keys()) == list(full.channel_keys())


@pytest.mark.parametrize(("name", "person"), CASES)
def test_nothing_that_a_person_may_not_read_is_left(loaded: dict[str, World], name: str, person: str) -> None:
    world = loaded[name]
    full, pruned = SandboxState(world), SandboxState(world_without_unreadable(world, person))
    may = readable(full, person)
    left = set(pruned.everything()) - may
    # Left over are: deleted comments (blank), files and commits of readable repos that are no longer at the head,
    # and deleted roots of readable threads (blank).
    for ref in left:
        assert ref.kind in ("comment", "file", "message"), ref
        if ref.kind != "file":
            assert target(pruned, str(ref)).text == ""


@pytest.mark.parametrize(("name", "person"), CASES)
def test_after_all_events_too(loaded: dict[str, World], name: str, person: str) -> None:
    world = loaded[name]
    last = world.events[-1].id
    full, pruned = SandboxState(world), SandboxState(world_without_unreadable(world, person, after=last))
    full.apply(last)
    pruned.apply(last)
    may = readable(full, person)
    assert readable(pruned, person) == may
    assert {target(pruned, str(ref)) for ref in may} == {target(full, str(ref)) for ref in may}
    assert pruned.now == full.now


def test_the_original_is_not_touched(loaded: dict[str, World]) -> None:
    world = loaded["contoso"]
    before = world.model_dump_json()
    world_without_unreadable(world, next(iter(world.people)))
    assert world.model_dump_json() == before


def test_a_link_to_what_is_gone_stays_in_the_readable_item_and_its_ids_still_follow_from_names() -> None:
    areas = {"/Secret": {"acl": small.allow("ann"), "inherit": False}}
    links = [{"rel": "related", "to": "work_item:2"}, {"rel": "related", "to": "commit:r/c1"}]
    repo = {"acl": small.allow("ann"), "inherit": False, "commits": [small.commit("c1", a_md="x")]}
    project = {"acl": small.allow("group:staff"), "areas": areas, "repos": {"r": repo}}
    project["work_items"] = [small.item(1, links=links), small.item(2, "/Secret")]
    world = small.world(project)
    pruned = SandboxState(world_without_unreadable(world, "ben"))
    item = pruned.lookup.work_items[1][1]
    assert [link.to for link in item.links] == ["work_item:2", "commit:r/c1"]
    assert 2 not in pruned.lookup.work_items
    assert pruned.lookup.parse("commit:r/c1") == Ref("commit", ("r", "c1"))
    assert pruned.ids.commit("r", "c1") == SandboxState(world).git("r").commits[0].sha
    assert "/Secret" in pruned.areas("P")


def test_events_on_what_was_taken_out_change_nothing_and_the_clock_still_moves() -> None:
    teams = {"T": {"members": ["ann"], "channels": {"C": {"messages": [small.message("m")]}}}}
    events = [
        {"id": "post", "after": "1m", "post": {"channel": "T/C", "message": small.message("n", "news")}},
        {"id": "edit", "after": "2m", "edit": {"item": "message:T/C/n", "by": "ann", "body": "more news"}},
        {"id": "reply", "after": "3m", "post": {"channel": "message:T/C/n", "message": small.message("q", "yes")}},
        {"id": "rename", "after": "4m", "rename": {"what": "channel:T/C", "to": "D"}},
    ]
    world = small.world(teams=teams, events=events)
    for person, there in (("ben", []), ("ann", ["m", "n"])):
        state = SandboxState(world_without_unreadable(world, person))
        state.apply("rename")
        assert sorted(now.key for now in state.messages("T", "C")) == there
        assert state.name(Ref("channel", ("T", "C"))) == "D"
        assert "news" not in state.world.model_dump_json(include={"teams"}) or person == "ann"
        full = SandboxState(world)
        full.apply("rename")
        assert state.now == full.now
