"""The processes that Celery drives: a worker of one lane, and beat.

A worker's process forks before it opens anything: neither a pool of connections nor a model nor the index survives a
fork. Each child makes its own at its first job.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import cached_property
from multiprocessing import get_context
from typing import Any

from celery import Celery, bootsteps, signals
from celery.beat import Scheduler

from context_engine import heartbeats, planes
from context_engine.scheduling import build_runner, holder_of_this_process
from context_engine.stores import build_embedder, build_writing_index
from context_engine.wiring import build_connectors, build_synchronizer, known_readers
from core.errors import ConfigError
from core.settings import Settings
from graph.db import Database
from graph.dead_letters import DeadLetters
from ingestion.schedule import JobRunner, Lane, jobs_for
from ingestion.tasks import beat_schedule, make_app, register

log = logging.getLogger(__name__)


class IngestionPlane:
    """What a worker's child works with; each part is made when it is first needed, in the process that needs it."""

    def __init__(self, settings: Settings, stopping: Callable[[], bool]) -> None:
        self._settings = settings
        self._stopping = stopping
        self._open = ExitStack()

    @cached_property
    def database(self) -> Database:
        """The record, as the ingestion plane's role."""
        assert self._settings.postgres_url is not None
        database = Database(self._settings.postgres_url.get_secret_value(), max_size=6)
        return self._open.enter_context(closing(database))

    @cached_property
    def dead(self) -> DeadLetters:
        """Where refused messages go."""
        return DeadLetters(self.database)

    @cached_property
    def runner(self) -> JobRunner:
        """Runs jobs over the stores and sources of the settings."""
        settings = _share_of(self._settings)
        embedder = build_embedder(settings)
        index = build_writing_index(settings, embedder)
        self._open.callback(index.close)
        connectors = build_connectors(settings)
        for connector in connectors:
            self._open.callback(connector.close)
        synchronizer = build_synchronizer(settings, self.database, index, embedder)
        return build_runner(
            settings,
            self.database,
            synchronizer,
            connectors,
            holder=holder_of_this_process(),
            stopping=self._stopping,
        )

    def close(self) -> None:
        """Let go of what was opened."""
        self._open.close()


def run_worker(settings: Settings, lane: Lane, *, concurrency: int) -> int:
    """Take work of one lane from the broker until told to stop; the exit status.

    SIGTERM lets running jobs end at their next batch; what is killed goes on in another worker.
    """
    planes.check(settings, planes.WORKER)
    stop = get_context("fork").Event()
    plane = IngestionPlane(settings, stop.is_set)
    app = _app(settings)
    register(app, lambda: plane.runner, lambda: plane.dead)
    app.steps["consumer"].add(_heartbeat_step(settings, f"worker-{lane.value}"))
    signals.worker_shutting_down.connect(lambda **_: stop.set(), weak=False)
    signals.worker_process_shutdown.connect(lambda **_: plane.close(), weak=False)
    worker = app.Worker(
        queues=[lane.value],
        concurrency=concurrency,
        pool="prefork",
        hostname=f"{lane.value}@%h",
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        quiet=True,
    )
    worker.start()
    return int(worker.exitcode or 0)


def run_beat(settings: Settings) -> None:
    """Offer every job to the workers again and again, until told to stop. It keeps nothing: it may be restarted, or
    run twice."""
    planes.check(settings, planes.BEAT)
    app = _app(settings)
    app.conf.beat_schedule = beat_schedule(jobs_for(known_readers(settings), settings))
    app.conf.beat_max_loop_interval = heartbeats.EVERY

    class InMemory(Scheduler):  # type: ignore[misc]
        """Celery's own scheduler, which unlike its default one writes no file."""

        def tick(self, *given: Any, **more: Any) -> Any:
            heartbeats.beat(settings.data, "beat")
            return super().tick(*given, **more)

    app.Beat(scheduler_cls=InMemory, pidfile=None, quiet=True).run()


def _share_of(settings: Settings) -> Settings:
    """What one process may ask of Graph, so that all that may ask at once stay below its limits together."""
    graph = settings.graph
    if graph is None:
        return settings
    share = {
        name: getattr(graph, name) / settings.source_concurrency
        for name in ("team_requests_per_second", "message_requests_per_second")
    }
    return settings.model_copy(update={"graph": graph.model_copy(update=share)})


def _app(settings: Settings) -> Celery:
    assert settings.redis_url is not None
    # Our own command line has set up logging already.
    signals.setup_logging.connect(lambda **_: None, weak=False)
    app = make_app(settings.redis_url.get_secret_value(), time_limit=settings.job_time_limit)
    if settings.lease >= settings.job_time_limit:
        raise ConfigError("a lease outlives the jobs that hold it", where="lease", mend="Set it below job_time_limit")
    return app


def _heartbeat_step(settings: Settings, process: str) -> type[bootsteps.StartStopStep]:
    class Heartbeat(bootsteps.StartStopStep):  # type: ignore[misc]
        """Beats as long as the worker is connected and its loop turns."""

        requires = ("celery.worker.consumer.tasks:Tasks",)

        def start(self, parent: Any) -> None:
            self._timer = parent.timer.call_repeatedly(heartbeats.EVERY, heartbeats.beat, (settings.data, process))
            heartbeats.beat(settings.data, process)

        def stop(self, parent: Any) -> None:
            self._timer.cancel()

    return Heartbeat
