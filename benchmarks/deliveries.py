"""Deliveries of webhooks a second that the receiver keeps: checked, written to Postgres, acknowledged.

    .venv/bin/python -m benchmarks.deliveries [--seconds 10] [--senders 1 8] [--json]

The receiver in a process of its own before an embedded Postgres that writes to its disk; each sender has one connection
and sends the next delivery when the last was acknowledged. All of it shares this machine. Every delivery is new, and
afterwards the inbox holds exactly those that were acknowledged.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from benchmarks.report import machine, tell
from context_engine.embedded import QUERY_ROLE
from context_engine.http_server import LoopbackServer
from context_engine.postgres import EmbeddedPostgres
from core.clock import SystemClock
from core.settings import Settings, WebhookSettings
from graph.db import Database
from graph.inbox import Inbox
from graph.migrate import migrate
from graph.subscriptions import SubscriptionStore
from ingestion.webhooks.app import create_receiver
from ingestion.webhooks.paths import AZURE_DEVOPS_PATH

ORGANIZATION, PASSWORD = "benchmark", "a-password-of-this-benchmark"
_SERVE = "--serve"


def serve() -> None:
    """Receive until standard input is closed. Its first line is the way to Postgres; one line tells on which port."""
    dsn = sys.stdin.readline().strip()
    webhooks = WebhookSettings(organization=ORGANIZATION, password=SecretStr(PASSWORD))
    clock = SystemClock()
    with closing(Database(dsn, max_size=8)) as database:
        app = create_receiver(
            Settings(webhooks=webhooks),
            inbox=Inbox(database, clock),
            subscriptions=SubscriptionStore(database),
            nudge=lambda _: None,
            clock=clock,
        )
        with LoopbackServer(app, lifespan=True) as server:
            print(server.url, flush=True)
            sys.stdin.read()


@contextmanager
def receiver(dsn: str) -> Iterator[str]:
    """A receiver in a process of its own; its address, as host and port."""
    command = [sys.executable, "-m", "benchmarks.deliveries", _SERVE]
    root = Path(__file__).resolve().parents[1]
    with subprocess.Popen(  # noqa: S603 - our own module
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            process.stdin.write(f"{dsn}\n")
            process.stdin.flush()
            yield process.stdout.readline().strip().removeprefix("http://")
        finally:
            process.stdin.close()
            process.wait(30)


def delivery(sender: int, number: int) -> bytes:
    """A service hook's envelope of a work item's change, each with an id of its own."""
    base = f"https://dev.azure.com/{ORGANIZATION}/"
    key = f"{sender:08x}-0000-4000-8000-{number:012x}"
    item = sender * 1_000_000 + number
    return json.dumps(
        {
            "subscriptionId": "00000000-0000-4000-8000-000000000001",
            "notificationId": item,
            "id": key,
            "eventType": "workitem.updated",
            "publisherId": "tfs",
            "message": None,
            "resource": {
                "id": number,
                "workItemId": item,
                "rev": 2,
                "url": f"{base}_apis/wit/workItems/{item}/updates/2",
            },
            "resourceVersion": "1.0",
            "resourceContainers": {"collection": {"id": key, "baseUrl": base}},
            "createdDate": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
        }
    ).encode()


def send(address: str, sender: int, until: float, taken: list[float]) -> None:
    """Send one after the other until then; seconds each took."""
    token = base64.b64encode(f"context-engine:{PASSWORD}".encode()).decode()
    headers = {"Content-Type": "application/json", "Authorization": f"Basic {token}"}
    with closing(http.client.HTTPConnection(address, timeout=30)) as connection:
        number = 0
        while time.perf_counter() < until:
            number += 1
            started = time.perf_counter()
            connection.request("POST", AZURE_DEVOPS_PATH, delivery(sender, number), headers)
            answer = connection.getresponse()
            answer.read()
            if answer.status != 200:
                raise AssertionError(f"delivery {number} of sender {sender} was answered {answer.status}")
            taken.append(time.perf_counter() - started)


def sustained(address: str, senders: int, seconds: float, first: int) -> dict[str, Any]:
    """What so many senders get through in so many seconds."""
    taken: list[list[float]] = [[] for _ in range(senders)]
    until = time.perf_counter() + seconds
    threads = [threading.Thread(target=send, args=(address, first + n, until, taken[n])) for n in range(senders)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    passed = time.perf_counter() - started
    every = sorted(t for one in taken for t in one)
    return {
        "senders": senders,
        "deliveries": len(every),
        "per_second": round(len(every) / passed, 1),
        "p50_ms": round(statistics.median(every) * 1000, 1),
        "p99_ms": round(every[len(every) * 99 // 100] * 1000, 1),
    }


def measure(data: Path, *, senders: Sequence[int], seconds: float, dsn: str | None = None) -> dict[str, Any]:
    """Each number of senders in turn. `dsn` is that of a migrated Postgres; None: an embedded one is started."""
    with ExitStack() as stack:
        if dsn is None:
            dsn = stack.enter_context(EmbeddedPostgres(data)).ingest_dsn
            migrate(dsn, query_role=QUERY_ROLE)
        database = stack.enter_context(closing(Database(dsn)))
        address = stack.enter_context(receiver(dsn))
        sustained(address, 1, min(1.0, seconds), 1)
        before = _kept(database)
        runs = [sustained(address, n, seconds, 1000 * (i + 1)) for i, n in enumerate(senders)]
        kept = _kept(database) - before
    sent = sum(run["deliveries"] for run in runs)
    if kept != sent:
        raise AssertionError(f"{sent} deliveries were acknowledged, and {kept} kept")
    return {"runs": runs, "machine": machine(), "date": datetime.now(UTC).date().isoformat()}


def _kept(database: Database) -> int:
    with database.connection() as connection:
        row = connection.execute("SELECT count(*) AS n FROM inbox").fetchone()
    return int(row["n"]) if row else 0


def show(result: dict[str, Any]) -> None:
    """The result as Markdown."""
    print(f"{result['date']}, {result['machine']}\n")
    print("| senders | deliveries a second | p50 ms | p99 ms |\n| ---: | ---: | ---: | ---: |")
    for run in result["runs"]:
        print(f"| {run['senders']} | {run['per_second']:.0f} | {run['p50_ms']} | {run['p99_ms']} |")


def main() -> None:
    """Measure and print; or serve, for a measurement."""
    if sys.argv[1:2] == [_SERVE]:
        serve()
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--senders", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="context-engine-benchmark-") as folder:
        result = measure(Path(folder), senders=options.senders, seconds=options.seconds)
    tell(result, show, as_json=options.json)


if __name__ == "__main__":
    main()
