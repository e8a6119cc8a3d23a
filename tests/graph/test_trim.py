"""What an asker may read, worked out from rules, memberships and the age of both."""

from __future__ import annotations

import gc
import weakref
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import Connection
from psycopg.rows import DictRow

import graph.scopes
from core.access import Gate, Layer, Scope, ScopeAcl, ScopeId
from core.clock import FixedClock
from core.errors import InvariantError
from core.principals import Principal, parse
from graph.db import Database
from graph.directory import DirectoryStore
from graph.scopes import ScopeStore
from tests.graph.support import (
    IRIS,
    LIMIT,
    NOW,
    TEO,
    allow,
    asking,
    box,
    group,
    member,
    open_trim,
    scope,
    scope_store,
)

PEOPLE = [parse(f"user:t/p{n}") for n in range(4)]
GROUPS = [group(f"g{n}") for n in range(5)]
EVERYBODY = [*PEOPLE, *GROUPS]

principals = st.sampled_from(EVERYBODY)
layers = st.builds(
    Layer,
    node=st.sampled_from(["near", "far"]),
    allow=st.frozensets(principals, max_size=3),
    deny=st.frozensets(principals, max_size=2),
)
gates = st.builds(
    Gate, name=st.sampled_from(["project", "object", "licence"]), layers=st.lists(layers, max_size=3).map(tuple)
)
rules = st.lists(gates, max_size=3).map(lambda g: ScopeAcl(tuple(g)))
memberships = st.dictionaries(st.sampled_from(GROUPS), st.one_of(st.none(), st.frozensets(principals, max_size=4)))


def naive_closure(who: Principal, members: dict[Principal, frozenset[Principal]]) -> frozenset[Principal]:
    """By repetition until nothing is added."""
    mine = {who}
    while True:
        more = {g for g, inside in members.items() if inside & mine} - mine
        if not more:
            return frozenset(mine)
        mine |= more


def naive_permits(acl: ScopeAcl, mine: frozenset[Principal]) -> bool:
    """Gate by gate, layer by layer, as the design says it in words."""
    if not acl.gates:
        return False
    for gate in acl.gates:
        passed = False
        for layer in gate.layers:
            if layer.deny & mine:
                break
            if layer.allow & mine:
                passed = True
                break
        if not passed:
            return False
    return True


@pytest.fixture
def scopes(ingest_db: Database) -> ScopeStore:
    return scope_store(ingest_db)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.data(),
    given_rules=st.lists(rules, min_size=1, max_size=8),
    given_members=memberships,
    earlier=st.lists(rules, max_size=8),
)
def test_the_trim_is_what_a_naive_reading_of_all_rules_gives(
    ingest_db: Database,
    data: st.DataObject,
    given_rules: list[ScopeAcl],
    given_members: dict[Principal, frozenset[Principal] | None],
    earlier: list[ScopeAcl],
) -> None:
    with ingest_db.connection() as connection:
        connection.execute("TRUNCATE scopes, containers, memberships, people, directory_syncs, permission_syncs")
    scopes, directory = scope_store(ingest_db), DirectoryStore(ingest_db)
    # A rule that held before may still stand in the index.
    before = [scope(f"s{n}", acl) for n, acl in enumerate(earlier)]
    scopes.apply("wikis", before, complete=True, at=NOW)
    for scope_id, _, version in scopes.pending():
        scopes.mark_indexed(scope_id, version)
    now = [scope(f"s{n}", acl) for n, acl in enumerate(given_rules)]
    scopes.apply("wikis", now, complete=True, at=NOW)
    scopes.touch("wikis", NOW)
    directory.apply(
        "graph",
        [member(f"p{n}") for n in range(4)],
        [box(g.removeprefix("group:t/"), *(m or ()), unread=m is None) for g, m in given_members.items()],
        complete=True,
        at=NOW,
    )
    known = {g: m or frozenset() for g, m in given_members.items()}
    unread = {g for g, m in given_members.items() if m is None}
    unresolved = {x for x in EVERYBODY if any(x in naive_closure(u, known) for u in unread)}
    who = data.draw(st.sampled_from(PEOPLE))
    mine = naive_closure(who, known)
    everyone = frozenset(parse(f"{kind}:t") for kind in ("everyone", "anyone"))

    closure = directory.closure(who)
    assert closure == mine | everyone
    trim = scopes.trim_for(asking(who, *closure))

    assert directory.unresolved() == unresolved
    readable = {s.id for s in now if naive_permits(s.acl, mine) and not s.acl.denied_principals() & unresolved}
    assert trim.readable == readable
    # Whatever an allow names, now or in the index, is either readable or blocked; and nothing else can match.
    names: dict[ScopeId, set[Principal]] = {}
    for s in [*before, *now]:
        names.setdefault(s.id, set()).update(s.acl.allowed_principals())
    could_match = {s for s, named in names.items() if named & mine}
    assert set(trim.blocked) == could_match - readable
    assert set(trim.matching) == {p for named in names.values() for p in named & mine}


