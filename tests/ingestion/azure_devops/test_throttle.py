"""One throttle for every request: it slows down before it is delayed, keeps to a budget, and tells what it did."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from pydantic import SecretStr

from core.errors import SourceThrottledError
from core.settings import AzureDevOpsSettings
from fixtures.sandbox.server import SandboxServer
from ingestion.azure_devops import work_items
from ingestion.azure_devops.client import AdoClient
from ingestion.azure_devops.throttle import Throttle, area_of
from tests.ingestion.azure_devops.support import Store, connect, reader_of, settings_for


class Time:
    """A clock that goes on only where somebody sleeps."""

    def __init__(self) -> None:
        self.at, self.slept = 0.0, list[float]()

    def sleep(self, seconds: float) -> None:
        self.at += seconds
        self.slept.append(seconds)

    def now(self) -> float:
        return self.at


def throttle(time: Time, **limits: float | None) -> Throttle:
    values: dict[str, float | int | None] = {"max_wait": 120.0, "max_requests": None, "max_waits": None, **limits}
    requests = values["max_requests"]
    return Throttle(
        max_wait=values["max_wait"] or 0.0,
        max_requests=int(requests) if requests is not None else None,
        max_waits=values["max_waits"],
        sleep=time.sleep,
        jitter=lambda: 0.0,
        now=time.now,
        wall=lambda: 1_000_000.0,
    )


def rests_after(headers: dict[str, str], **limits: float | None) -> list[float]:
    """How long the request after an answer with these headers waits."""
    time = Time()
    one = throttle(time, **limits)
    one.heed(headers)
    one.admit("/o/_apis/projects", "here")
    return time.slept


def allowance(left: int, seconds: int, limit: int = 200) -> dict[str, str]:
    return {
        "X-RateLimit-Limit": str(limit),
        "X-RateLimit-Remaining": str(left),
        "X-RateLimit-Reset": str(1_000_000 + seconds),
    }


@pytest.mark.parametrize(
    ("headers", "waits"),
    [
        ({}, []),
        ({"Retry-After": "9"}, [9.0]),
        ({"Retry-After": "soon"}, []),
        ({"X-RateLimit-Delay": "4"}, [4.0]),
        (allowance(150, 60), []),  # there is plenty
        (allowance(30, 60), [2.0]),  # what is left is spread over the time until the reset
        (allowance(0, 60), [60.0]),
        (allowance(0, -5), []),  # a reset that has passed
        (allowance(0, 9_999), [120.0]),  # never longer than the longest wait
        ({**allowance(30, 60), "Retry-After": "11"}, [11.0]),  # the longest of what it says
        # The reset is told in the service's own time.
        ({**allowance(1, 40), "Date": "Mon, 12 Jan 1970 13:46:50 GMT"}, [30.0]),
        ({**allowance(1, 40), "Date": "yesterday"}, [40.0]),
    ],
)
def test_the_next_request_rests_as_the_answer_says_or_as_its_allowance_makes_wise(
    headers: dict[str, str], waits: list[float]
) -> None:
    assert rests_after(headers) == waits


def test_a_rest_is_kept_once_and_not_by_every_request() -> None:
    time = Time()
    one = throttle(time)
    one.heed({"Retry-After": "9"})
    for _ in range(3):
        one.admit("/o/_apis/projects", "here")
    assert time.slept == [9.0]


def test_the_waits_of_a_run_have_an_end_that_says_what_to_do() -> None:
    time = Time()
    one = throttle(time, max_waits=10.0)
    one.pause(1, 8.0, "here")
    with pytest.raises(SourceThrottledError, match="max_wait_per_run") as caught:
        one.pause(1, 8.0, "here")
    assert caught.value.retry_after > 8
    assert sum(time.slept) < 10
    one.begin()
    one.pause(1, 8.0, "here")


def test_requests_are_counted_by_what_they_ask_for_and_not_by_whom_or_which() -> None:
    sha = "9f1c2ab34d5e6f708192a3b4c5d6e7f801234567"
    assert area_of("/o/_apis/projects") == "projects"
    assert area_of("/o/p%20q/_apis/wit/workItems/4102/comments") == "wit/workitems/comments"
    assert area_of(f"/o/p/_apis/git/repositories/aaaaaaaa-0000-4000-8000-000000000001/commits/{sha}/changes") == (
        "git/repositories/commits/changes"
    )
    assert area_of("/o/") == "other"


def test_a_scarce_allowance_slows_every_reader_down_and_nothing_is_lost(contoso: SandboxServer) -> None:
    time = Time()
    settings = settings_for(contoso)
    client = AdoClient(settings, sleep=time.sleep, jitter=lambda: 0.0, now=time.now)
    contoso.faults.limit(remaining=10, reset_in=300)
    assert client.get("_apis/git/repositories")["count"] > 0
    client.get("_apis/git/repositories")
    assert time.slept == [pytest.approx(30, abs=1)]
    assert client.stats.waited == pytest.approx(30, abs=1)
    assert client.stats.throttled == 0
    client.close()


def test_answers_that_were_delayed_are_taken_and_counted(contoso: SandboxServer) -> None:
    time = Time()
    client = AdoClient(settings_for(contoso), sleep=time.sleep, jitter=lambda: 0.0, now=time.now)
    contoso.faults.limit(remaining=0, reset_in=0, delay=12, times=1)
    client.get("_apis/projects")
    client.get("_apis/projects")
    assert client.stats.total == 2
    assert (client.stats.throttled, client.stats.retries) == (1, 0)
    assert time.slept == [12.0]
    client.close()


class _Delaying(BaseHTTPRequestHandler):
    """Answers at once, and asks for a rest before the next request, as a throttled organization does with a 200."""

    def do_GET(self) -> None:
        body = b'{"value": [1]}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Retry-After", "9")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is logged."""


