"""The receiver over HTTP, with its own role in a real Postgres: what it takes, what it refuses, what it answers."""

from __future__ import annotations

import base64
import hmac
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from pydantic import SecretStr

from context_engine.http_server import LoopbackServer
from core.clock import FixedClock
from core.errors import ConfigError
from core.hints import HintKind
from core.settings import Settings, WebhookSettings
from graph.db import Database
from graph.inbox import Inbox
from graph.subscriptions import Subscription, SubscriptionStore
from ingestion.webhooks.app import MOST_HELD, Receiver, create_receiver
from ingestion.webhooks.basic_auth import is_allowed
from ingestion.webhooks.client_state import client_state, proves
from ingestion.webhooks.limits import DEEPEST
from ingestion.webhooks.outcomes import Outcome
from tests.support.postgres import FreshDatabase, PostgresServer
from tests.webhooks.envelopes import (
    KEY,
    NOW,
    ORGANIZATION,
    SUBSCRIPTION,
    TENANT,
    ado,
    graph,
    lifecycle,
    message,
    notice,
    update,
    work_item,
)
from tests.webhooks.support import empty, hooks_database

USER, PASSWORD = "context-engine", "a long pass:word"
ADO, GRAPH, LIFECYCLE = "/hooks/azure-devops", "/hooks/graph", "/hooks/graph/lifecycle"


def settings(**hooks: Any) -> Settings:
    given: dict[str, Any] = {
        "user": USER,
        "password": SecretStr(PASSWORD),
        "client_state_key": SecretStr(KEY),
        "organization": ORGANIZATION,
        "tenant": TENANT,
    }
    return Settings(webhooks=WebhookSettings(**given | hooks))


class Side:
    """A receiver, and what the other side sees of it."""

    def __init__(self, mine: Database, theirs: Database) -> None:
        self.clock = FixedClock(NOW)
        self.mine, self.inbox = mine, Inbox(theirs, self.clock)
        self.subscriptions = SubscriptionStore(theirs)
        self.nudged: list[str] = []
        self.apps: list[FastAPI] = []
        self.app = self.made()

    def made(self, **hooks: Any) -> FastAPI:
        """A receiver with other settings."""
        return self.nudging(self.nudged.append, **hooks)

    def nudging(self, nudge: Callable[[str], object], **hooks: Any) -> FastAPI:
        """A receiver that nudges so."""
        inbox, store = Inbox(self.mine, self.clock), SubscriptionStore(self.mine)
        app = create_receiver(settings(**hooks), inbox, store, nudge, self.clock)
        self.apps.append(app)
        return app

    def client(self, **hooks: Any) -> TestClient:
        """A way to ask a receiver with other settings."""
        return TestClient(self.made(**hooks) if hooks else self.app)

    def ado(self, body: Any, **more: Any) -> httpx.Response:
        """Deliver as Azure DevOps."""
        client = more.pop("client", None) or self.client()
        answer: httpx.Response = client.post(ADO, **({"json": body} | {"auth": (USER, PASSWORD)} | more))
        return answer

    def graph(self, body: Any, path: str = GRAPH, **more: Any) -> httpx.Response:
        """Deliver as Graph."""
        answer: httpx.Response = self.client().post(path, **({"json": body} | more))
        return answer

    def pending(self) -> int:
        """How many hints wait."""
        return self.inbox.state().pending

    def counted(self, app: FastAPI | None = None) -> Mapping[str, int]:
        """How deliveries ended."""
        (app or self.app).state.receiver.ledger.flush()
        found: Counter[str] = Counter()
        for count in self.inbox.counts.all():
            found[count.outcome] += count.n
        return found

    def comes(self, counts: Mapping[str, int]) -> bool:
        """Whether deliveries end so, soon: some are worked on when their sender is answered already."""
        for _ in range(500):
            if self.counted() == counts:
                return True
            time.sleep(0.01)
        return False


@pytest.fixture(scope="module")
def databases(postgres: PostgresServer) -> Iterator[tuple[FreshDatabase, Database, Database]]:
    with hooks_database(postgres) as made:
        yield made


@pytest.fixture
def side(databases: tuple[FreshDatabase, Database, Database]) -> Iterator[Side]:
    _, mine, theirs = databases
    made = Side(mine, theirs)
    yield made
    for app in made.apps:
        app.state.receiver.ledger.close()
    empty(theirs)


