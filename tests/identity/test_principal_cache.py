"""What is remembered of an asker's groups is what the directory says, wherever it is kept and whoever meddles."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.errors import IdentityError, UnresolvedIdentityError
from core.principals import Principal, VerifiedAsker, anyone, everyone, issue_asker, parse
from graph.db import Database
from graph.directory import DirectoryStore
from graph.scopes import ScopeStore
from query.principal_cache import LocalPrincipalCache, PrincipalCache
from query.principal_cache_redis import RedisPrincipalCache
from query.principals import PrincipalResolver
from tests.graph.support import IRIS, NOW, TEO, box, group, member, scope_store
from tests.support.redis_server import RedisServer

KEY = b"a key of thirty-two bytes or more"
PEOPLE = [parse(f"user:t/p{n}") for n in range(4)]
GROUPS = [group(f"g{n}") for n in range(4)]


ALONE = frozenset({IRIS, everyone("t"), anyone("t")})


class Moment:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    made = RedisServer(tmp_path_factory.mktemp("cache"), password="secret")
    made.start()
    yield made
    made.kill()


def shared(server: RedisServer, *, key: bytes = KEY, record: str = "r", moment: Moment | None = None) -> Any:
    """A cache in Redis."""
    clock = moment or Moment()
    return RedisPrincipalCache(server.url, key=key, record=lambda: record, seconds=30, wall_clock=clock, now=clock)


@pytest.fixture(params=["local", "shared"])
def cache(request: pytest.FixtureRequest, server: RedisServer) -> PrincipalCache:
    if request.param == "local":
        return LocalPrincipalCache(30, now=Moment())
    return shared(server, record=request.node.name)


def asker(who: Principal) -> VerifiedAsker:
    return issue_asker(principal=who, tenant="t", agent=None, scopes=frozenset())


def is_of(resolver: PrincipalResolver, who: Principal) -> frozenset[Principal] | str:
    """What somebody counts as, or why nobody can say."""
    try:
        return resolver.resolve(asker(who)).principals
    except (IdentityError, UnresolvedIdentityError) as e:
        return str(e)


changes = st.lists(
    st.tuples(
        st.frozensets(st.sampled_from(range(4)), max_size=4),
        st.dictionaries(st.sampled_from(range(4)), st.frozensets(st.sampled_from([*PEOPLE, *GROUPS]), max_size=4)),
    ),
    min_size=1,
    max_size=4,
)


@given(changes)
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_remembered_or_not_everybody_is_who_the_directory_says_through_every_change(
    ingest_db: Database, cache: PrincipalCache, history: list[tuple[frozenset[int], dict[int, frozenset[Principal]]]]
) -> None:
    directory, scopes = DirectoryStore(ingest_db), scope_store(ingest_db)
    remembering = PrincipalResolver(directory, scopes, cache)
    for disabled, groups in history:
        people = [member(f"p{n}", enabled=n not in disabled) for n in range(4)]
        directory.apply("graph", people, [box(f"g{n}", *who) for n, who in groups.items()], complete=True, at=NOW)
        forgetful = PrincipalResolver(directory, scopes, LocalPrincipalCache(0))
        for _ in range(2):
            for who in PEOPLE:
                assert is_of(remembering, who) == is_of(forgetful, who)


def test_it_is_remembered_and_not_read_again(ingest_db: Database, cache: PrincipalCache) -> None:
    directory, scopes = _known(ingest_db)
    resolver = PrincipalResolver(directory, scopes, cache)
    first = resolver.resolve(asker(IRIS))
    reads = _counted(directory)
    assert resolver.resolve(asker(IRIS)).principals == first.principals == ALONE | {group("staff")}
    assert next(reads) == 0


def test_a_change_while_it_is_read_is_not_remembered_as_before_or_after(
    ingest_db: Database, cache: PrincipalCache
) -> None:
    directory, scopes = _known(ingest_db)
    resolver = PrincipalResolver(directory, scopes, cache)
    whole = directory.closure

    def closure(principal: Principal) -> frozenset[Principal]:
        found = whole(principal)
        directory.apply("graph", [member("iris")], [box("staff")], complete=True, at=NOW)
        return found

    directory.closure = closure  # type: ignore[method-assign]
    before = scopes.epoch()
    resolver.resolve(asker(IRIS))
    directory.closure = whole  # type: ignore[method-assign]
    assert cache.get(IRIS, before) is None
    assert cache.get(IRIS, scopes.epoch()) is None
    assert resolver.resolve(asker(IRIS)).principals == ALONE


def test_it_is_forgotten_after_its_time_and_under_another_epoch(server: RedisServer) -> None:
    moment = Moment()
    caches: list[PrincipalCache] = [LocalPrincipalCache(30, now=moment), shared(server, record="t", moment=moment)]
    for cache in caches:
        cache.put(IRIS, 7, frozenset({IRIS, TEO}))
        assert cache.get(IRIS, 7) == {IRIS, TEO}
        assert cache.get(IRIS, 8) is None
        assert cache.get(TEO, 7) is None
    moment.now += 31
    assert [cache.get(IRIS, 7) for cache in caches] == [None, None]


def test_nothing_is_remembered_where_no_time_is_given() -> None:
    cache = LocalPrincipalCache(0)
    cache.put(IRIS, 1, frozenset({IRIS}))
    assert cache.get(IRIS, 1) is None


def test_what_others_put_into_the_shared_store_makes_nobody_more(server: RedisServer) -> None:
    """Made up, changed, taken from another person, epoch, key or database, or kept: none of it counts."""
    admins = group("admins")
    client, moment = server.client(), Moment()
    client.flushall()
    cache = shared(server, moment=moment)
    cache.put(IRIS, 7, frozenset({IRIS}))
    [name] = client.keys("*")
    honest = client.get(name)
    assert isinstance(honest, bytes)
    assert b"user:" not in name
    until = moment.now + 30
    cache.put(TEO, 7, frozenset({TEO, admins}))
    [other] = [n for n in client.keys("*") if n != name]
    theirs = client.get(other)
    assert isinstance(theirs, bytes)
    body = json.dumps([until, [IRIS, admins]]).encode()
    poison = [
        b"", b"x" * 31, b"\x00" * 32 + body, honest[:32] + body, honest[:-2] + b'"]', honest + b" ", theirs,
        theirs[:32] + honest[32:], bytes([honest[0] ^ 1]) + honest[1:],
    ]  # fmt: skip
    for value in poison:
        client.set(name, value)
        assert cache.get(IRIS, 7) is None, value
    client.set(name, honest)
    assert cache.get(IRIS, 7) == {IRIS}
    foreigners = [shared(server, key=b"another key of thirty-two bytes..", moment=moment)]
    foreigners += [shared(server, record="another", moment=moment)]
    for foreign, n in zip(foreigners, count(), strict=False):
        foreign.put(IRIS, 7, frozenset({IRIS, admins}))
        [made] = [k for k in client.keys("*") if k not in (name, other)]
        forged = client.get(made)
        assert isinstance(forged, bytes)
        client.set(name, forged)
        client.delete(made)
        assert cache.get(IRIS, 7) is None, n
    # An honest value of before, put back after its time.
    client.set(name, honest)
    moment.now += 30
    assert cache.get(IRIS, 7) is None


def test_a_value_of_a_type_that_is_no_value_is_none(server: RedisServer) -> None:
    client, moment = server.client(), Moment()
    client.flushall()
    cache = shared(server, moment=moment)
    cache.put(IRIS, 7, frozenset({IRIS}))
    [name] = client.keys("*")
    client.delete(name)
    client.rpush(name, b"a", b"b")
    assert cache.get(IRIS, 7) is None


def test_without_the_shared_store_the_directory_answers(ingest_db: Database, tmp_path: Path) -> None:
    directory, scopes = _known(ingest_db)
    server, moment = RedisServer(tmp_path / "down", password="secret"), Moment()
    cache = shared(server, moment=moment)
    resolver = PrincipalResolver(directory, scopes, cache)
    for _ in range(2):
        assert resolver.resolve(asker(IRIS)).principals == ALONE | {group("staff")}
    directory.apply("graph", [member("iris")], [box("staff")], complete=True, at=NOW)
    assert resolver.resolve(asker(IRIS)).principals == ALONE
    server.start()
    try:
        moment.now += 6
        assert resolver.resolve(asker(IRIS)).principals == ALONE
        assert cache.get(IRIS, scopes.epoch()) == ALONE
        server.kill()
        assert resolver.resolve(asker(IRIS)).principals == ALONE
    finally:
        server.kill()


def test_two_databases_that_count_the_same_epochs_are_told_apart(ingest_db: Database, query_db: Database) -> None:
    mine, as_query_plane = scope_store(ingest_db).record_id(), ScopeStore(query_db, revocation_limit=NOW - NOW)
    assert as_query_plane.record_id() == as_query_plane.record_id()
    assert mine.split("/")[0] == as_query_plane.record_id().split("/")[0]
    assert mine.split("/")[1].isdigit()


def _known(db: Database) -> tuple[DirectoryStore, ScopeStore]:
    directory = DirectoryStore(db)
    directory.apply("graph", [member("iris"), member("teo")], [box("staff", IRIS)], complete=True, at=NOW)
    return directory, scope_store(db)


def _counted(directory: DirectoryStore) -> Iterator[int]:
    """How often the closure was read since."""
    reads = 0
    whole = directory.closure

    def closure(principal: Principal) -> frozenset[Principal]:
        nonlocal reads
        reads += 1
        return whole(principal)

    directory.closure = closure  # type: ignore[method-assign]

    def numbers() -> Iterator[int]:
        while True:
            yield reads

    return numbers()
