"""The audit log is a chain that shows every change: whoever makes it, and wherever."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from random import Random

import psycopg
import pytest

from core.errors import InputError, InvariantError
from graph.audit import AuditLog
from graph.audit_chain import NOTHING
from graph.audit_reading import Retention
from graph.audit_verify import Fault, Link, Verdict
from graph.db import Database
from tests.audit.support import BEN, Tamperer, appended, entries_of, entry, verdict_on
from tests.support.postgres import FreshDatabase, PostgresServer


@pytest.fixture
def tamperer(fresh_database: FreshDatabase) -> Iterator[Tamperer]:
    made = Tamperer(fresh_database)
    yield made
    made.close()


def faults(verdict: Verdict) -> list[tuple[Fault, int, int]]:
    """What was found, and where."""
    return [(f.fault, f.first, f.last) for f in verdict.findings]


def test_an_empty_log_holds(audit_db: Database) -> None:
    verdict = verdict_on(audit_db)
    assert verdict.holds
    assert verdict.head == Link(0, NOTHING)


def test_each_entry_holds_the_hash_of_the_one_before(query_db: Database, audit_db: Database) -> None:
    appended(query_db, 3)
    AuditLog(query_db).append(entry(agent="", interpreted_as="", uris=(), bundle_digest=None, checks=(), latency_ms=0))
    entries = entries_of(audit_db)
    assert [e.seq for e in entries] == [1, 2, 3, 4]
    assert [e.previous_hash for e in entries] == [NOTHING, *(e.hash for e in entries[:-1])]
    assert [e.recorded_at for e in entries] == sorted(e.recorded_at for e in entries)
    verdict = verdict_on(audit_db)
    assert verdict.holds
    assert verdict.entries == 4
    assert verdict.head == Link(4, entries[-1].hash)


def test_equal_words_have_digests_of_their_own(query_db: Database, audit_db: Database) -> None:
    appended(query_db, 2)
    one, other = entries_of(audit_db)
    assert one.interpreted_as == other.interpreted_as
    assert one.words_digest != other.words_digest


CHANGES = {
    "recorded_at": "recorded_at - interval '1 microsecond'",
    "at": "at + interval '1 microsecond'",
    "operation": "'item'",
    "asker": "'user:t/eve'",
    "agent": "''",
    "words_digest": "repeat('0', 64)",
    "uris": "'{ctx://a}'",
    "uris ": "'{ctx://actx://b}'",
    "uris  ": "'{ctx://b,ctx://a}'",
    "bundle_digest": "NULL",
    "latency_ms": "latency_ms + 0.001",
    "outcome": "'failed'",
    "checks": "'[]'",
    "detail": "'{\"x\": 1}'",
    "hash": "repeat('0', 64)",
    "previous_hash": "repeat('0', 64)",
}


@pytest.fixture(scope="module")
def shared_log(postgres: PostgresServer) -> Iterator[Callable[[], FreshDatabase]]:
    """One database with five entries, which each change is made in and taken back."""
    database = postgres.fresh_database()
    log = Database(database.query_dsn)
    appended(log, 5)
    log.close()
    yield lambda: database
    postgres.drop(database)


def test_a_change_of_any_column_is_found_where_it_was_made(shared_log: Callable[[], FreshDatabase]) -> None:
    database = shared_log()
    reading = Database(database.audit_dsn)
    tamperer = Tamperer(database)
    entries = entries_of(reading)
    columns = {c.strip() for c in CHANGES} | {"seq", "plane", "question_digest", "interpreted_as", "salt"}
    assert columns == set(entries[0].__dataclass_fields__)
    for column, value in CHANGES.items():
        tamperer.run(f"UPDATE audit SET {column} = {value} WHERE seq = 3")
        found = faults(verdict_on(reading))
        assert found, column
        assert found[0][1:] == (3, 3), (column, found)
        tamperer.rewrite(entries)
        assert verdict_on(reading).holds, column
    for column, value in {"interpreted_as": "'nothing'", "question_digest": "'x'", "salt": "'\\x00'"}.items():
        tamperer.run(f"UPDATE audit SET {column} = {value} WHERE seq = 3")
        assert faults(verdict_on(reading)) == [(Fault.WORDS_CHANGED, 3, 3)], column
        tamperer.rewrite(entries)
    tamperer.run("UPDATE audit SET plane = 'audit', operation = 'prune' WHERE seq = 3")
    assert faults(verdict_on(reading)) == [(Fault.CHANGED, 3, 3)]
    tamperer.rewrite(entries)
    tamperer.close()
    reading.close()


def test_an_entry_that_was_removed_is_missing(tamperer: Tamperer, query_db: Database, audit_db: Database) -> None:
    appended(query_db, 7)
    tamperer.run("DELETE FROM audit WHERE seq IN (1, 4, 5)")
    assert faults(verdict_on(audit_db)) == [(Fault.MISSING, 1, 1), (Fault.MISSING, 4, 5)]


def test_entries_that_changed_places_are_found(tamperer: Tamperer, query_db: Database, audit_db: Database) -> None:
    appended(query_db, 5)
    tamperer.run("ALTER TABLE audit DROP CONSTRAINT audit_pkey")
    tamperer.run("UPDATE audit SET seq = 5 - seq WHERE seq IN (2, 3)")
    assert {f for f, *_ in faults(verdict_on(audit_db))} >= {Fault.CHANGED, Fault.NOT_LINKED}
    assert {n for _, n, _ in faults(verdict_on(audit_db))} <= {2, 3, 4}


def test_a_doubled_number_is_out_of_place(tamperer: Tamperer, query_db: Database, audit_db: Database) -> None:
    appended(query_db, 3)
    tamperer.run("ALTER TABLE audit DROP CONSTRAINT audit_pkey")
    tamperer.run("INSERT INTO audit SELECT * FROM audit WHERE seq = 2")
    assert faults(verdict_on(audit_db)) == [(Fault.OUT_OF_PLACE, 2, 2)]


def test_an_entry_put_in_the_middle_is_found(tamperer: Tamperer, query_db: Database, audit_db: Database) -> None:
    appended(query_db, 5)
    entries = entries_of(audit_db)
    tamperer.run(
        "ALTER TABLE audit DROP CONSTRAINT audit_pkey",
        "UPDATE audit SET seq = seq + 1 WHERE seq > 2",
        "INSERT INTO audit SELECT * FROM audit WHERE seq = 2",
        "UPDATE audit SET seq = 3, asker = 'user:t/ben' WHERE ctid = (SELECT max(ctid) FROM audit WHERE seq = 2)",
    )
    verdict = verdict_on(audit_db)
    assert min(n for _, n, _ in faults(verdict)) == 3
    assert verdict.faults >= len(entries) - 2


def test_an_end_that_was_cut_off_is_found_by_the_head(
    tamperer: Tamperer, query_db: Database, audit_db: Database
) -> None:
    appended(query_db, 5)
    kept = verdict_on(audit_db).head
    tamperer.run("DELETE FROM audit WHERE seq > 3")
    assert faults(verdict_on(audit_db)) == [(Fault.END_MISSING, 4, 5)]
    # Whoever owns the database sets the head back as well; only one that was kept elsewhere tells.
    tamperer.run("UPDATE audit_head SET (seq, hash) = (SELECT seq, hash FROM audit WHERE seq = 3)")
    assert verdict_on(audit_db).holds
    assert faults(verdict_on(audit_db, kept)) == [(Fault.END_MISSING, 4, 5)]


def test_a_log_that_was_made_anew_is_found_by_a_head_kept_elsewhere(
    tamperer: Tamperer, query_db: Database, audit_db: Database
) -> None:
    appended(query_db, 5)
    entries = entries_of(audit_db)
    kept = Link(4, entries[3].hash)
    assert verdict_on(audit_db, kept).holds
    tamperer.rewrite([*entries[:2], replace(entries[2], asker=BEN), *entries[3:]])
    assert verdict_on(audit_db).holds
    assert faults(verdict_on(audit_db, kept)) == [(Fault.OTHER_HEAD, 4, 4)]
    assert verdict_on(audit_db, Link(2, entries[1].hash)).holds


def test_a_log_set_back_to_a_backup_and_written_on_is_found_by_a_head_kept_elsewhere(
    tamperer: Tamperer, query_db: Database, audit_db: Database
) -> None:
    appended(query_db, 4)
    kept = verdict_on(audit_db).head
    tamperer.rewrite(entries_of(audit_db)[:2])
    appended(query_db, 3)
    assert verdict_on(audit_db).holds
    assert faults(verdict_on(audit_db, kept)) == [(Fault.OTHER_HEAD, 4, 4)]


def test_a_clock_that_was_set_back_sets_no_entry_before_another(
    tamperer: Tamperer, query_db: Database, audit_db: Database
) -> None:
    appended(query_db, 2)
    one, other = entries_of(audit_db)
    ahead = tamperer.aged([one, other], timedelta(0), timedelta(hours=-2))
    appended(query_db, 1)
    assert entries_of(audit_db)[-1].recorded_at == ahead[-1].recorded_at
    assert verdict_on(audit_db).holds
    tamperer.rewrite([ahead[1], ahead[0]])
    assert faults(verdict_on(audit_db)) == [(Fault.TIME_RUNS_BACK, 2, 2)]


def test_many_threads_append_one_chain(query_db: Database, audit_db: Database) -> None:
    log, random = AuditLog(query_db, keep_questions=True), Random(7)
    said = [entry(uris=tuple("abc"[: random.randint(0, 3)]), agent=random.choice([None, "x"])) for _ in range(48)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(log.append, said))
    entries = entries_of(audit_db)
    assert verdict_on(audit_db).holds
    assert [e.seq for e in entries] == list(range(1, 49))
    assert sorted(e.uris for e in entries) == sorted(e.uris for e in said)


def test_any_text_is_hashed_alike_by_the_database_and_by_us(query_db: Database, audit_db: Database) -> None:
    log, random = AuditLog(query_db), Random(11)
    # What could be taken for a border between fields, what is longer in bytes than in letters, what is no text at all.
    pieces = [
        "",
        "1:",
        "-:",
        ":",
        "0",
        "a",
        "ß",
        "🐢",
        "\u2028",
        "\x00",
        "\ud800",
        "\r\n",
        "\\",
        '"',
        "{}",
        ",",
        "NULL",
        "\x7f",
    ]

    def text() -> str:
        return "".join(random.choices(pieces, k=random.randint(0, 6)))

    for _ in range(60):
        agent = random.choice([None, text()])
        uris = tuple(text() for _ in range(random.randint(0, 3)))
        log.append(entry(agent=agent, uris=uris, interpreted_as=text(), latency_ms=random.random() * 10**6))
    verdict = verdict_on(audit_db)
    assert verdict.holds, verdict.findings
    assert verdict.entries == 60


def test_an_entry_whose_process_is_killed_before_it_commits_leaves_no_gap(
    fresh_database: FreshDatabase, query_db: Database, ingest_db: Database, audit_db: Database
) -> None:
    appended(query_db, 1)
    killed = psycopg.connect(fresh_database.query_dsn)
    killed.execute(
        "INSERT INTO audit (at, operation, asker, question_digest, interpreted_as, uris, latency_ms, outcome) "
        "VALUES (now(), 'context', 'user:t/a', 'd', 'i', '{}', 1, 'ok')"
    )
    # Whoever comes next waits for it, and follows what was there before.
    waiting = threading.Thread(target=appended, args=(query_db, 1))
    waiting.start()
    with psycopg.connect(fresh_database.query_dsn) as other:
        other.execute("SELECT pg_terminate_backend(%s, 10000)", [killed.info.backend_pid])
    waiting.join(30)
    assert not waiting.is_alive()
    assert [e.seq for e in entries_of(audit_db)] == [1, 2]
    assert verdict_on(audit_db).holds
    killed.close()


def test_an_entry_that_the_database_refuses_leaves_no_gap(query_db: Database, audit_db: Database) -> None:
    log = appended(query_db, 1)
    with pytest.raises(InvariantError):
        log.append(entry(latency_ms=-1.0))
    appended(query_db, 1)
    assert [e.seq for e in entries_of(audit_db)] == [1, 2]
    assert verdict_on(audit_db).holds


def test_what_retention_took_is_no_fault_and_what_else_is_missing_is(
    tamperer: Tamperer, query_db: Database, audit_db: Database
) -> None:
    appended(query_db, 5)
    old = timedelta(days=40)
    entries = tamperer.aged(entries_of(audit_db), old, old, old, timedelta(days=2), timedelta(0))
    assert Retention(audit_db).prune(entries[3].recorded_at, at_once=2) == 3
    left = entries_of(audit_db)
    assert [(e.seq, e.operation) for e in left] == [(4, "context"), (5, "context"), (6, "prune")]
    assert verdict_on(audit_db).holds
    assert verdict_on(audit_db, Link(4, entries[3].hash)).holds
    assert verdict_on(audit_db, Link(3, entries[2].hash)).holds
    assert faults(verdict_on(audit_db, Link(2, entries[1].hash))) == [(Fault.HEAD_PRUNED, 2, 2)]
    assert Retention(audit_db).prune(entries[3].recorded_at) == 0
    assert len(entries_of(audit_db)) == 3
    tamperer.run(
        "UPDATE audit_anchor SET (seq, hash) = (SELECT seq, hash FROM audit WHERE seq = 4)",
        "DELETE FROM audit WHERE seq = 4",
    )
    assert faults(verdict_on(audit_db)) == [(Fault.ANCHOR_NOT_RECORDED, 4, 4)]


def test_retention_that_was_cut_short_goes_on(tamperer: Tamperer, query_db: Database, audit_db: Database) -> None:
    appended(query_db, 4)
    old = timedelta(days=40)
    entries = tamperer.aged(entries_of(audit_db), old, old, old, timedelta(days=2))
    with audit_db.connection() as connection:
        connection.execute("SELECT audit_prune(%s)", [entries[3].recorded_at])
    assert verdict_on(audit_db).holds
    with audit_db.connection() as connection:
        assert connection.execute("SELECT count(*) AS n FROM audit").fetchone() == {"n": 5}
    assert Retention(audit_db).prune(entries[3].recorded_at) == 0
    with audit_db.connection() as connection:
        assert connection.execute("SELECT count(*) AS n FROM audit").fetchone() == {"n": 2}
    assert verdict_on(audit_db).holds


def test_what_was_recorded_within_a_day_is_not_pruned(query_db: Database, audit_db: Database) -> None:
    appended(query_db, 2)
    with pytest.raises(InvariantError):
        Retention(audit_db).prune(entries_of(audit_db)[1].recorded_at + timedelta(seconds=1))
    assert len(entries_of(audit_db)) == 2


@pytest.mark.parametrize("text", ["", "5", "5:", "5:abc", f"x:{NOTHING}", f"-1:{NOTHING}", f"5:{'A' * 64}"])
def test_what_is_no_head_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        Link.parse(text)
