"""Both worlds, whole: every message with its facts, and every person's access to it, before and after each event."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from core import principals, uris
from fixtures.sandbox import access
from fixtures.sandbox.references import message_url
from ingestion.connector import AccessSnapshot, PersonKind
from ingestion.teams.rosters import scope_id
from tests.ingestion.teams.support import WORLD_NAMES, WORLDS, Kept, Live, closure, live, message_refs

TEAMS_EVENTS = {"add_member", "remove_member", "delete", "restore", "edit", "rename", "disable_person", "post", "label"}


@pytest.fixture(params=WORLD_NAMES)
def world(request: pytest.FixtureRequest, sandbox_home: Path) -> Iterator[Live]:
    with live(WORLDS / request.param, sandbox_home) as running:
        yield running


def _assert_items_are_the_worlds(kept: Kept, world: Live) -> None:
    state = world.server.state
    expected = set[str]()
    for ref in message_refs(world.server):
        team, channel, key = ref.parts
        now = state.message(team, channel, key)
        root = state.message(team, channel, now.root_key) if now.root_key else now
        address, own = world.thread(team, channel, key), world.reply(team, channel, key)
        if root.deleted or now.deleted:
            item = kept.items.get(address)
            assert item is None or own not in {p.uri for p in item.parts}, ref
            continue
        expected.add(address)
        item = kept.items[address]
        part = next(p for p in item.parts if p.uri == own)
        assert part.at == now.created
        author = state.world.people[now.message.by.removeprefix("person:")]
        assert part.author is not None
        assert part.author.name == author.name
        is_service = author.kind == "service"
        assert part.author.principal == (None if is_service else world.principal(now.message.by))
        words = now.message.body.split()
        assert now.message.format == "html" or all(w.strip("@*_") in part.text for w in words), ref
        assert item.scope == scope_id(state.tenant_id, world.channel_id(team, channel))
        assert item.url == message_url(state, team, channel, root.id)
        assert item.created_at == root.created
        assert item.container == f"{state.name(_team(team))}/{state.name(_channel(team, channel))}"
    assert set(kept.items) == expected
    for item in kept.items.values():
        assert item.modified_at is not None
        assert item.modified_at >= max(p.at for p in item.parts if p.at)


def _team(team: str) -> access.Ref:
    return access.Ref("team", (team,))


def _channel(team: str, channel: str) -> access.Ref:
    return access.Ref("channel", (team, channel))


def _assert_access_is_the_worlds(kept: Kept, snapshot: AccessSnapshot, world: Live) -> None:
    state = world.server.state
    rules = {s.id: s.acl for s in snapshot.scopes}
    held = {p.uri: item.scope for item in kept.items.values() for p in item.parts}
    for person in state.world.people:
        mine = closure(snapshot, world.principal(person))
        # The oracle is slow; of two messages of a channel that are there it says the same.
        known: dict[tuple[str, str], bool] = {}
        for ref in message_refs(world.server):
            team, channel, key = ref.parts
            root = state.message(team, channel, state.message(team, channel, key).root_key or key)
            if root.deleted or ref in state.deleted:
                may = False
            else:
                if (team, channel) not in known:
                    known[team, channel] = access.may_read(state, person, ref)
                may = known[team, channel]
            scope = held.get(world.reply(team, channel, key))
            assert (scope is not None and rules[scope].permits(mine)) == may, (person, str(ref))


def test_every_message_and_its_readers_are_those_of_the_world(world: Live) -> None:
    kept = Kept()
    snapshot = kept.sync(world.connector)
    assert snapshot.complete
    assert not snapshot.unknown_principals
    assert not kept.failures
    _assert_items_are_the_worlds(kept, world)
    _assert_access_is_the_worlds(kept, snapshot, world)


def test_after_every_event_items_and_readers_are_those_of_the_world(world: Live) -> None:
    kept = Kept()
    kept.sync(world.connector)
    touching = [e.id for e in world.server.state.world.events if e.kind in TEAMS_EVENTS]
    assert touching
    for event in touching:
        world.server.apply(event)
        snapshot = kept.sync(world.connector)
        _assert_items_are_the_worlds(kept, world)
        _assert_access_is_the_worlds(kept, snapshot, world)
    fresh = Kept()
    fresh.sync(world.again())
    assert fresh.digests() == kept.digests()


def test_the_directory_is_that_of_the_world(world: Live) -> None:
    state = world.server.state
    people = {p.principal: p for p in world.connector.access().people}
    assert set(people) == {world.principal(key) for key in state.world.people}
    for key, model in state.world.people.items():
        person = people[world.principal(key)]
        assert (person.name, person.kind, person.enabled) == (model.name, PersonKind(model.kind), state.enabled(key))
        if model.kind != "service":
            assert (person.upn, person.title, person.department) == (model.upn, model.title, model.department)
            assert person.manager == (world.principal(model.manager.split(":")[-1]) if model.manager else None)


def test_a_group_holds_whom_the_world_says_however_it_is_nested(world: Live) -> None:
    state = world.server.state
    snapshot = world.connector.access()
    for key in state.world.people:
        mine = closure(snapshot, world.principal(key))
        groups = {principals.group(state.tenant_id, state.ids.group(g)): g for g in state.world.groups}
        if state.enabled(key):
            known = {g for g in state.containing_groups(access.Ref("person", (key,))) if g in state.world.groups}
            entra = {g for g in known if state.world.groups[g].kind == "entra"}
            assert {groups[p] for p in mine & set(groups)} == entra


def test_the_scope_of_an_address_is_known_without_asking(world: Live) -> None:
    kept = Kept()
    kept.sync(world.connector)
    for item in kept.items.values():
        assert world.connector.scope_of(item.uri) == item.scope
        assert all(world.connector.scope_of(part.uri) == item.scope for part in item.parts)
    assert world.connector.scope_of(uris.work_item("contoso", 4711)) is None
    assert world.again().scope_of(next(iter(kept.items))) is None
