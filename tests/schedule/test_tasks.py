"""What comes out of the broker is a name of a job or nothing, and what goes in can't be run twice."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from core.errors import ConfigError
from core.settings import Settings
from graph.db import Database
from ingestion.schedule import Lane, jobs_for
from ingestion.tasks import NOW, RUN_JOB, HeldMessage, beat_schedule, make_app, register, run_message
from tests.schedule.support import HINTS, PERMISSIONS, Scheduled, scheduled
from tests.support.redis_server import RedisServer

BROKER = "redis://:secret@127.0.0.1:1/0"


@pytest.fixture
def plan(ingest_db: Database) -> Iterator[Scheduled]:
    """A schedule over the scripted source."""
    with scheduled(ingest_db) as made:
        yield made


def deliver(plan: Scheduled, *given: Any, **more: Any) -> None:
    run_message(given, more, lambda: plan.runner, lambda: plan.dead)


def test_c113_a_broker_that_delivers_again_while_a_task_may_run_is_refused() -> None:
    for visible in (5, 60):
        with pytest.raises(ConfigError, match="delivered again"):
            make_app(BROKER, time_limit=60, visibility_timeout=visible)
    for app in (make_app(BROKER, time_limit=60), make_app(BROKER, time_limit=60, visibility_timeout=61)):
        assert app.conf.broker_transport_options["visibility_timeout"] > app.conf.task_time_limit


def test_a_message_is_acknowledged_late_taken_one_at_a_time_and_read_as_json_only() -> None:
    conf = make_app(BROKER, time_limit=60).conf
    assert (conf.task_acks_late, conf.task_reject_on_worker_lost, conf.worker_prefetch_multiplier) == (True, True, 1)
    assert (conf.accept_content, conf.task_serializer, conf.result_backend) == (["json"], "json", None)
    assert not conf.worker_enable_remote_control


def test_a_message_that_names_a_job_runs_it_once_a_period(plan: Scheduled) -> None:
    for _ in range(3):
        deliver(plan, PERMISSIONS.name)
    assert plan.connector.accessed == 1


def test_a_nudge_looks_at_hints_whether_they_are_due_or_not_and_at_nothing_else(plan: Scheduled) -> None:
    for _ in range(2):
        plan.hints.due = {"access"}
        deliver(plan, HINTS.name, NOW)
    assert plan.hints.done == ["access", "access"]
    deliver(plan, PERMISSIONS.name, NOW)
    assert plan.connector.accessed == 0


def test_what_names_no_job_is_refused_and_kept_without_what_stood_in_it(plan: Scheduled) -> None:
    rubbish: list[tuple[Any, ...]] = [
        (),
        ("no such job",),
        ("elsewhere/permissions",),
        (7,),
        (None,),
        (["scripted/permissions"],),
        ("scripted/permissions", "scripted/permissions"),
        ("scripted/permissions", {"force": True}),
        ("the password is hunter2",),
    ]
    for given in rubbish:
        deliver(plan, *given)
        deliver(plan, *given)
        [letter] = plan.dead.all()
        assert letter.reason.startswith("refused: ")
        assert "hunter2" not in repr(letter)
        plan.dead.remove([letter.name])
    assert plan.connector.accessed == 0
    assert plan.jobs.states() == {}


def test_keywords_are_refused_too(plan: Scheduled) -> None:
    deliver(plan, PERMISSIONS.name, force=True)
    assert len(plan.dead.all()) == 1


def test_rubbish_can_not_fill_the_disk(plan: Scheduled) -> None:
    with plan.side.database.connection() as connection:
        connection.execute(
            "INSERT INTO dead_letters (name, body, reason, attempts, at) "
            "SELECT 'message/' || n, '{}', 'refused', 1, now() FROM generate_series(1, 1500) n"
        )
    deliver(plan, "rubbish")
    letters = plan.dead.all()
    assert len(letters) == 1000
    assert letters[-1].reason.startswith("refused: ")


def test_a_record_that_is_down_costs_a_message_and_no_worker(plan: Scheduled) -> None:
    plan.side.database.ping()
    plan.side.database.close()
    deliver(plan, PERMISSIONS.name)
    deliver(plan, "rubbish")
    assert plan.connector.accessed == 0


def test_beat_offers_each_job_to_its_queue_more_often_than_it_is_due() -> None:
    plan = jobs_for({"teams": ["teams"]}, Settings())
    entries = beat_schedule(plan)
    assert set(entries) == {p.job.name for p in plan}
    for job, every in plan:
        entry = entries[job.name]
        assert (entry["task"], entry["args"]) == (RUN_JOB, [job.name])
        assert entry["options"]["queue"] == job.kind.lane
        assert timedelta(seconds=1) <= entry["schedule"] <= every / 2
        assert entry["options"]["expires"] <= 30, "what nobody took does not pile up"


def test_a_worker_whose_broker_is_away_when_a_task_ends_takes_the_next_one(tmp_path: Path) -> None:
    server = RedisServer(tmp_path, password="redis-password")
    server.start()
    app = make_app(server.url, time_limit=60)
    register(app, lambda: pytest.fail("nothing runs here"), lambda: pytest.fail("nothing runs here"))
    try:
        with app.connection_for_read() as connection, connection.channel() as channel:
            channel.basic_qos(0, 1, False)
            app.send_task(RUN_JOB, args=[PERMISSIONS.name], queue=Lane.ACCESS.value)
            message = app.amqp.queues[Lane.ACCESS.value](channel).get()
            held = HeldMessage(message, app=app, task=app.tasks[RUN_JOB], hostname="here")
            assert not channel.qos.can_consume()
            server.kill()
            held.acknowledge()
            assert channel.qos.can_consume()
            server.start()
    finally:
        app.close()
        server.kill()


def test_access_and_content_wait_in_queues_of_their_own() -> None:
    app = make_app(BROKER, time_limit=60)
    register(app, lambda: pytest.fail("nothing runs here"), lambda: pytest.fail("nothing runs here"))
    assert set(app.amqp.queues) == set(Lane)
    assert RUN_JOB in app.tasks
