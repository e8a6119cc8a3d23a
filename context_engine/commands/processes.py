"""api, worker, beat, webhooks, audit work: the processes of server mode, each with its own plane's credentials only."""

from __future__ import annotations

import logging
import signal
import threading
from contextlib import ExitStack, closing
from pathlib import Path

from context_engine import heartbeats, planes, workers
from context_engine.audit_wiring import build_audit_plane
from context_engine.auditing import AuditSchedule
from context_engine.http_server import LoopbackServer
from context_engine.metrics import serve_metrics
from context_engine.stores import build_embedder, build_privileged_index, build_reading_index
from context_engine.wiring import build_api
from core.clock import SystemClock
from core.settings import load_settings
from graph.db import Database
from graph.inbox import Inbox
from graph.subscriptions import SubscriptionStore
from ingestion.schedule import Lane
from ingestion.tasks import make_app, nudge
from ingestion.webhooks.app import create_receiver
from query.api import create_app

log = logging.getLogger(__name__)


def api(config: Path | None) -> None:
    """The query plane: answer until told to stop."""
    settings = load_settings(file=config)
    planes.check(settings, planes.API)
    assert settings.postgres_query_url is not None
    with ExitStack() as stack:
        stop = _stopped()
        database = stack.enter_context(closing(Database(settings.postgres_query_url.get_secret_value(), max_size=8)))
        embedder = build_embedder(settings)
        index = build_reading_index(settings, embedder)
        stack.callback(index.close)
        services = build_api(settings, database, index, embedder, SystemClock())
        app = create_app(services)
        stack.enter_context(serve_metrics(settings, database, refused=services.service.refused.counts))
        server = stack.enter_context(LoopbackServer(app, host=settings.host, port=settings.port))
        print(f"the API serves at {server.url}", flush=True)
        stop.wait()


def webhooks(config: Path | None) -> None:
    """The receiver of deliveries: keep and acknowledge them until told to stop."""
    settings = load_settings(file=config)
    planes.check(settings, planes.WEBHOOKS)
    assert settings.postgres_hooks_url is not None
    clock = SystemClock()
    with ExitStack() as stack:
        stop = _stopped()
        database = stack.enter_context(closing(Database(settings.postgres_hooks_url.get_secret_value())))

        def unheard(connector: str) -> None:
            """Without a broker the workers find hints by themselves."""

        tell = unheard
        if settings.redis_url is not None:
            broker = make_app(settings.redis_url.get_secret_value(), time_limit=settings.job_time_limit)
            stack.callback(broker.close)

            def tell(connector: str) -> None:
                nudge(broker, connector)

        app = create_receiver(
            settings,
            inbox=Inbox(database, clock),
            subscriptions=SubscriptionStore(database),
            nudge=tell,
            clock=clock,
        )
        listening = settings.webhooks
        server = stack.enter_context(
            LoopbackServer(app, host=listening.host, port=listening.port, lifespan=True, setting="webhooks.port")
        )
        print(f"deliveries are taken at {server.url}", flush=True)
        stop.wait()


def audit(config: Path | None) -> None:
    """The audit plane: look into answers and prune the log until told to stop."""
    settings = load_settings(file=config)
    planes.check(settings, planes.AUDIT)
    assert settings.postgres_audit_url is not None
    with ExitStack() as stack:
        stop = _stopped()
        database = stack.enter_context(closing(Database(settings.postgres_audit_url.get_secret_value(), max_size=2)))
        embedder = build_embedder(settings)
        index = build_privileged_index(settings, embedder)
        stack.callback(index.close)
        plane = build_audit_plane(settings, database, index, embedder)
        schedule = AuditSchedule(
            plane, every=settings.audit_interval, beat=lambda: heartbeats.beat(settings.data, "audit")
        )
        stack.enter_context(schedule)
        print("the audit plane works", flush=True)
        stop.wait()


def worker(config: Path | None, lane: Lane, concurrency: int) -> int:
    """Take work of one lane from the broker until told to stop; the exit status."""
    return workers.run_worker(load_settings(file=config), lane, concurrency=concurrency)


def beat(config: Path | None) -> None:
    """Offer every job to the workers until told to stop."""
    workers.run_beat(load_settings(file=config))


def _stopped() -> threading.Event:
    """Set by SIGINT or SIGTERM."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop
