"""How fast Graph is asked: what its limits on a team and on messages leave, and what that is counted as."""

from __future__ import annotations

import httpx
import pytest

from core.settings import GraphSettings
from ingestion.teams.client import GraphClient
from ingestion.teams.throttle import Throttle

NORD, SUD = "/teams/Nord/channels", "https://graph.example/v1.0/teams/sud/channels/19%3ax/messages/delta?$skiptoken=1"


class Time:
    """A clock that sleeping moves."""

    def __init__(self) -> None:
        self.at = 100.0

    def now(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds


def starts(throttle: Throttle, time: Time, *paths: str) -> list[float]:
    """When each request goes, after the first could have."""
    began, found = time.at, []
    for path in paths:
        throttle.wait(path)
        found.append(round(time.at - began, 3))
    return found


@pytest.mark.parametrize(("rate", "limit"), [(3.0, 4), (0.5, 1)])
def test_no_second_holds_more_requests_on_a_team_than_the_limit(rate: float, limit: int) -> None:
    time = Time()
    throttle = Throttle(rate, 0, now=time.now, sleep=time.sleep)
    at = starts(throttle, time, *[NORD] * 20)
    assert max(sum(t <= other < t + 1 for other in at) for t in at) <= limit
    assert at[-1] == pytest.approx(19 / rate, abs=0.01)


def test_teams_do_not_wait_for_each_other_and_messages_of_all_share_one_pace() -> None:
    time = Time()
    throttle = Throttle(2, 4, now=time.now, sleep=time.sleep)
    assert starts(throttle, time, NORD, "/teams/ost/channels", "/users", NORD.lower()) == [0, 0, 0, 0.5]
    other = f"{NORD}/19:y/messages?$top=50"
    assert starts(throttle, time, SUD, other, SUD) == [0, 0.5, 0.75]


def test_what_was_not_asked_for_a_while_is_not_asked_for_all_at_once() -> None:
    time = Time()
    throttle = Throttle(2, 0, now=time.now, sleep=time.sleep)
    starts(throttle, time, NORD)
    time.at += 3600
    assert starts(throttle, time, NORD, NORD, NORD) == [0, 0.5, 1.0]


def test_without_a_limit_nothing_waits() -> None:
    time = Time()
    assert starts(Throttle(0, 0, now=time.now, sleep=time.sleep), time, *[SUD] * 100)[-1] == 0


def test_requests_retries_refusals_and_waits_are_counted() -> None:
    time = Time()
    busy = [httpx.Response(429, headers={"Retry-After": "7"}), httpx.Response(503)]

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/token"):
            return httpx.Response(200, json={"access_token": "t", "expires_in": 3600})
        return busy.pop(0) if busy else httpx.Response(200, json={"value": []})

    settings = GraphSettings.model_validate(
        {
            "base_url": "https://graph.example/v1.0",
            "token_url": "https://graph.example/token",
            "tenant": "t",
            "client_id": "c",
            "client_secret": "s",
        }
    )
    transport = httpx.MockTransport(answer)
    client = GraphClient(settings, sleep=time.sleep, now=time.now, jitter=lambda: 1.0, transport=transport)
    client.get(NORD)
    assert client.asked() == {"requests": 3, "retries": 2, "throttled": 1, "waited_s": 9}
    assert time.at == 109.0
