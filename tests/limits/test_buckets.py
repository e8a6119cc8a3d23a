"""In any stretch of time no more than burst + rate × time are let through, counted here or in a shared Redis."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import ConfigError, RateLimitedError
from core.principals import VerifiedAsker, issue_asker, user
from query.limits import AskerLimiter, Bucket, InProcessCounter, Rate
from query.limits_redis import RedisCounter
from query.principal_cache_redis import RedisPrincipalCache
from tests.support.redis_server import RedisServer

TENANT = "11111111-1111-4111-8111-111111111111"


class Clock:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def asker(name: str = "ann", agent: str | None = "agent") -> VerifiedAsker:
    return issue_asker(principal=user(TENANT, name), tenant=TENANT, agent=agent, scopes=frozenset())


def passes(limiter: AskerLimiter, who: VerifiedAsker) -> bool:
    try:
        limiter.take(who)
    except RateLimitedError as refused:
        return refused.retry_after <= 0
    return True


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 600),
    st.integers(1, 20),
    st.lists(st.floats(0, 30, allow_nan=False), min_size=1, max_size=80),
)
def test_no_stretch_of_time_holds_more_than_the_burst_and_what_flowed_in(
    per_minute: int, burst: int, pauses: list[float]
) -> None:
    clock = Clock()
    counter, bucket = InProcessCounter(clock), Bucket("one", Rate(per_minute, burst))
    let_through: list[float] = []
    for pause in pauses:
        clock.now += pause
        if counter.take([bucket]) == 0:
            let_through.append(clock.now)
    for first, began in enumerate(let_through):
        for last in range(first, len(let_through)):
            room = burst + (let_through[last] - began) * per_minute / 60
            assert last - first + 1 <= room + 1e-6


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 600), st.integers(1, 20), st.integers(0, 60))
def test_who_waits_as_long_as_told_is_let_through_and_no_sooner(per_minute: int, burst: int, tries: int) -> None:
    clock = Clock()
    counter, bucket = InProcessCounter(clock), Bucket("one", Rate(per_minute, burst))
    for _ in range(burst):
        assert counter.take([bucket]) == 0
    for _ in range(tries):  # asking again costs nothing
        assert counter.take([bucket]) > 0
    wait = counter.take([bucket])
    clock.now += wait * 0.99
    assert counter.take([bucket]) > 0
    clock.now += wait * 0.01 + 2e-6
    assert counter.take([bucket]) == 0


def test_one_asker_is_limited_through_all_agents_and_an_agent_over_all_askers() -> None:
    limiter = AskerLimiter(InProcessCounter(Clock()), asker=Rate(60, 2), agent=Rate(60, 3))
    assert passes(limiter, asker("ann", "a"))
    assert passes(limiter, asker("ann", "b"))
    assert not passes(limiter, asker("ann", "c"))
    assert passes(limiter, asker("ben", "a"))
    assert passes(limiter, asker("cat", "a"))
    assert not passes(limiter, asker("dan", "a"))
    assert passes(limiter, asker("dan", None))


def test_who_is_over_their_limit_uses_up_nothing_of_their_agent() -> None:
    limiter = AskerLimiter(InProcessCounter(Clock()), asker=Rate(60, 1), agent=Rate(60, 2))
    assert passes(limiter, asker("ann"))
    for _ in range(20):
        assert not passes(limiter, asker("ann"))
    assert passes(limiter, asker("ben"))


def test_full_buckets_are_let_go_of() -> None:
    clock = Clock()
    counter = InProcessCounter(clock)
    for n in range(20_000):
        clock.now += 0.1
        counter.take([Bucket(f"{n}", Rate(60, 5))])
    assert len(counter._full_at) < 5000


def test_threads_at_once_are_counted_one_by_one() -> None:
    limiter = AskerLimiter(InProcessCounter(Clock()), asker=Rate(60, 10), agent=None)
    seen: list[bool] = []
    start = threading.Barrier(4)

    def ask() -> None:
        start.wait()
        seen.extend(passes(limiter, asker()) for _ in range(10))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen.count(True) == 10


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    folder: Path = tmp_path_factory.mktemp("redis")
    server = RedisServer(folder, password="limits")
    server.start()
    yield server
    server.kill()


def test_processes_over_one_redis_share_the_count(redis_server: RedisServer) -> None:
    counters = [RedisCounter(redis_server.url, local=InProcessCounter()) for _ in range(2)]
    limiters = [AskerLimiter(c, asker=Rate(6, 5), agent=Rate(6, 100)) for c in counters]
    began = time.monotonic()
    seen = [passes(limiters[n % 2], asker("shared")) for n in range(40)]
    room = 5 + (time.monotonic() - began) * 6 / 60
    assert 5 <= seen.count(True) <= room
    assert seen[:5] == [True] * 5
    for counter in counters:
        counter.close()


def test_nobody_is_named_in_redis_and_nothing_stays_longer_than_it_counts(redis_server: RedisServer) -> None:
    counter = RedisCounter(redis_server.url, local=InProcessCounter())
    AskerLimiter(counter, asker=Rate(60, 5), agent=Rate(60, 5)).take(asker("named-person", "named-agent"))
    client = redis_server.client()
    keys = [k.decode() for k in client.scan_iter()]
    assert len(keys) >= 2
    assert not [k for k in keys if "named" in k]
    assert all(0 < client.pttl(k) <= 60_000 for k in keys)
    client.close()
    counter.close()


def test_without_redis_each_process_counts_by_itself_and_goes_on_from_what_it_saw(redis_server: RedisServer) -> None:
    clock = Clock()
    counter = RedisCounter(redis_server.url, local=InProcessCounter(clock), now=clock)
    limiter = AskerLimiter(counter, asker=Rate(60, 5), agent=None)
    assert [passes(limiter, asker("lost")) for _ in range(3)] == [True] * 3
    redis_server.kill()
    try:
        assert [passes(limiter, asker("lost")) for _ in range(5)] == [True, True, False, False, False]
        assert [passes(limiter, asker("new")) for _ in range(7)] == [True] * 5 + [False] * 2
    finally:
        redis_server.start()
    # It is asked again after a while, and knows of nobody but those whom it let through itself.
    clock.now += 6
    counted = InProcessCounter()
    other = AskerLimiter(RedisCounter(redis_server.url, local=counted), asker=Rate(60, 5), agent=None)
    assert passes(limiter, asker("back"))
    assert [passes(other, asker("back")) for _ in range(6)].count(True) == 4
    counter.close()


def test_an_address_that_is_none_is_told_by_its_setting_without_its_password() -> None:
    for make in (
        lambda: RedisCounter("http://:hunter2@cache", local=InProcessCounter()),
        lambda: RedisPrincipalCache("http://:hunter2@cache", key=b"k" * 32, record=str, seconds=30),
    ):
        with pytest.raises(ConfigError) as told:
            make()
        assert told.value.where == "query_redis_url"
        assert "hunter2" not in str(told.value)
