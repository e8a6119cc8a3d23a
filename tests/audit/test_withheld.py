"""What was withheld from an answer is found out afterwards, and auditors alone see it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from context_engine.audit_wiring import build_audit_plane
from context_engine.auditing import AuditPlane, AuditSchedule
from context_engine.stores import Index
from core.errors import StoreUnavailableError
from core.index.port import DenseVector
from core.index.privileged import PrivilegedHit, PrivilegedQuery
from graph.audit_reading import AuditReader, Examination, Selection
from graph.db import Database
from tests.audit.support import refused, verdict_on
from tests.sandbox import small
from tests.sandbox.small import allow, deny, item
from tests.support.engines import LiveEngine, live_engine
from tests.support.postgres import PostgresServer
from tests.support.quick_embedder import QuickEmbedder

BONUS = "ctx://ado/small/work-items/2"
TWICE = "ctx://ado/small/work-items/3"
PROJECT: dict[str, Any] = {
    "acl": allow("group:ops", "group:staff"),
    "areas": {"/Pay": {"inherit": False, "acl": allow("cat")}, "/Shut": {"acl": [*allow("ann"), *deny("group:staff")]}},
    "work_items": [
        item(1, title="Tide table of the harbour"),
        item(2, "/Pay", title="Bonus of the quartermaster"),
        item(3, "/Shut", title="Twice the quartermaster"),
    ],
}
QUESTION = "what is the bonus of the quartermaster?"


@pytest.fixture(scope="module")
def live(postgres: PostgresServer) -> Iterator[LiveEngine]:
    with live_engine(small.world(PROJECT), postgres, QuickEmbedder()) as engine:
        yield engine


def audit_url(live: LiveEngine) -> str:
    url = live.engine.settings.postgres_audit_url
    assert url is not None
    return url.get_secret_value()


@pytest.fixture
def auditor(live: LiveEngine) -> Iterator[Database]:
    database = Database(audit_url(live))
    yield database
    database.close()


def looked_into(live: LiveEngine, auditor: Database) -> Examination:
    """What came of the newest question, after a turn of the audit plane."""
    assert live.engine.audit_plane is not None
    live.engine.audit_plane.turn()
    return newest(auditor)


def newest(auditor: Database) -> Examination:
    with AuditReader(auditor).snapshot() as log:
        [entry] = log.latest(Selection(), 1)
        return log.examinations([entry.seq])[entry.seq]


def test_an_item_that_would_have_been_the_best_is_told_with_the_gate_that_shut_it(
    live: LiveEngine, auditor: Database
) -> None:
    bundle = live.ask("ann", QUESTION)
    assert BONUS not in {e["uri"] for e in bundle["evidence"]}
    found = looked_into(live, auditor)
    assert (found.outcome, found.same_epoch, found.looked_at) == ("examined", True, 3)
    withheld = {w.uri: w for w in found.items}
    assert set(withheld) == {BONUS, TWICE}
    assert withheld[BONUS].rank == 1
    assert withheld[BONUS].bars == ("rule",)
    assert withheld[BONUS].gates == ("object: names none of theirs",)
    [gate] = withheld[TWICE].gates
    assert gate.startswith("object: denied at area P\\Shut by group:")


def test_nothing_is_withheld_from_whoever_may_read_it(live: LiveEngine, auditor: Database) -> None:
    assert live.ask("cat", QUESTION)["evidence"][0]["uri"] == BONUS
    assert BONUS not in {w.uri for w in looked_into(live, auditor).items}


def test_a_question_is_kept_in_full_until_it_was_looked_into(live: LiveEngine, auditor: Database) -> None:
    live.ask("ann", QUESTION)
    with auditor.connection() as connection:
        assert [r["question"] for r in connection.execute("SELECT question FROM audit_questions")] == [QUESTION]
    looked_into(live, auditor)
    with auditor.connection() as connection:
        assert connection.execute("SELECT * FROM audit_questions").fetchall() == []


def test_a_change_of_access_since_the_question_is_told(live: LiveEngine, auditor: Database) -> None:
    live.ask("ann", QUESTION)
    with live.engine.database.connection() as connection:
        connection.execute("UPDATE access_epoch SET epoch = epoch + 1")
    assert looked_into(live, auditor).same_epoch is False


def test_an_asker_who_is_gone_is_not_judged(live: LiveEngine, auditor: Database) -> None:
    live.ask("ann", QUESTION)
    who = live.ask("ann", QUESTION)["asker"]["principal"]
    with live.engine.database.connection() as connection:
        connection.execute("UPDATE people SET enabled = false WHERE principal = %s", [who])
    try:
        found = looked_into(live, auditor)
    finally:
        with live.engine.database.connection() as connection:
            connection.execute("UPDATE people SET enabled = true WHERE principal = %s", [who])
    assert (found.outcome, found.items) == ("no_account", ())


def test_a_question_that_waited_for_an_hour_expires_unread(live: LiveEngine, auditor: Database) -> None:
    live.ask("ann", QUESTION)
    with live.engine.database.connection() as connection:
        connection.execute("ALTER TABLE audit_questions DISABLE TRIGGER USER")
        connection.execute("UPDATE audit_questions SET asked_at = asked_at - interval '61 minutes'")
        connection.execute("ALTER TABLE audit_questions ENABLE TRIGGER USER")
    # Nobody of the audit plane has to be there for it: the next question sees to it.
    with live.engine.query_database.connection() as connection:
        connection.execute(
            "INSERT INTO audit (at, operation, asker, question_digest, interpreted_as, uris, latency_ms, outcome) "
            "VALUES (now(), 'context', 'user:t/x', 'd', 'i', '{}', 1, 'ok')"
        )
        connection.execute("INSERT INTO audit_questions (question, focus) VALUES ('next', '{}')")
    with auditor.connection() as connection:
        assert [r["question"] for r in connection.execute("SELECT question FROM audit_questions")] == ["next"]
        last = connection.execute("SELECT outcome FROM audit_examinations ORDER BY seq DESC LIMIT 1").fetchone()
    assert last == {"outcome": "expired"}
    looked_into(live, auditor)


def test_a_question_in_focus_of_an_application_is_held_against_its_spaces(live: LiveEngine, auditor: Database) -> None:
    assert live.engine.audit_plane is not None
    who = live.ask("cat", QUESTION)["asker"]["principal"]
    live.engine.audit_plane.turn()
    with live.engine.query_database.connection() as connection:
        connection.execute(
            "INSERT INTO audit (at, operation, asker, question_digest, interpreted_as, uris, latency_ms, outcome) "
            "VALUES (now(), 'context', %s, 'd', 'i', '{}', 1, 'ok')",
            [who],
        )
        connection.execute(
            "INSERT INTO audit_questions (question, focus, spaces) VALUES (%s, %s, '{team:elsewhere}')",
            [QUESTION, [BONUS]],
        )
    found = looked_into(live, auditor)
    assert {w.uri: w.bars for w in found.items}[BONUS] == ("outside_policy",)


def test_where_nothing_is_to_be_looked_into_no_question_is_kept(postgres: PostgresServer) -> None:
    with live_engine(small.world(PROJECT), postgres, QuickEmbedder(), audit_withheld=0) as live:
        live.ask("ann", QUESTION)
        with live.engine.database.connection() as connection:
            assert connection.execute("SELECT count(*) AS n FROM audit_questions").fetchone() == {"n": 0}
            assert connection.execute("SELECT count(*) AS n FROM audit").fetchone() == {"n": 1}


def test_the_query_role_sees_nothing_of_it(live: LiveEngine, auditor: Database) -> None:
    live.ask("ann", QUESTION)
    looked_into(live, auditor)
    url = live.engine.settings.postgres_query_url
    assert url is not None
    for table in ("audit_withheld", "audit_examinations", "audit_questions", "audit_head", "audit_anchor", "audit"):
        assert refused(url.get_secret_value(), f"SELECT 1 FROM {table}"), table
        assert refused(url.get_secret_value(), f"SELECT count(*) FROM {table}"), table


def test_answers_do_not_depend_on_what_was_found_withheld(live: LiveEngine, auditor: Database) -> None:
    before = live.ask("ann", QUESTION)
    assert looked_into(live, auditor).items
    assert live.ask("ann", QUESTION)["digest"] == before["digest"]
    assert BONUS not in live.post("ann", {"question": QUESTION}).text


class Broken(QuickEmbedder):
    """An embedder that quotes in its error what it can't embed."""

    def embed_query(self, text: str) -> DenseVector:
        if "zyxquark" in text:
            raise ValueError(f"can't embed {text}")
        return super().embed_query(text)


