"""What was given up is tried again when an administrator says so."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from context_engine.commands import sources
from core.clock import SystemClock
from core.hints import Hint, HintKind
from graph.db import Database
from graph.inbox import Arrival, Inbox


def test_sources_retry_lets_hints_that_were_given_up_be_tried_again(
    ingest_db: Database, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @contextmanager
    def record(_: object):  # type: ignore[no-untyped-def]
        yield ingest_db

    monkeypatch.setattr(sources, "record_of", record)
    inbox = Inbox(ingest_db, SystemClock())
    hint = Hint(connector="teams", kind=HintKind.ACCESS)
    inbox.receive("graph", [Arrival(key="k", hints=(hint,))])
    with ingest_db.connection() as connection:
        connection.execute("UPDATE inbox SET state = 'dead'")
    assert sources.retry(None, None) == 0  # type: ignore[arg-type]
    assert inbox.waiting("teams") == {"access"}
    assert "1 hint of deliveries will be tried again" in capsys.readouterr().out
