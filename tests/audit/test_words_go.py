"""Erased words leave the audit log; that somebody asked stays, and the chain still holds."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest

from core.erased import ErasedPeople, name_digests, subject_digest
from graph.audit import Asked
from graph.audit_erasure import AuditWords
from graph.audit_verify import Fault
from graph.db import Database
from tests.audit.support import ANN, BEN, Tamperer, appended, entries_of, verdict_on
from tests.support.postgres import FreshDatabase

KEY = b"k" * 32
ERASED = ErasedPeople(KEY, subjects=[subject_digest(KEY, ANN)], names=name_digests(KEY, ["Ann Arbor"]))


def test_the_words_of_a_person_and_those_that_name_them_go(
    query_db: Database, ingest_db: Database, audit_db: Database
) -> None:
    appended(query_db, 2, asker=ANN)
    appended(query_db, 1, asker=BEN, interpreted_as="who knows Arbor, Ann?")
    appended(query_db, 1, asker=BEN, asked=Asked(question="what does ann arbor do?"))
    appended(query_db, 1, asker=BEN)
    before = verdict_on(audit_db).head
    assert AuditWords(ingest_db).forget_people(ERASED) == 4
    entries = entries_of(audit_db)
    words = [e.interpreted_as for e in entries]
    assert words[:4] == [None] * 4
    assert words[4] is not None
    assert all(e.question_digest is None and e.salt is None for e in entries[:4])
    assert [e.asker for e in entries[:5]] == [ANN, ANN, BEN, BEN, BEN]
    assert (entries[5].plane, entries[5].operation, entries[5].detail) == ("audit", "erase", '{"entries" : [1,2,3,4]}')
    verdict = verdict_on(audit_db, before)
    assert verdict.holds
    assert verdict.erased == 4
    with audit_db.connection() as connection:
        assert [r["seq"] for r in connection.execute("SELECT seq FROM audit_questions")] == [5]


def test_a_second_erasure_records_nothing(query_db: Database, ingest_db: Database, audit_db: Database) -> None:
    appended(query_db, 1)
    words = AuditWords(ingest_db)
    assert words.forget_people(ERASED) == 1
    assert words.forget_people(ERASED) == 0
    assert len(entries_of(audit_db)) == 2


def test_the_words_of_answers_that_showed_an_item_go_and_those_that_hold_its_title(
    query_db: Database, ingest_db: Database, audit_db: Database
) -> None:
    appended(query_db, 1, uris=("ctx://secret", "ctx://b"))
    appended(query_db, 1, interpreted_as="about the Merger of Harbours")
    appended(query_db, 1, interpreted_as="about nothing")
    assert AuditWords(ingest_db).forget_item("ctx://secret", "the merger of harbours") == 2
    assert [e.interpreted_as for e in entries_of(audit_db)[:3]] == [None, None, "about nothing"]
    assert verdict_on(audit_db).holds


def test_words_taken_by_somebody_else_are_found_missing(
    fresh_database: FreshDatabase, query_db: Database, audit_db: Database
) -> None:
    appended(query_db, 3)
    with psycopg.connect(fresh_database.ingest_dsn) as connection:
        connection.execute(
            "UPDATE audit SET interpreted_as = NULL, question_digest = NULL, salt = NULL WHERE seq IN (1, 3)"
        )
    found = [(f.fault, f.first) for f in verdict_on(audit_db).findings]
    assert found == [(Fault.WORDS_GONE, 1), (Fault.WORDS_GONE, 3)]


@pytest.mark.parametrize("column", ["interpreted_as", "question_digest", "salt"])
def test_words_go_whole_or_not_at_all(fresh_database: FreshDatabase, query_db: Database, column: str) -> None:
    appended(query_db, 1)
    with psycopg.connect(fresh_database.ingest_dsn) as connection, pytest.raises(psycopg.Error):
        connection.execute(f"UPDATE audit SET {column} = NULL")  # type: ignore[arg-type]


def test_erased_words_and_what_retention_took_hold_together(
    fresh_database: FreshDatabase, query_db: Database, ingest_db: Database, audit_db: Database
) -> None:
    from graph.audit_reading import Retention

    appended(query_db, 3)
    AuditWords(ingest_db).forget_people(ERASED)
    tamperer = Tamperer(fresh_database)
    old, new = timedelta(days=9), timedelta(days=2)
    aged = tamperer.aged(entries_of(audit_db), old, old, new, new)
    tamperer.close()
    assert Retention(audit_db).prune(aged[2].recorded_at) == 2
    verdict = verdict_on(audit_db)
    assert verdict.holds
    assert (verdict.first, verdict.erased) == (3, 1)
