"""Whatever stands in a worker's queue, it goes on taking messages."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from celery.contrib.testing.worker import start_worker

from ingestion.schedule import Job, Lane
from ingestion.tasks import RUN_JOB, make_app, register
from tests.schedule.support import PERMISSIONS
from tests.support.redis_server import RedisServer

QUEUE: Final = f"context-engine:{Lane.ACCESS.value}"
RUBBISH: Final[list[Any]] = ["no JSON", b"\xff\x00", "5", "[]", "{}", {"properties": {}}]
SPOILED: Final[list[tuple[str, Any]]] = [
    ("body", "%%%"),
    ("body", base64.b64encode(b'{"a": 1}').decode()),
    ("body", None),
    ("content-type", "application/x-python-serialize"),
    ("headers", None),
    ("headers", {"task": "os.system", "id": "1"}),
]


def test_a_message_that_can_not_be_read_ends_no_worker_and_is_told_without_its_words(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server, ran = RedisServer(tmp_path, password="redis-password"), threading.Event()

    def run(job: Job, **_: bool) -> SimpleNamespace:
        assert job == PERMISSIONS
        ran.set()
        return SimpleNamespace(state="done")

    server.start()
    app = make_app(server.url, time_limit=60)
    register(app, lambda: SimpleNamespace(run=run), lambda: pytest.fail("nothing is given up"))  # type: ignore[arg-type, return-value]
    try:
        app.send_task(RUN_JOB, args=[PERMISSIONS.name], queue=Lane.ACCESS.value)
        with server.client() as client:
            message = client.rpop(QUEUE)
            spoiled = [json.dumps({**json.loads(message), part: value}) for part, value in SPOILED]
            given = [x if isinstance(x, str | bytes) else json.dumps(x) for x in RUBBISH]
            client.lpush(QUEUE, *given, *spoiled, message)
            worker = start_worker(app, pool="solo", perform_ping_check=False, queues=[Lane.ACCESS.value])
            with worker:
                assert ran.wait(20), "what is readable is read"
            assert client.llen(QUEUE) == 0
    finally:
        app.close()
        server.kill()
    assert "thrown away" in caplog.text


def test_a_broker_that_is_reached_by_tls_shows_its_certificate() -> None:
    with make_app("rediss://:secret@127.0.0.1:1/0", time_limit=60).connection_for_read() as connection:
        assert connection.ssl["ssl_cert_reqs"] == ssl.CERT_REQUIRED