def test_a_delivery_is_kept_before_it_is_acknowledged_and_then_a_worker_is_told(side: Side) -> None:
    """C034: acknowledged means that it is in a durable inbox."""
    answer = side.ado(ado("workitem.deleted", work_item(4103, 9)))
    assert (answer.status_code, answer.json()) == (200, {"outcome": "accepted"})
    (pending,) = side.inbox.pending("azure_devops", HintKind.ITEM)
    assert (pending.hint.gone, pending.hint.version) == (True, "9")
    assert side.nudged == ["azure_devops"]
    before = side.pending()
    answer = side.graph(graph(notice(message("1")), notice(message("2"))))
    assert (answer.status_code, answer.content) == (202, b"")
    assert side.pending() == before + 2
    assert side.nudged == ["azure_devops", "teams"]
    assert side.counted() == {"accepted": 3}


def test_a_replay_is_counted_and_has_no_effect(side: Side) -> None:
    body = ado("workitem.updated", update(4105, 8))
    assert [side.ado(body).json()["outcome"] for _ in range(3)] == ["accepted", "doubled", "doubled"]
    assert side.pending() == 1
    assert side.nudged == ["azure_devops"]
    side.clock.advance(timedelta(days=1, seconds=1))
    answer = side.ado(body)
    assert (answer.status_code, answer.json()) == (200, {"outcome": "stale"})
    assert side.counted() == {"accepted": 1, "doubled": 2, "stale": 1}


def test_doubles_must_be_remembered_longer_than_a_delivery_may_be_old(side: Side) -> None:
    with pytest.raises(ConfigError, match=r"webhooks\.keep"):
        side.made(max_age=600, keep=600)


def test_secrets_are_compared_in_the_same_time_for_right_and_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[object] = []
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: compared.append(b) or a == b)
    for given in (b"context-engine:x", f"{USER}:{PASSWORD}".encode()):
        is_allowed("Basic " + base64.b64encode(given).decode(), USER, PASSWORD)
    proves(KEY, "x", ["/users"])
    assert compared == [f"{USER}:{PASSWORD}".encode()] * 2 + [client_state(KEY, "/users").encode()]


@pytest.mark.parametrize(
    "auth",
    [None, (USER, "wrong"), ("wrong", PASSWORD), (USER, ""), (USER, PASSWORD + "x"), "Basic !", "Bearer x", "Basic"],
)
def test_without_the_password_nothing_is_read(side: Side, auth: Any) -> None:
    headers = {"Authorization": auth} if isinstance(auth, str) else {}
    answer = side.ado({"x": 1}, auth=auth if isinstance(auth, tuple) else None, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Basic ")
    assert answer.json() == {"outcome": "refused"}
    assert side.counted() == {"forged": 1}


def test_where_a_secret_is_not_set_nobody_has_it(side: Side) -> None:
    without = side.made(password=None, client_state_key=None)
    client = TestClient(without)
    assert client.post(ADO, json=ado("workitem.created", work_item(1, 1)), auth=(USER, "")).status_code == 401
    assert client.post(GRAPH, json=graph(notice(message("1")))).status_code == 403
    assert client.post(GRAPH, params={"validationToken": "x"}).status_code == 403
    assert side.counted(without) == {"forged": 3}
    assert side.pending() == 0


def test_it_must_be_known_whose_deliveries_are_taken(side: Side) -> None:
    for missing in ("organization", "tenant"):
        with pytest.raises(ConfigError, match=rf"webhooks\.{missing}"):
            side.made(**{missing: None})


def test_forged_notifications_get_the_same_answer_as_good_ones_and_no_effect(side: Side) -> None:
    """C038: a wrong clientState has no effect."""
    good = side.graph(graph(notice(message("1"))))
    forged = side.graph(graph(notice(message("1"), "deleted", clientState="guessed")))
    assert (forged.status_code, forged.content, dict(forged.headers)) == (202, good.content, dict(good.headers))
    mixed = side.graph(graph(notice(message("1"), clientState="guessed"), notice(message("2"))))
    assert mixed.status_code == 202
    assert side.pending() == 2
    assert side.counted() == {"accepted": 2, "forged": 2}


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        (ado("build.complete", {}), "unknown"),
        (ado("workitem.created", {}), "malformed"),
        (ado("workitem.created", work_item(1, 1) | {"url": "https://dev.azure.com/other/x"}), "wrong_organization"),
        ([], "malformed"),
    ],
)
def test_what_azure_devops_sends_in_vain_does_not_put_its_hook_on_probation(
    side: Side, body: Any, outcome: str
) -> None:
    answer = side.ado(body)
    assert (answer.status_code, answer.json()) == (200, {"outcome": outcome})
    assert side.counted() == {outcome: 1}
    assert side.pending() == 0


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b'{"value": NaN}', b"[1]", b'{"a": ' + b"9" * 5000 + b"}"])
def test_what_is_no_json_object_is_malformed(side: Side, content: bytes) -> None:
    assert side.graph(None, json=None, content=content).status_code == 400
    assert side.ado(None, json=None, content=content).json() == {"outcome": "malformed"}
    assert side.counted() == {"malformed": 2}