def test_a_revoked_scope_is_closed_to_the_very_next_question(scopes: ScopeStore) -> None:
    scopes.apply("wikis", [scope("s", allow(IRIS))], complete=True, at=NOW)
    scopes.touch("wikis", NOW)
    assert scopes.trim_for(asking(IRIS)).readable == {"s"}
    scopes.apply("wikis", [scope("s", allow(TEO))], complete=True, at=NOW)
    trim = scopes.trim_for(asking(IRIS))
    assert trim.readable == frozenset()
    assert trim.blocked == ("s",)
    assert trim.matching == (IRIS,)


def test_a_revocation_by_another_process_is_obeyed_too(ingest_db: Database, query_db: Database) -> None:
    writer, reader = scope_store(ingest_db), scope_store(query_db)
    writer.apply("wikis", [scope("s", allow(IRIS))], complete=True, at=NOW)
    writer.touch("wikis", NOW)
    assert reader.trim_for(asking(IRIS)).readable == {"s"}
    writer.apply("wikis", [scope("s", allow(TEO))], complete=True, at=NOW)
    assert reader.trim_for(asking(IRIS)).readable == frozenset()


def test_a_trim_is_what_held_at_one_moment_and_the_next_one_obeys_what_came_meanwhile(
    ingest_db: Database, query_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, reader = scope_store(ingest_db), scope_store(query_db)
    writer.apply("wikis", [scope("a", allow(IRIS)), scope("b", allow(TEO))], complete=True, at=NOW)
    writer.touch("wikis", NOW)
    epoch = writer.epoch()
    read = graph.scopes.unresolved_in

    def interrupted(connection: Connection[DictRow]) -> frozenset[Principal]:
        found = read(connection)
        writer.apply("wikis", [scope("a", allow(TEO)), scope("b", allow(IRIS))], complete=True, at=NOW)
        return found

    with monkeypatch.context() as patch:
        patch.setattr("graph.scopes.unresolved_in", interrupted)
        trim = reader.trim_for(asking(IRIS))
    assert (trim.epoch, trim.readable) == (epoch, {"a"})
    assert reader.trim_for(asking(IRIS)).readable == {"b"}


def test_a_membership_that_ends_is_obeyed_by_the_very_next_question(ingest_db: Database, scopes: ScopeStore) -> None:
    directory = DirectoryStore(ingest_db)
    scopes.apply("wikis", [scope("s", allow(group("crew")))], complete=True, at=NOW)
    scopes.touch("wikis", NOW)
    directory.apply("graph", [member("iris")], [box("crew", IRIS)], complete=True, at=NOW)
    assert scopes.trim_for(asking(IRIS, *directory.closure(IRIS))).readable == {"s"}
    assert directory.apply("graph", [member("iris")], [box("crew")], complete=True, at=NOW)
    assert scopes.trim_for(asking(IRIS, *directory.closure(IRIS))).readable == frozenset()


def test_a_scope_that_its_source_no_longer_lists_is_nobodys(scopes: ScopeStore) -> None:
    scopes.apply("wikis", [scope("kept", allow(IRIS)), scope("gone", allow(IRIS))], complete=True, at=NOW)
    scopes.touch("wikis", NOW)
    changes = scopes.apply("wikis", [scope("kept", allow(IRIS))], complete=True, at=NOW)
    assert [(c.scope_id, c.allowed, c.acl_version, c.changed) for c in changes] == [
        ("gone", (), 2, True),
        ("kept", (IRIS,), 1, False),
    ]
    trim = scopes.trim_for(asking(IRIS))
    assert trim.readable == {"kept"}
    assert trim.blocked == ("gone",)


def test_a_list_that_broke_off_closes_nothing(scopes: ScopeStore) -> None:
    scopes.apply("wikis", [scope("a", allow(IRIS)), scope("b", allow(IRIS))], complete=True, at=NOW)
    scopes.touch("wikis", NOW)
    scopes.apply("wikis", [scope("a", allow(TEO))], complete=False, at=NOW)
    assert scopes.trim_for(asking(IRIS)).readable == {"b"}


def test_one_sources_list_says_nothing_of_anothers_scopes(scopes: ScopeStore) -> None:
    scopes.apply("wikis", [scope("w", allow(IRIS))], complete=True, at=NOW)
    scopes.touch("wikis", NOW)
    scopes.apply("teams", [], complete=True, at=NOW)
    assert scopes.trim_for(asking(IRIS)).readable == {"w"}
    with pytest.raises(InvariantError):
        scopes.apply("teams", [scope("w", allow(TEO))], complete=True, at=NOW)
    assert scopes.trim_for(asking(IRIS)).readable == {"w"}


def test_permissions_older_than_the_limit_close_the_scopes_of_their_source_only(ingest_db: Database) -> None:
    clock = FixedClock(NOW)
    scopes = scope_store(ingest_db, clock)
    for source in ("wikis", "teams"):
        scopes.apply(source, [scope(f"{source}-s", allow(IRIS))], complete=True, at=NOW)
        scopes.touch(source, NOW)
    clock.advance(LIMIT)
    scopes.touch("teams", clock.now())
    assert scopes.trim_for(asking(IRIS)).readable == {"wikis-s", "teams-s"}
    clock.advance(timedelta(seconds=1))
    trim = scopes.trim_for(asking(IRIS))
    assert trim.readable == {"teams-s"}
    assert trim.blocked == ("wikis-s",)
    scopes.touch("wikis", clock.now())
    assert scopes.trim_for(asking(IRIS)).readable == {"wikis-s", "teams-s"}
    assert scopes.ages() == {"teams": NOW + LIMIT, "wikis": clock.now()}


def test_permissions_that_were_never_read_to_their_end_open_nothing(scopes: ScopeStore) -> None:
    scopes.apply("wikis", [scope("s", allow(IRIS))], complete=True, at=NOW)
    assert scopes.trim_for(asking(IRIS)).readable == frozenset()
    assert scopes.ages() == {"wikis": None}


def test_a_permission_pass_from_the_far_future_proves_nothing(scopes: ScopeStore) -> None:
    scopes.apply("wikis", [scope("s", allow(IRIS))], complete=True, at=NOW)
    scopes.touch("wikis", NOW + timedelta(days=30))
    assert scopes.trim_for(asking(IRIS)).readable == frozenset()
    scopes.touch("wikis", NOW)
    assert scopes.trim_for(asking(IRIS)).readable == {"s"}, "once the clock is right again, what it left is past"


def test_a_deny_through_a_container_that_could_not_be_read_shuts_the_scope_to_all(
    ingest_db: Database, scopes: ScopeStore
) -> None:
    directory = DirectoryStore(ingest_db)
    denies_outer = ScopeAcl(
        (Gate("object", (Layer("here", allow=frozenset({IRIS}), deny=frozenset({group("outer")})),)),)
    )
    scopes.apply("wikis", [scope("denying", denies_outer), scope("plain", allow(IRIS))], complete=True, at=NOW)
    scopes.touch("wikis", NOW)
    boxes = [box("inner", TEO), box("outer", group("inner"))]
    directory.apply("graph", [], boxes, complete=True, at=NOW)
    assert scopes.trim_for(asking(IRIS)).readable == {"denying", "plain"}
    # The inner group can no longer be read: who is in the outer one is not known either.
    directory.apply("graph", [], [box("inner", unread=True), boxes[1]], complete=True, at=NOW)
    trim = scopes.trim_for(asking(IRIS))
    assert trim.readable == {"plain"}
    assert trim.blocked == ("denying",)
    directory.apply("graph", [], boxes, complete=True, at=NOW)
    assert scopes.trim_for(asking(IRIS)).readable == {"denying", "plain"}


def test_a_grant_to_a_container_that_could_not_be_read_holds_for_its_last_known_members(
    ingest_db: Database, scopes: ScopeStore
) -> None:
    directory = DirectoryStore(ingest_db)
    scopes.apply("wikis", [scope("s", allow(group("crew")))], complete=True, at=NOW)
    scopes.touch("wikis", NOW)
    directory.apply("graph", [], [box("crew", IRIS)], complete=True, at=NOW)
    directory.apply("graph", [], [box("crew", unread=True)], complete=True, at=NOW)
    assert scopes.trim_for(asking(IRIS, *directory.closure(IRIS))).readable == {"s"}


def test_the_index_stays_distrusted_until_the_newest_rule_has_reached_it(scopes: ScopeStore) -> None:
    scopes.apply("wikis", [scope("s", allow(IRIS))], complete=True, at=NOW)
    scopes.touch("wikis", NOW)
    [(scope_id, allowed, first)] = scopes.pending()
    assert (scope_id, allowed) == ("s", (IRIS,))
    scopes.mark_indexed(scope_id, first)
    assert scopes.pending() == []
    scopes.apply("wikis", [scope("s", allow(TEO))], complete=True, at=NOW)
    [(_, allowed, second)] = scopes.pending()
    assert allowed == (TEO,)
    assert second > first
    scopes.apply("wikis", [scope("s", allow(group("crew")))], complete=True, at=NOW)
    # The rewrite of the second rule ends only now: both older rules may still stand on some point.
    scopes.mark_indexed(scope_id, second)
    assert [p[2] for p in scopes.pending()] == [second + 1]
    assert scopes.trim_for(asking(IRIS)).blocked == ("s",)
    assert scopes.trim_for(asking(TEO)).blocked == ("s",)
    scopes.mark_indexed(scope_id, second + 1)
    assert scopes.pending() == []
    scopes.apply("wikis", [scope("other", allow(TEO))], complete=False, at=NOW)
    assert scopes.trim_for(asking(IRIS)).matching == ()
    assert scopes.trim_for(asking(TEO)).blocked == ()


def test_the_same_rules_again_change_nothing(scopes: ScopeStore) -> None:
    given = [scope("s", allow(IRIS, TEO))]
    first = scopes.apply("wikis", given, complete=True, at=NOW)
    epoch = scopes.epoch()
    assert [c.changed for c in first] == [True]
    assert scopes.apply("wikis", given, complete=True, at=NOW) == []
    assert scopes.epoch() == epoch
    renamed = Scope(id=ScopeId("s"), source="wikis", kind="wiki", name="New name", acl=given[0].acl)
    assert [c.changed for c in scopes.apply("wikis", [renamed], complete=True, at=NOW)] == [False]
    assert scopes.get(ScopeId("s")) == renamed


def test_two_askers_never_share_a_trims_proof_of_who_asks(ingest_db: Database) -> None:
    trim = open_trim(ingest_db, "s")
    scopes = scope_store(ingest_db)
    first, second = asking(IRIS, TEO), asking(TEO, IRIS)
    assert scopes.trim_for(first).principals.asker.principal == IRIS
    assert scopes.trim_for(second).principals.asker.principal == TEO
    assert trim.readable == scopes.trim_for(first).readable


def test_what_is_remembered_of_a_trim_keeps_nobody_who_asked_and_so_no_token_of_theirs(ingest_db: Database) -> None:
    open_trim(ingest_db, "s")
    scopes = scope_store(ingest_db)
    asker = asking(IRIS, TEO)
    trim, journal = scopes.trim_for(asker), weakref.ref(asker.journal)
    assert trim.readable == {"s"}
    del asker, trim
    gc.collect()
    assert journal() is None
    assert scopes.trim_for(asking(IRIS, TEO)).readable == {"s"}


def test_an_identity_is_spelt_alike_on_the_side_of_items_and_of_askers(ingest_db: Database, scopes: ScopeStore) -> None:
    as_granted = parse("user:T/A0A0A0A0-0000-4000-8000-00000000000A")
    as_asking = parse(" USER:t/a0a0a0a0-0000-4000-8000-00000000000a ")
    scopes.apply("wikis", [scope("s", allow(as_granted))], complete=True, at=NOW)
    scopes.touch("wikis", NOW)
    assert scopes.trim_for(asking(as_asking)).readable == {"s"}


@given(st.text(min_size=1), st.sampled_from(["user", "GROUP", "ado", "Team", "licence"]))
def test_spelling_a_principal_canonically_twice_changes_nothing(rest: str, kind: str) -> None:
    try:
        once = parse(f"{kind}:{rest}")
    except ValueError:
        return
    assert parse(once) == once
