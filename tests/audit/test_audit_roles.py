"""What each role may do to the audit log: append, read, or neither; and what nobody may."""

from __future__ import annotations

import psycopg
import pytest

from context_engine.postgres import QUERY_ROLE
from graph.audit import AuditLog
from graph.db import Database
from graph.migrate import migrate
from tests.audit.support import appended, entries_of, entry, refused, verdict_on
from tests.support.postgres import FreshDatabase, PostgresServer

VALUES = "VALUES (now(), 'context', 'user:t/a', 'd', 'i', '{}', 1, 'ok'"
COLUMNS = "at, operation, asker, question_digest, interpreted_as, uris, latency_ms, outcome"
APPEND = f"INSERT INTO audit ({COLUMNS}) {VALUES})"
TABLES = ("audit", "audit_head", "audit_anchor", "audit_questions", "audit_examinations", "audit_withheld")
# Columns that whoever appends must not choose, each with something to choose.
THE_DATABASE_S = {
    "seq": "1",
    "recorded_at": "'2020-01-01'",
    "plane": "'audit'",
    "salt": "'\\x00'",
    "words_digest": "'x'",
    "detail": "'{}'",
    "previous_hash": "'x'",
    "hash": "'x'",
}
FUNCTIONS = (
    "audit_prune('2020-01-01')",
    "audit_sweep(100)",
    "audit_forget_questions()",
    "audit_erase_words('{1}')",
    "audit_hash(NULL)",
    "audit_words_digest('', '', '')",
    "audit_field('')",
)
AS_OWNER = (
    "ALTER TABLE audit DISABLE TRIGGER ALL",
    "ALTER TABLE audit DISABLE TRIGGER append",
    "DROP TRIGGER append ON audit",
    "CREATE TRIGGER mine BEFORE INSERT ON audit FOR EACH ROW EXECUTE FUNCTION audit_never()",
    "ALTER TABLE audit ADD COLUMN x int",
    "ALTER TABLE audit ALTER COLUMN hash SET DEFAULT ''",
    "DROP TABLE audit CASCADE",
    "DROP FUNCTION audit_append() CASCADE",
    "CREATE OR REPLACE FUNCTION audit_append() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
    "ALTER FUNCTION audit_append() RESET ALL",
    "CREATE FUNCTION public.sha256(bytea) RETURNS bytea LANGUAGE sql AS 'SELECT $1'",
    "CREATE VIEW mine AS SELECT * FROM audit",
    "CREATE RULE mine AS ON INSERT TO audit DO INSTEAD NOTHING",
    "CREATE POLICY mine ON audit",
    "CREATE INDEX mine ON audit (asker)",
    "SET ROLE context_ingest",
    "SET ROLE context_audit",
    "SET session_replication_role = replica",
    "LOCK TABLE audit IN ACCESS EXCLUSIVE MODE",
    "LOCK TABLE audit_head",
    "SELECT pg_stat_reset()",
)


@pytest.fixture(scope="module")
def log(postgres: PostgresServer) -> FreshDatabase:
    """A log with three entries and a question each; nothing in these tests changes it."""
    made: FreshDatabase = postgres.fresh_database()
    database = Database(made.query_dsn)
    appended(database, 3)
    database.close()
    return made


@pytest.mark.parametrize("column", THE_DATABASE_S)
def test_whoever_appends_does_not_choose_the_chain(log: FreshDatabase, column: str) -> None:
    statement = f"INSERT INTO audit ({COLUMNS}, {column}) {VALUES}, {THE_DATABASE_S[column]})"
    assert refused(log.query_dsn, statement)


