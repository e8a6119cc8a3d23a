"""The Celery app of workers and beat: one task, two queues, and settings under which nothing is lost or run twice.

Redis carries names of jobs and nothing else. What is due, and who runs it, is decided in Postgres
(`ingestion.schedule`): messages may be lost, doubled or late, and beat may be restarted or run twice; each of these
costs at most some seconds.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import ssl
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, Final

from celery import Celery
from celery.worker.request import Request
from kombu.transport.virtual import QoS

from core.errors import ConfigError, InputError, StoreUnavailableError
from graph.dead_letters import DeadLetters
from ingestion.consumer import UnshakenConsumer
from ingestion.lanes import Lane
from ingestion.schedule.jobs import Job, JobKind, Planned
from ingestion.schedule.runner import JobRunner

log = logging.getLogger(__name__)

RUN_JOB: Final = "context_engine.run_job"
# Runs hints whether they are due or not: somebody has just put some into the inbox.
NOW: Final = "now"
_KEYS: Final = "context-engine:"
_SHORTEST_TICK: Final = timedelta(seconds=1)
_LONGEST_TICK: Final = timedelta(seconds=15)


def make_app(broker_url: str, *, time_limit: int, visibility_timeout: int | None = None) -> Celery:
    """An app over this broker. `time_limit` is the seconds after which a task's process is killed;
    `visibility_timeout` those after which a message that nobody acknowledged is delivered again.

    Raises ConfigError where a message would be delivered again while its task may still run.
    """
    visible = visibility_timeout if visibility_timeout is not None else time_limit + 300
    if visible <= time_limit:
        raise ConfigError(
            f"messages are delivered again after {visible} s, but a task may run for {time_limit} s",
            where="job_time_limit",
            mend="Let the broker wait longer than a task may run",
        )
    app = Celery("context-engine", broker=broker_url, set_as_current=False)
    app.conf.update(
        # A message is acknowledged when its task has ended; one whose process died is delivered again.
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        worker_prefetch_multiplier=1,
        task_time_limit=time_limit,
        task_ignore_result=True,
        result_backend=None,
        task_serializer="json",
        accept_content=["json"],
        event_serializer="json",
        task_queues={lane.value: {"exchange": lane.value, "routing_key": lane.value} for lane in Lane},
        task_create_missing_queues=False,
        task_default_queue=Lane.ACCESS.value,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_connection_timeout=5,
        # The broker's own keepalive, so that a connection that died in silence is noticed and made anew.
        broker_transport_options={
            "visibility_timeout": visible,
            "global_keyprefix": _KEYS,
            "socket_connect_timeout": 5,
            "socket_keepalive": True,
            "health_check_interval": 15,
            "retry_on_timeout": True,
        },
        task_publish_retry=True,
        task_publish_retry_policy={"max_retries": 3, "interval_start": 0, "interval_step": 0.2, "interval_max": 0.5},
        # A broker that can be reached must not be a way to shut workers down.
        worker_enable_remote_control=False,
        worker_consumer=UnshakenConsumer,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        enable_utc=True,
        timezone="UTC",
    )
    if broker_url.startswith("rediss:"):
        # Celery's own default looks at no certificate.
        app.conf.broker_use_ssl = {"ssl_cert_reqs": ssl.CERT_REQUIRED, "ssl_check_hostname": True}
    return app


def register(app: Celery, runner: Callable[[], JobRunner], dead: Callable[[], DeadLetters]) -> None:
    """Give the app its task. Both are called in the process that runs it, at the first task."""

    def run_job(*given: Any, **more: Any) -> None:
        run_message(given, more, runner, dead)

    app.task(name=RUN_JOB, typing=False, shared=False, Request=HeldMessage)(run_job)


class HeldMessage(Request):  # type: ignore[misc]
    """A message in a worker's hands, which lets go of it even where the broker can't be told.

    Otherwise one that ends while the broker is away is taken for one that is still being worked on, and a worker that
    takes one at a time never takes another. The broker delivers it again later, and it is then not due.
    """

    def acknowledge(self) -> None:
        super().acknowledge()
        self._let_go()

    def reject(self, requeue: bool = False) -> None:
        super().reject(requeue)
        self._let_go()

    def _let_go(self) -> None:
        qos, tag = self.message.channel.qos, self.message.delivery_tag
        with contextlib.suppress(KeyError):  # it is not in our hands any more
            qos.get(tag)
            QoS.ack(qos, tag)  # type: ignore[no-untyped-call]  # the part that the broker is not asked for


def run_message(
    given: tuple[Any, ...], more: dict[str, Any], runner: Callable[[], JobRunner], dead: Callable[[], DeadLetters]
) -> None:
    """Run the job that a message names. What names none is refused, and put where somebody may look.

    A store that is down is no reason to keep the message: the next one comes within seconds.
    """
    try:
        job, force = _read(given, more)
        result = runner().run(job, force=force)
    except StoreUnavailableError as e:
        log.error("a job could not be run: %s", e)
        return
    except InputError as e:
        name = _shown(given)
        log.error("a message was refused: %s", e.message)
        try:
            dead().put(name, {"arguments": len(given) + len(more)}, f"refused: {e.message}", attempts=1)
        except StoreUnavailableError as down:
            log.error("the refused message could not be kept: %s", down)
        return
    log.info("job %s: %s", job.name, result.state)


def _read(given: tuple[Any, ...], more: dict[str, Any]) -> tuple[Job, bool]:
    match given:
        case (str() as name,) if not more:
            return Job.named(name), False
        case (str() as name, str() as how) if not more and how == NOW:
            job = Job.named(name)
            if job.kind is JobKind.HINTS:
                return job, True
    raise InputError("the message names no job")


def _shown(given: tuple[Any, ...]) -> str:
    """What a refused message may be called: never what stands in it, which can be anything."""
    try:
        return Job.named(given[0]).name
    except (IndexError, InputError, AttributeError):
        return f"message/{hashlib.sha256(repr(given).encode()).hexdigest()[:12]}"


def beat_schedule(plan: Iterable[Planned]) -> dict[str, dict[str, Any]]:
    """What beat sends: each job's name, more often than the job is due, so that one that was busy, lost or put off is
    run soon after it can be. A message that nobody took is worthless once the next one is there."""
    return {
        job.name: {
            "task": RUN_JOB,
            "schedule": tick(every),
            "args": [job.name],
            "options": {
                "queue": job.kind.lane.value,
                "expires": max(2 * tick(every), timedelta(seconds=10)).total_seconds(),
            },
        }
        for job, every in plan
    }


def tick(every: timedelta) -> timedelta:
    """How often a job is offered that is due `every` so long."""
    return min(max(every / 4, _SHORTEST_TICK), _LONGEST_TICK)


def nudge(app: Celery, connector: str) -> None:
    """Have a worker look at the hints of a connector at once. Raises what kombu raises where the broker is down."""
    job = Job(connector, JobKind.HINTS)
    app.send_task(RUN_JOB, args=[job.name, NOW], queue=job.kind.lane.value, expires=10, retry=False)
