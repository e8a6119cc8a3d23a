"""Brings a database to the newest schema, and gives the roles of query plane, audit plane and webhook receiver what
they may do and no more."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import psycopg
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from psycopg import sql
from sqlalchemy import Connection, create_engine
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.pool import NullPool

from core.errors import ConfigError, StoreUnavailableError

# A migration that can't get its locks soon must not make every query wait behind it.
LOCK_TIMEOUT: Final = "4s"
STATEMENT_TIMEOUT: Final = "5s"
_WAIT_FOR_ANOTHER_MIGRATION: Final = "60s"
_MIGRATION_LOCK: Final = 0x636F6E74657874

# Everything that a trimmed read touches. Not here: checkpoints and failures (the sync's own), audit (append only).
QUERY_MAY_READ: Final = (
    "access_epoch",
    "directory_syncs",
    "people",
    "containers",
    "memberships",
    "permission_syncs",
    "scopes",
    "items",
    "chunks",
    "item_aliases",
    "links",
    "edges",
    "glossary",
    "supersessions",
    "runs",
)
# What the query plane says of an answer. Place in the chain, time of record and hashes are the database's; the rest is
# the audit plane's.
QUERY_MAY_APPEND: Final = (
    """INSERT (at, operation, asker, agent, question_digest, interpreted_as, uris, bundle_digest, latency_ms, outcome,
        checks) ON audit""",
    "INSERT (question, as_of, focus, spaces) ON audit_questions",
)
# The role of the audit plane: it reads what was recorded and what access stands on, writes what was withheld, and can
# neither append to the log nor change it. What goes by retention goes by a function that records it.
AUDIT_ROLE: Final = "context_audit"
AUDIT_MAY: Final = (
    "SELECT ON audit, audit_head, audit_anchor, audit_questions, audit_examinations, audit_withheld",
    "DELETE ON audit_questions",
    "INSERT (seq, outcome, epoch, same_epoch, looked_at, withheld) ON audit_examinations",
    "INSERT ON audit_withheld",
    "EXECUTE ON FUNCTION audit_prune(timestamptz), audit_sweep(integer), audit_forget_questions()",
    "SELECT ON access_epoch, directory_syncs, people, containers, memberships, permission_syncs, scopes",
    "SELECT (uri, source, scope, shown, title, label) ON items",
)
# The role of the webhook receiver: it gets its rights wherever it exists.
HOOKS_ROLE: Final = "context_hooks"
# The receiver keeps hints without being able to read or settle any: what it looks at is whether one was there before.
HOOKS_MAY: Final = (
    "INSERT, SELECT (source, key) ON inbox",
    "INSERT, SELECT, UPDATE ON deliveries",
    "SELECT (id, resource, last_delivery_at), UPDATE (last_delivery_at) ON subscriptions",
)


def migrate(dsn: str, *, query_role: str | None) -> str:
    """Run every outstanding revision, grant `query_role` its rights (None: no such role), and `HOOKS_ROLE` and
    `AUDIT_ROLE` their own where there are such; return the revision.

    Several processes may call this at once. Raises StoreUnavailableError where the database does not answer or
    locks can't be had in time; ConfigError where the role does not exist or may not be granted to.
    """
    try:
        with _connect(dsn) as connection:
            connection.exec_driver_sql(f"SET lock_timeout = '{_WAIT_FOR_ANOTHER_MIGRATION}'")
            connection.exec_driver_sql(f"SELECT pg_advisory_lock({_MIGRATION_LOCK})")
            connection.exec_driver_sql(f"SET lock_timeout = '{LOCK_TIMEOUT}'")
            connection.exec_driver_sql(f"SET statement_timeout = '{STATEMENT_TIMEOUT}'")
            connection.commit()
            config = _config()
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
            connection.commit()
            if query_role is not None:
                if not _exists(connection, query_role):
                    raise ConfigError(
                        f"there is no role {query_role}",
                        where="postgres_query_url",
                        mend=f"As an administrator: CREATE ROLE {query_role} LOGIN PASSWORD '…'",
                    )
                _grant(connection, query_role, _query_rights())
            for role, rights in ((HOOKS_ROLE, HOOKS_MAY), (AUDIT_ROLE, AUDIT_MAY)):
                if _exists(connection, role):
                    _grant(connection, role, [sql.SQL(right) for right in rights])
            return _revision(connection) or ""
    except (OperationalError, psycopg.OperationalError) as e:
        raise StoreUnavailableError("postgres", f"the schema could not be brought up to date: {_reason(e)}") from e
    except (DBAPIError, psycopg.Error) as e:
        raise ConfigError(f"the schema could not be brought up to date: {_reason(e)}", where="postgres_url") from e


def current_revision(dsn: str) -> str | None:
    """The revision of the database; None where nothing was ever migrated. Raises StoreUnavailableError."""
    try:
        with _connect(dsn) as connection:
            return _revision(connection)
    except (DBAPIError, psycopg.Error) as e:
        raise StoreUnavailableError("postgres", f"the schema's revision can't be read: {_reason(e)}") from e


def newest_revision() -> str:
    """The revision that this version of the code expects."""
    return ScriptDirectory.from_config(_config()).get_current_head() or ""


def _connect(dsn: str) -> Connection:
    engine = create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(dsn, connect_timeout=5), poolclass=NullPool
    )
    return engine.connect()


def _config() -> Config:
    spec = find_spec("migrations")
    if spec is None or spec.origin is None:
        raise ConfigError("the migrations are not installed", mend="Install the package again")
    config = Config()
    config.set_main_option("script_location", str(Path(spec.origin).parent).replace("%", "%%"))
    return config


def _revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _query_rights() -> list[sql.Composable]:
    tables = sql.SQL(", ").join(sql.Identifier(t) for t in QUERY_MAY_READ)
    return [sql.SQL("SELECT ON {}").format(tables), *(sql.SQL(right) for right in QUERY_MAY_APPEND)]


def _exists(connection: Connection, role: str) -> bool:
    return _raw(connection).execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone() is not None


def _raw(connection: Connection) -> psycopg.Connection[Any]:
    raw = connection.connection.driver_connection
    if not isinstance(raw, psycopg.Connection):
        raise ConfigError("not a Postgres database", where="postgres_url")
    return raw


def _grant(connection: Connection, role: str, rights: Sequence[sql.Composable]) -> None:
    """Make the role's rights exactly these, whatever they were before."""
    raw = _raw(connection)
    name = sql.Identifier(role)
    raw.execute(sql.SQL("REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {}").format(name))
    raw.execute(sql.SQL("REVOKE ALL ON ALL SEQUENCES IN SCHEMA public FROM {}").format(name))
    raw.execute(sql.SQL("REVOKE ALL ON ALL ROUTINES IN SCHEMA public FROM {}").format(name))
    raw.execute(sql.SQL("GRANT USAGE ON SCHEMA public TO {}").format(name))
    for right in rights:
        raw.execute(sql.SQL("GRANT {} TO {}").format(right, name))
    owner = raw.execute(
        "SELECT current_database(), pg_has_role(datdba, 'MEMBER') FROM pg_database WHERE datname = current_database()"
    ).fetchone()
    if owner is not None and owner[1]:
        # Temporary tables are writing too.
        raw.execute(sql.SQL("REVOKE TEMPORARY ON DATABASE {} FROM PUBLIC").format(sql.Identifier(owner[0])))
    # SQLAlchemy does not see what is done on the driver's connection, so it would not commit it.
    raw.commit()


def _reason(error: DBAPIError | psycopg.Error) -> str:
    """The server's own first line: never the statement, its parameters or the DSN."""
    return str(error.orig if isinstance(error, DBAPIError) else error).strip().split("\n", 1)[0]