def test_a_question_that_can_t_be_looked_into_is_logged_without_its_words_and_keeps_no_other_waiting(
    live: LiveEngine, auditor: Database, caplog: pytest.LogCaptureFixture
) -> None:
    live.ask("ann", f"{QUESTION} zyxquark")
    live.ask("ann", QUESTION)
    assert isinstance(live.engine.index, Index)
    assert live.engine.index.privileged is not None
    plane: AuditPlane = build_audit_plane(live.engine.settings, auditor, live.engine.index.privileged, Broken())
    with caplog.at_level(logging.DEBUG):
        AuditSchedule(plane, every=3600)._turn()
    assert [r.getMessage() for r in caplog.records if r.name == "context_engine.auditing"] == [
        "a question can't be looked into: ValueError"
    ]
    assert "quark" not in caplog.text
    assert "quartermaster" not in caplog.text
    assert newest(auditor).items
    with auditor.connection() as connection:
        [waiting] = connection.execute("SELECT question FROM audit_questions").fetchall()
    assert waiting["question"].endswith("zyxquark")
    assert looked_into(live, auditor).items
    with auditor.connection() as connection:
        assert connection.execute("SELECT * FROM audit_questions").fetchall() == []


class Down:
    """An index that does not answer."""

    def nearest(self, query: PrivilegedQuery, *, reason: str) -> list[PrivilegedHit]:
        raise StoreUnavailableError("qdrant", "down")

    def ping(self) -> None:
        raise StoreUnavailableError("qdrant", "down")


def test_where_a_store_does_not_answer_all_questions_wait(
    live: LiveEngine, auditor: Database, caplog: pytest.LogCaptureFixture
) -> None:
    live.ask("ann", QUESTION)
    AuditSchedule(build_audit_plane(live.engine.settings, auditor, Down(), QuickEmbedder()), every=3600)._turn()
    assert [r.getMessage() for r in caplog.records if r.name == "context_engine.auditing"] == [
        "the audit plane waits: qdrant: down"
    ]
    assert looked_into(live, auditor).items


def test_the_schedule_takes_a_turn_when_it_begins_and_ends_when_it_is_told(live: LiveEngine, auditor: Database) -> None:
    live.ask("ann", QUESTION)
    assert live.engine.audit_plane is not None
    with (
        AuditSchedule(live.engine.audit_plane, every=3600) as schedule,
        psycopg.connect(audit_url(live), autocommit=True) as connection,
    ):
        for _ in range(2000):
            if not connection.execute("SELECT 1 FROM audit_questions").fetchone():
                break
            connection.execute("SELECT pg_sleep(0.01)")
    assert not schedule._thread.is_alive()
    assert newest(auditor).items


def test_the_log_is_whole_after_all_that(live: LiveEngine, auditor: Database) -> None:
    assert verdict_on(auditor).holds