def test_the_query_role_appends_and_does_nothing_else(log: FreshDatabase) -> None:
    assert not refused(log.query_dsn, APPEND)
    for table in TABLES:
        assert refused(log.query_dsn, f"SELECT 1 FROM {table}"), table
        assert refused(log.query_dsn, f"SELECT count(*) FROM {table}"), table
        assert refused(log.query_dsn, f"DELETE FROM {table}"), table
        assert refused(log.query_dsn, f"TRUNCATE {table}"), table
        assert refused(log.query_dsn, f"COPY {table} TO STDOUT"), table
        assert refused(log.query_dsn, f"SELECT 1 FROM {table} FOR UPDATE"), table
        column = "only_row" if table in ("audit_head", "audit_anchor") else "seq"
        assert refused(log.query_dsn, f"UPDATE {table} SET {column} = {column}"), table
        if table not in ("audit", "audit_questions"):
            assert refused(log.query_dsn, f"INSERT INTO {table} DEFAULT VALUES"), table
    for more in ("RETURNING seq", "RETURNING hash", "ON CONFLICT (seq) DO UPDATE SET asker = 'x'"):
        assert refused(log.query_dsn, f"{APPEND} {more}"), more
    for call in FUNCTIONS:
        assert refused(log.query_dsn, f"SELECT {call}"), call
    for column in ("seq", "asked_at"):
        value = "5" if column == "seq" else "now()"
        statement = f"INSERT INTO audit_questions (question, focus, {column}) VALUES ('q', '{{}}', {value})"
        assert refused(log.query_dsn, statement), column
    for statement in AS_OWNER:
        assert refused(log.query_dsn, statement), statement


def test_a_question_without_an_entry_of_its_own_transaction_is_refused(log: FreshDatabase) -> None:
    assert refused(log.query_dsn, "INSERT INTO audit_questions (question, focus) VALUES ('whose?', '{}')")


def test_the_auditor_s_role_reads_and_changes_nothing(log: FreshDatabase) -> None:
    for table in TABLES:
        assert not refused(log.audit_dsn, f"SELECT 1 FROM {table}"), table
        assert refused(log.audit_dsn, f"TRUNCATE {table}"), table
        column = "only_row" if table in ("audit_head", "audit_anchor") else "seq"
        assert refused(log.audit_dsn, f"UPDATE {table} SET {column} = {column}"), table
        if table != "audit_questions":
            assert refused(log.audit_dsn, f"DELETE FROM {table}"), table
    for statement in (
        APPEND,
        "INSERT INTO audit_questions (question, focus) VALUES ('q', '{}')",
        "INSERT INTO audit_examinations (seq, outcome, at) VALUES (1, 'examined', '2020-01-01')",
        "SELECT audit_erase_words('{1}')",
        "SELECT text FROM chunks",
        "SELECT body FROM items",
        "UPDATE items SET title = ''",
        "SELECT * FROM checkpoints",
        *(s for s in AS_OWNER if s != "SET ROLE context_audit"),
    ):
        assert refused(log.audit_dsn, statement), statement


def test_no_other_role_gets_at_the_log(log: FreshDatabase, postgres: PostgresServer) -> None:
    admin = postgres._admin
    admin.execute("DROP ROLE IF EXISTS context_nobody")
    admin.execute("CREATE ROLE context_nobody LOGIN PASSWORD 'nobody'")
    host = log.query_dsn.rpartition("@")[2]
    for table in TABLES:
        assert refused(f"postgresql://context_nobody:nobody@{host}", f"SELECT 1 FROM {table}"), table
    for call in FUNCTIONS:
        assert refused(f"postgresql://context_nobody:nobody@{host}", f"SELECT {call}"), call


def test_the_owner_itself_is_refused_as_long_as_the_triggers_stand(log: FreshDatabase) -> None:
    for statement in (
        "UPDATE audit SET asker = 'user:t/eve' WHERE seq = 1",
        "UPDATE audit SET hash = '' WHERE seq = 1",
        "UPDATE audit SET interpreted_as = 'another' WHERE seq = 1",
        "UPDATE audit SET seq = 9 WHERE seq = 1",
        "DELETE FROM audit",
        "TRUNCATE audit",
        "UPDATE audit_head SET seq = 0",
        "UPDATE audit_head SET hash = repeat('0', 64)",
        "DELETE FROM audit_head",
        "TRUNCATE audit_head",
        "UPDATE audit_anchor SET seq = 2, hash = (SELECT hash FROM audit WHERE seq = 2)",
        "DELETE FROM audit_anchor",
        "INSERT INTO audit_anchor (only_row, seq, hash) VALUES (true, 1, '')",
        "UPDATE audit_questions SET question = 'another'",
        "TRUNCATE audit_examinations",
        "TRUNCATE audit_withheld",
    ):
        assert refused(log.ingest_dsn, statement), statement


