"""Memberships have an age too: what was learnt of a directory longer ago than promised lets nobody in."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from core.access import Gate, Layer, ScopeAcl, ScopeId
from core.clock import FixedClock
from core.directory import Container
from core.principals import Principal, parse
from graph.db import Database
from graph.directory import DirectoryStore
from graph.scopes import ScopeStore
from graph.standing import Bar
from tests.graph.support import IRIS, LIMIT, NOW, TEO, allow, asking, box, group, member, scope, scope_store

STALE = timedelta(seconds=1) + LIMIT


def open_scope(db: Database, acl: ScopeAcl, clock: FixedClock) -> ScopeStore:
    """One scope of Azure DevOps, whose own permissions were read just now."""
    scopes = scope_store(db, clock)
    scopes.apply("azure_devops", [scope("w", acl)], complete=True, at=NOW)
    scopes.touch("azure_devops", NOW)
    return scopes


def reads(db: Database, scopes: ScopeStore, who: Principal) -> bool:
    """Whether somebody's Trim holds the scope, and an explanation says the same."""
    counted = DirectoryStore(db).closure(who)
    opens = ScopeId("w") in scopes.trim_for(asking(who, *counted)).readable
    standing = scopes.standing(ScopeId("w"), counted)
    assert standing is not None
    assert standing.opens is opens
    return opens


@pytest.mark.parametrize("source", ["teams", "graph"])
def test_while_the_directory_can_t_be_read_other_sources_shut_too_once_the_promise_has_passed(
    source: str, ingest_db: Database
) -> None:
    people = [member("iris")]
    DirectoryStore(ingest_db).apply(source, people, [box("crew", IRIS)], complete=True, at=NOW - LIMIT)
    clock = FixedClock(NOW)
    scopes = open_scope(ingest_db, allow(group("crew")), clock)
    assert reads(ingest_db, scopes, IRIS)
    # Azure DevOps goes on being read; the directory, which says who is in the group, does not.
    clock.move_to(clock.now() + timedelta(seconds=1))
    scopes.touch("azure_devops", clock.now())
    assert not reads(ingest_db, scopes, IRIS)
    standing = scopes.standing(ScopeId("w"), frozenset({IRIS}))
    assert standing is not None
    assert Bar.STALE_DIRECTORY in standing.bars
    DirectoryStore(ingest_db).apply(source, people, [box("crew", IRIS)], complete=True, at=clock.now())
    assert reads(ingest_db, scopes, IRIS)


def test_reading_the_readers_of_one_place_makes_no_directory_any_younger(ingest_db: Database) -> None:
    """What deliveries name is read by itself, and says nothing of accounts and groups, however often it comes."""
    directory, clock = DirectoryStore(ingest_db), FixedClock(NOW)
    directory.apply("teams", [member("iris")], [box("crew", IRIS)], complete=True, at=NOW)
    scopes = open_scope(ingest_db, allow(group("crew")), clock)
    clock.move_to(clock.now() + STALE)
    scopes.touch("azure_devops", clock.now())
    roster = Container(principal=parse("channel:19:x@thread.tacv2"), name="x", kind="channel", members=frozenset())
    directory.apply("teams", [], [roster], complete=False, at=clock.now())
    assert not reads(ingest_db, scopes, IRIS)


def test_one_group_that_can_t_be_read_lets_nobody_in_through_it_after_that_time(ingest_db: Database) -> None:
    directory, clock = DirectoryStore(ingest_db), FixedClock(NOW)
    people = [member("iris"), member("teo")]
    boxes = [box("crew", IRIS), box("yard", group("crew")), box("dock", TEO)]
    directory.apply("teams", people, boxes, complete=True, at=NOW)
    scopes = open_scope(ingest_db, allow(group("yard"), group("dock")), clock)
    unread = [box("crew", unread=True), *boxes[1:]]
    directory.apply("teams", people, unread, complete=False, at=NOW)
    # What was known of it still holds for a while, through other groups too.
    assert reads(ingest_db, scopes, IRIS)
    clock.move_to(clock.now() + STALE)
    directory.apply("teams", people, unread, complete=False, at=clock.now())
    scopes.touch("azure_devops", clock.now())
    assert not reads(ingest_db, scopes, IRIS)
    assert reads(ingest_db, scopes, TEO)
    standing = scopes.standing(ScopeId("w"), DirectoryStore(ingest_db).closure(IRIS))
    assert standing is not None
    assert standing.lapsed == (group("crew"), group("yard"))
    directory.apply("teams", people, boxes, complete=True, at=clock.now())
    assert reads(ingest_db, scopes, IRIS)


def test_a_deny_of_a_group_that_no_directory_lists_yet_shuts_the_scope_until_one_was_read(ingest_db: Database) -> None:
    directory, clock = DirectoryStore(ingest_db), FixedClock(NOW)
    directory.apply("teams", [member("iris")], [], complete=True, at=NOW - timedelta(seconds=1))
    layer = Layer("here", allow=frozenset({IRIS}), deny=frozenset({group("new")}))
    scopes = open_scope(ingest_db, ScopeAcl((Gate("object", (layer,)),)), clock)
    assert not reads(ingest_db, scopes, IRIS)
    # The directory was read after the rule, and has no such group: it was deleted, and denies nobody.
    clock.move_to(clock.now() + timedelta(seconds=1))
    directory.apply("teams", [member("iris")], [], complete=True, at=clock.now())
    assert reads(ingest_db, scopes, IRIS)


def test_so_does_one_of_a_container_that_just_got_a_group_which_no_directory_lists_yet(ingest_db: Database) -> None:
    """Who is in the new group, and so denied through the container, is known once a directory was read after it."""
    directory, clock = DirectoryStore(ingest_db), FixedClock(NOW)
    people = [member("iris")]
    kept_out, around = (Container(principal=parse(f"ado:{x}"), name=x, kind="ado", members=None) for x in "ka")

    def devops(*members: Principal, at: datetime) -> None:
        inner = replace(kept_out, members=frozenset(members))
        outer = replace(around, members=frozenset({kept_out.principal}))
        directory.apply("azure_devops", [], [inner, outer], complete=True, at=at)

    directory.apply("teams", people, [box("crew", IRIS)], complete=True, at=NOW - timedelta(seconds=2))
    devops(group("crew"), at=NOW - timedelta(seconds=3))
    layer = Layer("here", allow=frozenset({IRIS}), deny=frozenset({around.principal}))
    layer_of_teo = Layer("here", allow=frozenset({TEO}))
    scopes = open_scope(ingest_db, ScopeAcl((Gate("object", (layer, layer_of_teo)),)), clock)
    assert not reads(ingest_db, scopes, IRIS)  # denied, as one of the crew
    assert reads(ingest_db, scopes, TEO)
    devops(group("crew"), group("new"), at=NOW - timedelta(seconds=1))
    assert not reads(ingest_db, scopes, TEO)
    standing = scopes.standing(ScopeId("w"), frozenset({TEO}))
    assert standing is not None
    assert standing.bars == (Bar.UNREAD_DENY,)
    directory.apply("teams", people, [box("crew", IRIS), box("new", IRIS)], complete=True, at=clock.now())
    assert reads(ingest_db, scopes, TEO)
    # A group that was read about and is not listed was deleted, and has nobody in it.
    devops(group("crew"), group("new"), group("dead"), at=clock.now() + timedelta(seconds=1))
    assert not reads(ingest_db, scopes, TEO)
    directory.apply(
        "teams", people, [box("crew", IRIS), box("new", IRIS)], complete=True, at=NOW + timedelta(seconds=2)
    )
    assert reads(ingest_db, scopes, TEO)
