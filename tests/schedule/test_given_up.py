"""`sources dead` tells what was given up, `sources retry` has it tried again, and processes refuse others' keys."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from context_engine.commands import sources
from context_engine.commands.target import Target
from core.clock import FixedClock
from core.hints import Hint, HintKind
from core.settings import Settings
from graph.db import Database
from graph.dead_letters import DeadLetters
from graph.inbox import ATTEMPTS, Arrival, Inbox
from graph.jobs import JobStore
from tests.schedule.support import CONTENT
from tests.support.postgres import FreshDatabase

URI = "ctx://ado/small/work-items/1"


@pytest.fixture
def target(fresh_database: FreshDatabase, ingest_db: Database, tmp_path_factory: pytest.TempPathFactory) -> Target:
    """A configured organization, of which a job, a message and a hint were given up."""
    now = datetime.now(UTC)
    jobs = JobStore(ingest_db)
    claim = jobs.claim(CONTENT.name, every=timedelta(minutes=5), slack=timedelta(0))
    assert claim is not None
    jobs.fail(claim, "KeyError in code.py:12", wait=timedelta(hours=1))
    dead = DeadLetters(ingest_db)
    dead.put(CONTENT.name, {"job": CONTENT.name}, "KeyError in code.py:12", attempts=5)
    dead.put("message/0123456789ab", {"arguments": 1}, "refused: the message names no job", attempts=1)
    clock = FixedClock(now - timedelta(days=2))
    inbox = Inbox(ingest_db, clock)
    hint = Hint(connector="azure_devops", kind=HintKind.ITEM, reader="work_items", uri=URI)
    inbox.receive("azure_devops", [Arrival(key="k", hints=(hint,))])
    for _ in range(ATTEMPTS):
        clock.advance(timedelta(hours=2))
        inbox.failed([p.id for p in inbox.pending("azure_devops", HintKind.ITEM, "work_items")], "HTTP 503")
    folder = tmp_path_factory.mktemp("organization")
    settings = Settings(postgres_url=fresh_database.ingest_dsn, data=folder)  # type: ignore[arg-type]
    return Target(folder, None, settings)


def test_what_was_given_up_is_told_with_its_reason(target: Target, capsys: pytest.CaptureFixture[str]) -> None:
    assert sources.dead(target, as_json=False) == 1
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    for told in (CONTENT.name, "KeyError in code.py:12", "5 tries", "names no job", URI, "HTTP 503"):
        assert told in shown
    assert sources.dead(target, as_json=True) == 1
    data = json.loads(capsys.readouterr().out)
    assert [d["name"] for d in data["dead_letters"]] == [CONTENT.name, "message/0123456789ab"]
    assert [h["uri"] for h in data["hints"]] == [URI]


def test_a_retry_has_it_tried_at_once(target: Target, ingest_db: Database, capsys: pytest.CaptureFixture[str]) -> None:
    assert sources.retry(target, None) == 0
    told = capsys.readouterr().out
    assert "1 job that had been given up" in told
    assert "1 refused message can't be tried again" in told
    assert "1 hint of deliveries" in told
    assert JobStore(ingest_db).standing(CONTENT.name).due
    assert Inbox(ingest_db, FixedClock(datetime.now(UTC))).waiting("azure_devops") == {"work_items"}
    assert sources.dead(target, as_json=False) == 0
    assert capsys.readouterr().out == "nothing was given up\n"


def test_a_retry_of_one_source_leaves_jobs_alone(target: Target, capsys: pytest.CaptureFixture[str]) -> None:
    assert sources.retry(target, "wikis") == 0
    assert capsys.readouterr().out == "0 parked items will be tried by the next sync\n"
    assert sources.dead(target, as_json=True) == 1
