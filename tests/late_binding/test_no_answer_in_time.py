"""What a source refuses, fails, throttles or leaves unanswered is not shown, and takes as long as a yes."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from core.bundle import Bundle
from query.bounded_pool import BoundedPool
from query.late_binding import Pace
from tests.late_binding.conftest import Side
from tests.late_binding.harbour import BOARD_IS_SHUT, on_behalf_of

SECRET_EVENTS = [e["id"] for e in BOARD_IS_SHUT if e["id"] != "open-shut"]


def throttled(side: Side) -> None:
    """Both services ask to wait."""
    side.sandbox.faults.throttle("/ado/", times=100)
    side.sandbox.faults.throttle("/graph/", times=100)


WEATHER: dict[str, Callable[[Side], None]] = {
    "fails": lambda side: side.sandbox.faults.fail("/(ado|graph)/", status=503, times=None),
    "throttles": throttled,
    "signs us out": lambda side: side.sandbox.faults.fail("/(ado|graph)/", status=203, times=None),
    "sends us elsewhere": lambda side: side.sandbox.faults.fail("/(ado|graph)/", status=302, times=None),
    "exchanges no token": lambda side: side.sandbox.faults.fail(".*/oauth2/", status=500, times=None),
}


def secret_uris(bundle: Bundle) -> set[str]:
    return {e.uri for e in bundle.evidence if e.label == "Secret"}


@pytest.mark.invariant("INV-5", "INV-7")
@pytest.mark.parametrize("weather", WEATHER)
def test_what_a_source_does_not_confirm_is_not_shown(side: Side, weather: str) -> None:
    service = side.service()
    assert secret_uris(side.ask("ben", service=side.service()))
    WEATHER[weather](side)
    found = side.ask("ben", service=service)
    assert secret_uris(found) == set()
    assert found.evidence
    side.sandbox.faults.clear()
    assert secret_uris(side.ask("ben", service=service))


def test_a_source_that_hangs_holds_no_question_longer_than_the_deadline(side: Side) -> None:
    service = side.service(on_behalf_of(side.sandbox, deadline=0.3, pace=0.3))
    side.sandbox.faults.slow(3000, "/(ado|graph)/")
    began = time.monotonic()
    assert secret_uris(side.ask("ben", service=service)) == set()
    assert time.monotonic() - began < 2.5


def test_sources_are_asked_the_same_whatever_they_say(side: Side) -> None:
    service = side.service()
    ben = side.asker(service, "ben")
    side.ask(ben, service=service)  # what his token is exchanged for is there from now on

    def asked() -> Counter[str]:
        before = Counter(side.sandbox.faults.seen)
        side.ask(ben, service=service)
        return Counter(side.sandbox.faults.seen) - before

    yes = asked()
    for event in SECRET_EVENTS:
        side.sandbox.apply(event)
    assert asked() == yes
    assert sum(yes.values()) >= 4


def test_the_record_of_the_access_check_tells_how_many_were_asked_about_and_confirmed(side: Side) -> None:
    service = side.service()
    asker = side.asker(service, "ben")
    principals = service.resolver.resolve(asker)
    service.engine.expand(principals, next(iter(secret_uris(side.ask("ben")))))
    last = principals.journal.checks[-1]
    assert last.late_asked >= last.late_verified >= 4
    for event in SECRET_EVENTS:
        side.sandbox.apply(event)
    with pytest.raises(Exception, match="no such item"):
        service.engine.expand(principals, "ctx://ado/small/work-items/3")
    assert principals.journal.checks[-1].late_asked == last.late_asked
    assert principals.journal.checks[-1].late_verified == 0


@pytest.fixture
def pool() -> Iterator[BoundedPool]:
    made = BoundedPool(2, waiting=1, name="test")
    yield made
    made.close()


def test_a_full_pool_refuses_at_once_and_takes_work_again_when_a_call_comes_back(pool: BoundedPool) -> None:
    hangs, done = threading.Event(), threading.Semaphore(0)

    def work() -> None:
        hangs.wait(30)
        done.release()

    assert [pool.submit(work) for _ in range(5)] == [True, True, True, False, False]
    hangs.set()
    for _ in range(3):
        assert done.acquire(timeout=10)
    assert _eventually(lambda: pool.submit(done.release))
    assert done.acquire(timeout=10)


def test_threads_that_have_nothing_to_do_end_and_are_made_again() -> None:
    pool, done = BoundedPool(3, waiting=3, name="idle-test", idle=0.01), threading.Semaphore(0)

    def alive() -> int:
        return sum(thread.name == "idle-test" for thread in threading.enumerate())

    for _ in range(2):
        assert [pool.submit(done.release) for _ in range(3)] == [True] * 3
        for _ in range(3):
            assert done.acquire(timeout=10)
        assert _eventually(lambda: alive() == 0)
    pool.close()


def test_a_call_that_fails_leaves_its_thread_at_work(pool: BoundedPool) -> None:
    done = threading.Semaphore(0)

    def fails() -> None:
        try:
            raise ValueError("no")
        finally:
            done.release()

    for _ in range(4):
        assert _eventually(lambda: pool.submit(fails))
        assert done.acquire(timeout=10)
    pool.close()
    assert not pool.submit(fails)


def _eventually(does: Callable[[], bool]) -> bool:
    """Whether it does so within ten seconds: a thread gives its place back a moment after its work is done."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        if does():
            return True
        threading.Event().wait(0.005)
    return False


@pytest.mark.parametrize(("passed", "waits"), [(0.0, 0.5), (0.01, 0.49), (0.5, 0.0), (0.51, 0.49), (1.2, 0.3)])
def test_the_stage_ends_at_a_multiple_of_its_pace(passed: float, waits: float) -> None:
    slept: list[float] = []
    pace = Pace(deadline=1.5, step=0.5, now=lambda: 100.0 + passed, sleep=slept.append)
    pace.rest(100.0)
    assert sum(slept) == pytest.approx(waits, abs=1e-6)