def test_a_compressed_body_is_not_unpacked(side: Side) -> None:
    answer = side.graph(None, json=None, content=b"x", headers={"Content-Encoding": "gzip"})
    assert answer.status_code == 400


def test_a_body_that_is_too_large_is_not_read(side: Side) -> None:
    client = side.client(max_bytes=2048)
    large = b'{"value": "' + b"x" * 3000 + b'"}'
    assert client.post(GRAPH, content=large).status_code == 413
    assert client.post(GRAPH, content=iter([large[:1500], large[1500:]])).status_code == 413
    assert client.post(ADO, content=large, auth=(USER, PASSWORD)).status_code == 413
    assert client.post(GRAPH, content=b"{}", headers={"Content-Length": "99999999999999999999999"}).status_code == 413
    assert side.counted(client.app) == {"oversized": 4}  # type: ignore[arg-type]


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_a_body_that_is_nested_too_deep_is_refused(side: Side, opening: bytes) -> None:
    closing = b"]" if opening == b"[" else b"}"
    for depth, status in ((DEEPEST - 1, 202), (DEEPEST, 413), (100_000, 413)):
        body = b'{"value": [], "x": ' + opening * depth + b"1" + closing * depth + b"}"
        assert side.graph(None, json=None, content=body).status_code == status, depth


def test_brackets_in_texts_are_no_depth(side: Side) -> None:
    body = b'{"value": [], "x": "' + b'[{\\"' * 1000 + b'"}'
    assert side.graph(None, json=None, content=body).status_code == 202


def test_the_handshake_says_the_token_back_as_plain_text(side: Side) -> None:
    """C038: the validation token is echoed."""
    for path in (GRAPH, LIFECYCLE):
        for token in (
            "Validation: Testing client application reachability",
            "<script>alert(1)</script>",
            "ü+%2B",
            "x" * 1024,
        ):
            answer = side.client().post(path, params={"validationToken": token})
            assert (answer.status_code, answer.text) == (200, token)
            assert answer.headers["content-type"] == "text/plain; charset=utf-8"
            assert answer.headers["x-content-type-options"] == "nosniff"
    assert side.counted() == {}


def test_a_handshake_is_posted_once_and_short(side: Side) -> None:
    client = side.client()
    assert client.get(GRAPH, params={"validationToken": "x"}).status_code == 405
    assert client.post(GRAPH, params={"validationToken": "x" * 1025}).status_code == 400
    assert client.post(GRAPH, params={"validationToken": ""}).status_code == 400
    assert client.post(f"{GRAPH}?validationToken=a&validationToken=b").status_code == 400
    assert client.post(ADO, params={"validationToken": "x"}).status_code == 401


