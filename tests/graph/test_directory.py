"""Accounts, memberships and closures, as sources list them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from core.directory import Container, PersonKind
from core.errors import UnresolvedIdentityError
from core.principals import Principal, parse
from graph.db import Database
from graph.directory import DirectoryStore
from graph.scopes import ScopeStore
from tests.graph.support import IRIS, NOW, TEO, box, group, member, scope_store

LATER = NOW + timedelta(hours=1)


@pytest.fixture
def directory(ingest_db: Database) -> DirectoryStore:
    return DirectoryStore(ingest_db)


@pytest.fixture
def scopes(ingest_db: Database) -> ScopeStore:
    return scope_store(ingest_db)


def rows(db: Database) -> set[tuple[str, str]]:
    with db.connection() as connection:
        found = connection.execute("SELECT container, member FROM memberships WHERE container LIKE 'group:%'")
        return {(r["container"], r["member"]) for r in found}


def test_nested_groups_and_a_cycle_give_every_group_once(directory: DirectoryStore) -> None:
    direct = [box(f"extra-{n:03}", IRIS) for n in range(250)]
    nested = [box("l1", IRIS, group("l3")), box("l2", group("l1")), box("l3", group("l2"))]
    directory.apply("graph", [member("iris"), member("teo")], [*direct, *nested], complete=True, at=NOW)
    mine = directory.closure(IRIS)
    assert len([p for p in mine if p.startswith("group:")]) == 253
    assert mine >= {IRIS, group("l3"), group("extra-249")}
    assert [p for p in directory.closure(TEO) if p.startswith("group:")] == []


def test_a_refused_page_deletes_no_memberships(directory: DirectoryStore, ingest_db: Database) -> None:
    directory.apply("graph", [], [box("tug", IRIS), box("nord", TEO)], complete=True, at=NOW)
    before = rows(ingest_db)
    directory.apply("graph", [], [box("tug", unread=True), box("nord", TEO)], complete=True, at=LATER)
    assert rows(ingest_db) == before
    assert directory.unresolved_since() == {group("tug"): LATER}
    directory.apply("graph", [], [box("tug", unread=True)], complete=False, at=LATER + timedelta(hours=1))
    assert rows(ingest_db) == before
    assert directory.unresolved_since() == {group("tug"): LATER}
    directory.apply("graph", [], [box("nord", TEO)], complete=True, at=LATER)
    assert rows(ingest_db) == {(group("nord"), TEO)}
    assert directory.unresolved() == frozenset()


def test_a_reading_of_some_kinds_of_containers_says_nothing_of_the_others(directory: DirectoryStore) -> None:
    roster = Container(principal=parse("channel:19:x"), name="X", kind="channel", members=frozenset({TEO}))
    directory.apply("teams", [], [box("tug", IRIS), box("nord", TEO), roster], complete=True, at=NOW)
    directory.apply("teams", [], [box("nord", TEO)], complete=True, at=LATER, kinds={"group"})
    assert directory.closure(IRIS) == {IRIS}
    assert directory.closure(TEO) == {TEO, group("nord"), roster.principal}


def test_a_container_never_read_has_no_members_and_is_unresolved(directory: DirectoryStore) -> None:
    boxes = [box("new", unread=True), box("outer", group("new"))]
    assert directory.apply("graph", [], boxes, complete=True, at=NOW)
    assert directory.unresolved() == {group("new"), group("outer")}


def test_a_list_that_broke_off_removes_neither_people_nor_groups(directory: DirectoryStore) -> None:
    directory.apply("graph", [member("iris"), member("teo")], [box("a", IRIS), box("b", TEO)], complete=True, at=NOW)
    directory.apply("graph", [member("iris")], [box("a", IRIS)], complete=False, at=LATER)
    assert directory.account(TEO) is not None
    assert group("b") in directory.closure(TEO)
    directory.apply("graph", [member("iris")], [box("a", IRIS)], complete=True, at=LATER)
    assert directory.account(TEO) is None
    assert directory.closure(TEO) == {TEO}


def test_closures_are_refused_until_every_source_was_read_to_its_end(directory: DirectoryStore) -> None:
    with pytest.raises(UnresolvedIdentityError):
        directory.closure(IRIS)
    directory.apply("graph", [member("iris")], [], complete=True, at=NOW)
    assert IRIS in directory.closure(IRIS)
    directory.apply("azure_devops", [], [], complete=False, at=NOW)
    with pytest.raises(UnresolvedIdentityError, match="azure_devops"):
        directory.closure(IRIS)
    directory.apply("azure_devops", [], [], complete=True, at=NOW)
    # Once known, a source that is partly read keeps what it had.
    directory.apply("azure_devops", [], [], complete=False, at=LATER)
    assert IRIS in directory.closure(IRIS)


def test_a_required_source_that_never_came_refuses_closures(ingest_db: Database) -> None:
    directory = DirectoryStore(ingest_db, required=["teams", "azure_devops"])
    directory.apply("teams", [member("iris")], [], complete=True, at=NOW)
    with pytest.raises(UnresolvedIdentityError, match="azure_devops"):
        directory.closure(IRIS)


@pytest.mark.parametrize("source", ["graph", "teams"])
def test_everyone_is_enabled_members_and_anyone_takes_in_guests(directory: DirectoryStore, source: str) -> None:
    people = [
        member("iris"),
        member("left", enabled=False),
        member("guest", kind=PersonKind.GUEST),
        member("robot", kind=PersonKind.SERVICE),
    ]
    directory.apply(source, people, [], complete=True, at=NOW)

    def audiences(name: str) -> set[Principal]:
        return {p for p in directory.closure(parse(f"user:t/{name}")) if not p.startswith("user:")}

    assert audiences("iris") == {"everyone:t", "anyone:t"}
    assert audiences("guest") == {"anyone:t"}
    assert audiences("left") == audiences("robot") == set()


def test_a_disabled_account_leaves_everyone_at_once(directory: DirectoryStore, scopes: ScopeStore) -> None:
    directory.apply("graph", [member("iris")], [], complete=True, at=NOW)
    epoch = scopes.epoch()
    assert directory.apply("graph", [member("iris", enabled=False)], [], complete=False, at=NOW)
    assert scopes.epoch() > epoch
    assert directory.closure(IRIS) == {IRIS}
    account = directory.account(IRIS)
    assert account is not None
    assert not account.enabled


def test_the_epoch_moves_with_access_and_with_nothing_else(directory: DirectoryStore, scopes: ScopeStore) -> None:
    given = ([member("iris")], [box("a", IRIS)])
    assert directory.apply("graph", *given, complete=True, at=NOW)
    epoch = scopes.epoch()
    assert not directory.apply("graph", *given, complete=True, at=LATER)
    renamed = Container(principal=group("a"), name="Another name", kind="group", members=frozenset({IRIS}))
    assert not directory.apply("graph", given[0], [renamed], complete=True, at=LATER)
    assert scopes.epoch() == epoch
    assert directory.containers_of(IRIS)[group("a")] == "Another name"
    assert directory.apply("graph", given[0], [box("a", IRIS, TEO)], complete=True, at=LATER)
    assert scopes.epoch() > epoch


def test_groups_of_one_name_are_not_one_group(directory: DirectoryStore) -> None:
    one, other = parse("ado:vssgp.AAA"), parse("ado:vssgp.BBB")
    boxes = [
        Container(principal=one, name="Contributors", kind="ado", members=frozenset({IRIS})),
        Container(principal=other, name="Contributors", kind="ado", members=frozenset({TEO})),
    ]
    directory.apply("azure_devops", [], boxes, complete=True, at=NOW)
    assert one in directory.closure(IRIS)
    assert other not in directory.closure(IRIS)


def test_two_sources_each_speak_for_their_own_containers(directory: DirectoryStore) -> None:
    ado = parse("ado:vssgp.X")
    directory.apply("graph", [member("iris")], [box("crew", IRIS)], complete=True, at=NOW)
    readers = Container(principal=ado, name="Readers", kind="ado", members=frozenset({group("crew")}))
    directory.apply("azure_devops", [], [readers], complete=True, at=NOW)
    directory.apply("graph", [member("iris")], [box("crew", IRIS)], complete=True, at=LATER)
    assert {ado, group("crew")} <= directory.closure(IRIS)
    assert directory.containers_of(IRIS) == {ado: "Readers", group("crew"): "crew"}


def test_the_tenants_directory_has_the_last_word_on_an_account(directory: DirectoryStore) -> None:
    directory.apply("graph", [member("iris", enabled=False)], [], complete=True, at=NOW)
    directory.apply("azure_devops", [member("iris")], [], complete=True, at=NOW)
    account = directory.account(IRIS)
    assert account is not None
    assert not account.enabled
    assert directory.accounts([IRIS, TEO]).keys() == {IRIS}


def test_teammates_share_a_small_roster(directory: DirectoryStore) -> None:
    crowd = [parse(f"user:t/n{n}") for n in range(25)]
    channel = Container(principal=parse("channel:19:x"), name="c", kind="channel", members=frozenset({IRIS, TEO}))
    licence = Container(
        principal=parse("licence:org/basic"), name="Basic", kind="licence", members=frozenset({IRIS, crowd[0]})
    )
    directory.apply("graph", [], [channel, licence, box("all", IRIS, *crowd)], complete=True, at=NOW)
    assert directory.teammates(IRIS) == {TEO}
    directory.apply("graph", [], [box("all", IRIS, *crowd[:24])], complete=False, at=NOW)
    assert directory.teammates(IRIS) == {TEO, *crowd[:24]}


def test_names_with_a_nul_are_kept_without_it(directory: DirectoryStore) -> None:
    odd = Container(principal=group("a"), name="nul\x00led", kind="group", members=frozenset({IRIS}))
    directory.apply("graph", [member("iris")], [odd], complete=True, at=NOW)
    assert directory.containers_of(IRIS) == {group("a"): "nulled"}