def test_an_answer_that_was_delayed_is_taken_and_the_next_request_waits() -> None:
    clock = [0.0]
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        clock[0] += seconds

    with ThreadingHTTPServer(("127.0.0.1", 0), _Delaying) as http:
        threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
        settings = AzureDevOpsSettings(
            organization="x", base_url=f"http://127.0.0.1:{http.server_port}", tenant="t", pat=SecretStr("p")
        )
        client = AdoClient(settings, sleep=sleep, now=lambda: clock[0])
        assert client.get("a") == {"value": [1]}
        assert waits == []
        assert client.requests == 1
        client.get("b")
        assert waits == [9.0]
        client.close()
        http.shutdown()


def test_a_run_that_has_used_its_requests_ends_and_the_next_goes_on_from_its_checkpoint(
    contoso: SandboxServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_items, "BATCH", 5)
    whole, free = Store(), connect(contoso)
    whole.drain(reader_of(free, "work_items"))
    free.close()
    budget = 40
    store, ends = Store(), list[str]()
    connector = connect(contoso, max_requests_per_run=budget)
    for _ in range(20):
        before = connector.traffic
        try:
            store.drain(reader_of(connector, "work_items"))
            break
        except SourceThrottledError as e:
            ends.append(str(e))
        assert connector.traffic.since(before).total == budget
    assert ends
    assert all("max_requests_per_run" in end for end in ends)
    assert store.digests() == whole.digests()
    connector.close()


def test_permissions_are_read_whole_and_take_nothing_from_the_budget_of_the_crawl_around_them(
    contoso: SandboxServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_items, "BATCH", 5)
    budget = 30
    connector = connect(contoso, max_requests_per_run=budget)
    before, spent = connector.traffic, 0
    crawl = reader_of(connector, "work_items").read(None)
    with pytest.raises(SourceThrottledError):  # noqa: PT012 - what happens in between is the point
        for _ in crawl:
            at = connector.traffic
            assert connector.access().complete
            spent += connector.traffic.since(at).total
    assert spent > budget
    assert connector.traffic.since(before).total - spent == budget
    connector.close()


def test_what_a_run_asked_of_the_service_can_be_told(contoso: SandboxServer) -> None:
    connector = connect(contoso)
    contoso.faults.throttle(f"/ado/{contoso.state.organization}/_apis/projects", times=2, retry_after=7)
    connector.access()
    before = connector.traffic
    assert (before.retries, before.throttled) == (2, 2)
    assert before.waited > 14
    Store().drain(reader_of(connector, "work_items"))
    run = connector.traffic.since(before)
    assert run.retries == 0
    assert run.requests["wit/workitemsbatch"] >= 1
    assert sum(run.requests.values()) == run.total
    assert run.counts()["requests"] == run.total
    assert run.counts()["requests:wit/workitemsbatch"] == run.requests["wit/workitemsbatch"]
    connector.close()


Faulty = Callable[[SandboxServer], None]


@pytest.mark.parametrize(
    "fault",
    [
        lambda s: s.faults.throttle(f"/ado/{s.state.organization}/_apis/projects", times=1, retry_after=500),
        lambda s: s.faults.fail(".*/_apis/projects", status=503, retry_after=500),
    ],
)
def test_a_wait_that_no_run_should_sit_out_says_that_a_later_one_goes_on(fault: Faulty, contoso: SandboxServer) -> None:
    connector = connect(contoso)
    fault(contoso)
    with pytest.raises(SourceThrottledError, match="a later one goes on"):
        connector.access()
    connector.close()