def test_a_token_of_a_handshake_is_not_logged(side: Side, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG", logger="ingestion"):
        side.client().post(GRAPH, params={"validationToken": "secret-token"})
    assert "secret-token" not in caplog.text


def test_a_lifecycle_event_is_kept_for_whoever_looks_after_subscriptions(side: Side) -> None:
    side.subscriptions.put(
        Subscription(
            connector="teams",
            resource="/users",
            id=SUBSCRIPTION,
            made_at=NOW,
            renewed_at=NOW,
            expires_at=NOW + timedelta(days=1),
        )
    )
    assert side.graph(graph(lifecycle("missed", "/users")), LIFECYCLE).status_code == 202
    assert side.inbox.waiting("teams") == {"subscriptions"}
    assert side.counted() == {"accepted": 1}
    assert [s.last_delivery_at for s in side.subscriptions.all()] == [NOW]


def test_where_the_inbox_can_not_be_written_the_sender_is_told_to_come_again(side: Side) -> None:
    with side.inbox._db.connection() as connection:
        connection.execute("ALTER TABLE inbox RENAME TO elsewhere")
    try:
        answer = side.ado(ado("workitem.deleted", work_item(4103, 9)))
        assert (answer.status_code, answer.json()) == (503, {"outcome": "unkept"})
        assert side.graph(graph(notice(message("1")))).status_code == 503
        assert side.client().get("/healthz").status_code == 503
        assert side.nudged == []
    finally:
        with side.inbox._db.connection() as connection:
            connection.execute("ALTER TABLE elsewhere RENAME TO inbox")
    assert side.pending() == 0
    assert side.counted() == {"unkept": 2}


def test_an_inbox_that_hangs_is_not_waited_for(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingestion.webhooks.app.ANSWER_SECONDS", 0.2)
    with side.inbox._db.connection() as connection:
        connection.execute("LOCK TABLE inbox IN ACCESS EXCLUSIVE MODE")
        began = time.monotonic()
        assert side.ado(ado("workitem.updated", update(4103, 9))).status_code == 503
        assert time.monotonic() - began < 2.5
    assert side.ado(ado("workitem.updated", update(4103, 9))).status_code == 200
    assert side.comes({"unkept": 1, "accepted": 1, "doubled": 1}), "what was kept late is known when it is told again"
    assert side.pending() == 1


def test_health_says_whether_hints_can_be_kept(side: Side) -> None:
    answer = side.client().get("/healthz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
    assert side.pending() == 0


def test_a_nudge_that_fails_is_no_error_for_the_sender(side: Side) -> None:
    def broken(_: str) -> None:
        raise RuntimeError("the broker is down")

    app = side.nudging(broken)
    answer = side.ado(ado("workitem.created", work_item(1, 1)), client=TestClient(app))
    assert answer.status_code == 200
    receiver: Receiver = app.state.receiver
    assert receiver._nudges.failed == 1
    assert side.pending() == 1


def test_no_more_is_held_in_memory_than_fits(side: Side) -> None:
    receiver: Receiver = side.app.state.receiver
    receiver.held.add(MOST_HELD - 100)
    assert side.ado(ado("workitem.created", work_item(1, 1))).status_code == 503
    receiver.held.free(MOST_HELD - 100)
    assert side.ado(ado("workitem.created", work_item(1, 1))).status_code == 200
    side.client(max_bytes=2048).post(GRAPH, content=b"x" * 3000)
    assert receiver.held.bytes == 0, "what was answered is held no more"


def test_nothing_of_a_delivery_and_no_secret_is_logged(side: Side, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG", logger="ingestion"):
        side.ado(ado("build.complete", {"title": "must go nowhere"}))
        side.ado(ado("workitem.created", {"id": "must go nowhere"}))
        side.ado({"x": "must go nowhere"}, auth=(USER, "a wrong secret"))
        side.graph(graph(notice("must go nowhere", clientState="a wrong secret")))
        side.counted()
    assert "unknown" in caplog.text
    for secret in ("nowhere", "secret", PASSWORD, KEY):
        assert secret not in caplog.text


def test_a_flood_of_forged_deliveries_is_one_write_and_one_line(side: Side, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("WARNING", logger="ingestion"):
        client = side.client()
        for _ in range(50):
            client.post(ADO, json={})
        assert side.counted() == {"forged": 50}
    assert len(caplog.records) == 1


def test_counts_wait_where_they_can_not_be_written(side: Side) -> None:
    ledger = side.app.state.receiver.ledger
    with side.inbox._db.connection() as connection:
        connection.execute("ALTER TABLE deliveries RENAME TO elsewhere")
    ledger.count("graph", Outcome.FORGED, 3)
    ledger.flush()
    with side.inbox._db.connection() as connection:
        connection.execute("ALTER TABLE elsewhere RENAME TO deliveries")
    assert side.counted() == {"forged": 3}


def test_there_is_nothing_else_to_be_had(side: Side) -> None:
    client = side.client()
    for path in ("/", "/docs", "/openapi.json", "/v1/context", "/metrics"):
        assert client.get(path).status_code == 404
    assert client.get(ADO).status_code == 405


@pytest.fixture
def served(side: Side) -> Iterator[tuple[Side, tuple[str, int]]]:
    with LoopbackServer(side.app) as server:
        host, port = server.url.removeprefix("http://").split(":")
        yield side, (host, int(port))


def test_a_body_that_does_not_come_is_not_waited_for(
    served: tuple[Side, tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    side, address = served
    monkeypatch.setattr("ingestion.webhooks.limits.READ_SECONDS", 0.2)
    head = f"POST {GRAPH} HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n".encode()
    with socket.create_connection(address, timeout=10) as slow:
        slow.sendall(head + b'{"value": [')
        assert b" 408 " in slow.recv(4096)
    with socket.create_connection(address, timeout=10) as gone:
        gone.sendall(head + b'{"value": [')
    assert side.comes({"slow": 2})


def test_many_deliveries_at_once_are_each_kept(served: tuple[Side, tuple[str, int]]) -> None:
    side, (host, port) = served
    url = f"http://{host}:{port}{ADO}"

    def deliver(n: int) -> None:
        with httpx.Client(auth=(USER, PASSWORD), timeout=20) as client:
            for k in range(10):
                body = ado("workitem.updated", update(k + 1, n + 1), number=10 * n + k)
                assert client.post(url, json=body).status_code == 200

    threads = [threading.Thread(target=deliver, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert side.pending() == 40
    assert side.counted()["accepted"] == 40
