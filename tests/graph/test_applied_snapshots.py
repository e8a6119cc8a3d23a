"""A snapshot of access that says what the record holds already costs no comparison, and never hides a change.

Whether it was compared shows in who may be told of: tables are changed behind the store's back in ways that only a
comparison would put right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest

from core.access import Gate, Layer, Scope, ScopeAcl
from core.directory import Container, DirectoryPerson
from core.principals import Principal
from graph import directory as directory_module
from graph import scopes as scopes_module
from graph.db import Database
from graph.directory import PEOPLE, DirectoryStore
from tests.graph.support import IRIS, NOW, TEO, allow, box, group, member, scope, scope_store
from tests.support.postgres import PostgresServer

LATER = NOW + timedelta(hours=1)
PEOPLE_OF_T = [member("iris"), member("teo")]


class Compared:
    """How often the tables were compared with a snapshot."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.times = 0
        for module, name in ((directory_module, "write_snapshot"), (scopes_module, "write_scope")):
            monkeypatch.setattr(module, name, self._counting(getattr(module, name)))

    def _counting(self, real: Callable[..., object]) -> Callable[..., object]:
        def call(*given: object, **named: object) -> object:
            self.times += 1
            return real(*given, **named)

        return call

    def in_(self, work: Callable[[], object]) -> bool:
        """Whether this compared anything."""
        before = self.times
        work()
        return self.times > before


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> Compared:
    return Compared(monkeypatch)


def epoch(db: Database) -> int:
    return scope_store(db).epoch()


def test_the_same_directory_again_is_not_compared_and_counts_as_read(ingest_db: Database, compared: Compared) -> None:
    boxes = [box("crew", IRIS), box("yard", group("crew"))]
    assert compared.in_(lambda: DirectoryStore(ingest_db).apply("teams", PEOPLE_OF_T, boxes, complete=True, at=NOW))
    before = epoch(ingest_db)
    # Another process: what is known is in the record.
    again = DirectoryStore(ingest_db)
    assert not compared.in_(lambda: again.apply("teams", PEOPLE_OF_T[::-1], boxes[::-1], complete=True, at=LATER))
    assert epoch(ingest_db) == before
    with ingest_db.connection() as connection:
        row = connection.execute("SELECT seen_at, completed_at FROM directory_syncs").fetchone()
    assert row == {"seen_at": LATER, "completed_at": LATER}


def test_the_same_rules_again_are_not_compared(ingest_db: Database, compared: Compared) -> None:
    given = (scope("s", allow(IRIS)), scope("t", allow(TEO)))
    scopes = scope_store(ingest_db)
    scopes.apply("wikis", given, complete=True, at=NOW)
    assert not compared.in_(lambda: scopes.apply("wikis", given, complete=True, at=NOW))
    assert not compared.in_(lambda: scope_store(ingest_db).apply("wikis", given[::-1], complete=True, at=NOW))
    # The index has followed: that is no change of a rule.
    scopes.mark_indexed(given[0].id, 1)
    assert not compared.in_(lambda: scopes.apply("wikis", given, complete=True, at=NOW))


def test_snapshots_of_several_kinds_that_change_nothing_take_turns(ingest_db: Database, compared: Compared) -> None:
    directory, boxes = DirectoryStore(ingest_db), [box("crew", IRIS)]

    def whole() -> bool:
        return directory.apply("teams", PEOPLE_OF_T, boxes, complete=True, at=NOW)

    def memberships() -> bool:
        return directory.apply("teams", PEOPLE_OF_T, boxes, complete=True, at=NOW, kinds={"group"})

    assert [compared.in_(x) for x in (whole, memberships, whole, memberships)] == [True, True, False, False]