def test_what_the_owner_sends_for_the_chain_is_written_over(ingest_db: Database, audit_db: Database) -> None:
    with ingest_db.connection() as connection:
        connection.execute(
            f"INSERT INTO audit ({COLUMNS}, seq, recorded_at, previous_hash, hash) "
            f"{VALUES}, 99, '2020-01-01', 'x', 'y')"
        )
    [one] = entries_of(audit_db)
    assert one.seq == 1
    assert one.recorded_at.year > 2020
    assert verdict_on(audit_db).holds


@pytest.mark.parametrize(
    "values",
    [
        {"at": "'infinity'"},
        {"at": "'0044-03-15 BC'"},
        {"operation": "'prune'"},
        {"operation": "'other'"},
        {"uris": "'{{a},{b}}'"},
        {"uris": "'{a,NULL}'"},
        {"latency_ms": "'NaN'"},
        {"latency_ms": "-1"},
        {"interpreted_as": "NULL"},
        {"question_digest": "NULL"},
        {"outcome": "NULL"},
    ],
)
def test_what_is_no_entry_of_the_query_plane_is_refused(log: FreshDatabase, values: dict[str, str]) -> None:
    names = COLUMNS.split(", ")
    given = dict(zip(names, ["now()", "'context'", "'user:t/a'", "'d'", "'i'", "'{}'", "1", "'ok'"], strict=True))
    given |= values
    with psycopg.connect(log.query_dsn) as connection, pytest.raises(psycopg.Error) as caught:
        connection.execute(f"INSERT INTO audit ({COLUMNS}) VALUES ({', '.join(given.values())})")  # type: ignore[arg-type]
    kinds = (psycopg.IntegrityError, psycopg.DataError, psycopg.NotSupportedError)
    assert isinstance(caught.value, kinds)


def test_rights_given_by_hand_are_taken_back(fresh_database: FreshDatabase) -> None:
    with psycopg.connect(fresh_database.ingest_dsn) as connection:
        connection.execute("GRANT ALL ON audit, audit_withheld TO context_query, context_audit")
        connection.execute("GRANT INSERT (hash), UPDATE (hash) ON audit TO context_query")
        connection.execute("GRANT EXECUTE ON FUNCTION audit_prune, audit_erase_words TO context_query, context_audit")
    migrate(fresh_database.ingest_dsn, query_role=QUERY_ROLE)
    for dsn in (fresh_database.query_dsn, fresh_database.audit_dsn):
        assert refused(dsn, "UPDATE audit SET hash = ''")
        assert refused(dsn, "SELECT audit_erase_words('{1}')")
    assert refused(fresh_database.query_dsn, "SELECT audit_prune('2020-01-01')")
    assert refused(fresh_database.query_dsn, "SELECT 1 FROM audit_withheld")
    assert refused(fresh_database.query_dsn, f"INSERT INTO audit ({COLUMNS}, hash) {VALUES}, 'x')")


def test_a_log_from_before_the_chain_is_put_at_its_beginning(postgres: PostgresServer) -> None:
    from alembic import command
    from sqlalchemy import create_engine

    from graph.migrate import _config

    empty: FreshDatabase = postgres.empty_database()
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(empty.ingest_dsn))
    with engine.connect() as connection:
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, "0003_schedule_and_hooks")
        for asker in ("user:t/a", "user:t/b"):
            connection.exec_driver_sql(
                "INSERT INTO audit (at, asker, question_digest, interpreted_as, uris, latency_ms, outcome) "
                "VALUES ('2026-01-01', %s, 'd', 'i', '{ctx://a}', 1.23456, 'ok')",
                (asker,),
            )
        connection.commit()
        migrate(empty.ingest_dsn, query_role=QUERY_ROLE)
        auditor, asking = Database(empty.audit_dsn), Database(empty.query_dsn)
        AuditLog(asking).append(entry())
        assert [(e.operation, e.asker) for e in entries_of(auditor)] == [
            ("unchained", "user:t/a"),
            ("unchained", "user:t/b"),
            ("context", "user:t/ann"),
        ]
        assert verdict_on(auditor).holds
        auditor.close()
        asking.close()
        command.downgrade(config, "0003_schedule_and_hooks")
        rows = connection.exec_driver_sql("SELECT asker, uris FROM audit ORDER BY id").fetchall()
        assert [r[0] for r in rows] == ["user:t/a", "user:t/b", "user:t/ann"]
    engine.dispose()
    postgres.drop(empty)