CHANGES = {
    "a person": "UPDATE people SET enabled = false WHERE principal = 'user:t/teo'",
    "a person's going": "DELETE FROM people WHERE principal = 'user:t/teo'",
    "a membership": "INSERT INTO memberships (source, container, member) VALUES ('teams', 'group:t/crew', 'user:t/x')",
    "a membership's going": "DELETE FROM memberships WHERE container = 'group:t/crew'",
    "a container": "UPDATE containers SET unresolved_since = now()",
    "everything": "TRUNCATE memberships",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_directory_that_anybody_else_wrote_to_is_compared_and_put_right(change: str, ingest_db: Database) -> None:
    directory, boxes = DirectoryStore(ingest_db), [box("crew", IRIS)]
    directory.apply("teams", PEOPLE_OF_T, boxes, complete=True, at=NOW)
    before = _told(ingest_db)
    with ingest_db.connection() as connection:
        connection.execute(change)
    assert _told(ingest_db) != before
    assert directory.apply("teams", PEOPLE_OF_T, boxes, complete=True, at=NOW)
    assert _told(ingest_db) == before


@pytest.mark.parametrize("column", ["acl", "allowed", "denied", "acl_digest", "name", "origin"])
def test_rules_that_anybody_else_wrote_to_are_compared(column: str, ingest_db: Database, compared: Compared) -> None:
    given = (scope("s", allow(IRIS)),)
    scopes = scope_store(ingest_db)
    scopes.apply("wikis", given, complete=True, at=NOW)
    with ingest_db.connection() as connection:
        connection.execute(f"UPDATE scopes SET {column} = {column}")
    assert compared.in_(lambda: scopes.apply("wikis", given, complete=True, at=NOW))


def test_a_write_that_is_not_committed_yet_is_seen_all_the_same(ingest_db: Database) -> None:
    """The comparison waits for it, so a digest that was noted before it can't outlive it."""
    directory, boxes = DirectoryStore(ingest_db), [box("crew", IRIS)]
    directory.apply("teams", PEOPLE_OF_T, boxes, complete=True, at=NOW)
    with ingest_db.connection() as connection:
        connection.execute("DELETE FROM memberships WHERE container = 'group:t/crew'")
        connection.execute("SET LOCAL lock_timeout = '1s'")
        held = connection.execute(
            "SELECT count(*) AS n FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
        ).fetchone()
    assert held == {"n": 1}
    directory.apply("teams", PEOPLE_OF_T, boxes, complete=True, at=NOW)
    assert group("crew") in directory.closure(IRIS)


def test_what_was_listed_to_its_end_is_pruned_although_the_rest_was_not(ingest_db: Database) -> None:
    """Somebody who left, and a group that was deleted, go even where one roster of a channel can't be read."""
    directory = DirectoryStore(ingest_db)
    roster = Container(principal=Principal("channel:x"), name="X", kind="channel", members=frozenset({TEO}))
    directory.apply("teams", PEOPLE_OF_T, [box("crew", IRIS), box("old", TEO), roster], complete=True, at=NOW)
    directory.apply(
        "teams", PEOPLE_OF_T[:1], [box("crew", IRIS)], complete=False, at=LATER, kinds=frozenset({PEOPLE, "group"})
    )
    assert directory.account(TEO) is None
    assert directory.closure(TEO) == {TEO, roster.principal}
    directory.apply("teams", [], [box("crew", IRIS)], complete=False, at=LATER)
    assert directory.account(IRIS) is not None


def _random_snapshot(chance: Random) -> tuple[list[DirectoryPerson], list[Container], tuple[Scope, ...]]:
    names = [f"p{n}" for n in range(4)]
    people = [
        replace(member(n), enabled=chance.random() > 0.2, title=chance.choice((None, "Cook")))
        for n in names
        if chance.random() > 0.2
    ]
    who = [member(n).principal for n in names]
    boxes = [
        replace(
            box(f"g{n}", *chance.sample(who, 2), *chance.sample([group("g0"), group("g1")], chance.randrange(2))),
            partial=chance.random() < 0.1,
        )
        for n in range(3)
        if chance.random() > 0.2
    ]
    boxes = [replace(b, members=None) if chance.random() < 0.1 else b for b in boxes]
    layers = [
        Layer("n", allow=frozenset(chance.sample(who, 2)), deny=frozenset(chance.sample(who, chance.randrange(2))))
        for _ in range(3)
    ]
    scopes = tuple(
        replace(scope(f"s{n}", ScopeAcl((Gate("object", (layer,)),))), name=chance.choice("ab"))
        for n, layer in enumerate(layers)
        if chance.random() > 0.2
    )
    return people, boxes, scopes


@pytest.mark.parametrize("seed", range(3))
def test_whatever_snapshots_come_the_record_is_what_comparing_each_makes_of_it(
    seed: int, postgres_pair: tuple[Database, Database]
) -> None:
    """A row of random snapshots, many of them repeated, into two records: one forgets what was applied each time."""
    cheap, careful = postgres_pair
    chance = Random(seed)
    known = [_random_snapshot(chance) for _ in range(4)]
    for step in range(25):
        if chance.random() < 0.3:
            known[chance.randrange(4)] = _random_snapshot(chance)
        people, boxes, scopes = chance.choice(known)
        complete = chance.random() > 0.2
        kinds = chance.choice((None, None, frozenset({"group"}), frozenset({PEOPLE})))
        at = NOW + timedelta(minutes=step)
        with careful.connection() as connection:
            connection.execute("DELETE FROM applied_snapshots")
        for db in postgres_pair:
            DirectoryStore(db).apply("teams", people, boxes, complete=complete, at=at, kinds=kinds)
            scope_store(db).apply("wikis", scopes, complete=complete, at=at)
        assert _tables(cheap) == _tables(careful)


@pytest.fixture
def postgres_pair(
    open_database: Callable[[str], Database], postgres: PostgresServer
) -> Iterator[tuple[Database, Database]]:
    """Two empty records."""
    first, second = postgres.fresh_database(), postgres.fresh_database()
    yield open_database(first.ingest_dsn), open_database(second.ingest_dsn)
    postgres.drop(first)
    postgres.drop(second)


def _tables(db: Database) -> dict[str, object]:
    with db.connection() as connection:
        return {
            name: connection.execute(f"SELECT * FROM {name} ORDER BY 1").fetchall()
            for name in ("people", "containers", "scopes", "directory_syncs", "access_epoch")
        } | {"memberships": connection.execute("SELECT * FROM memberships ORDER BY 1, 2, 3").fetchall()}


def _told(db: Database) -> list[object]:
    """What the tables say, without when it was learnt."""
    with db.connection() as connection:
        return [
            connection.execute(statement).fetchall()
            for statement in (
                "SELECT principal, enabled FROM people ORDER BY 1",
                "SELECT principal, unresolved_since FROM containers ORDER BY 1",
                "SELECT container, member FROM memberships ORDER BY 1, 2",
            )
        ]
