"""Gets what was deleted off the disk, as far as the stores allow it, and tells what stays in logs and backups."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import Final

import psycopg
from psycopg import Connection
from psycopg.sql import SQL, Identifier

from context_engine.postgres import running_superuser_dsn
from core.index.port import IndexWriter
from core.settings import Settings

# A table that is in use for longer than this is left for another time.
_LOCK_WAIT: Final = "10s"
# How often, and after how many seconds, it is looked whether transactions that began before are over.
_TRIES: Final = 100
_PAUSE: Final = 0.2


def clear_disk(settings: Settings, data: Path, writer: IndexWriter) -> list[str]:
    """Write tables and index anew without what was deleted; what was done, and what was not, in words."""
    from core.index.edge import EdgeWriter  # the engine must not be loaded by processes that fork

    own = settings.postgres_url
    with closing(psycopg.connect(_dsn(settings, data), autocommit=True)) as connection:
        told = _tables(connection)
        if own is None:
            for statement in ("CHECKPOINT", "SELECT pg_switch_wal()", "CHECKPOINT"):
                connection.execute(statement)
            told.append("the log of the embedded Postgres was begun anew")
        else:
            told.append("the server's write-ahead log, replicas and backups keep what was deleted as long as they live")
    if isinstance(writer, EdgeWriter):
        told.append(f"the embedded index was written anew ({writer.rewrite()} points)")
    else:
        told.append("the Qdrant server clears its segments by its own optimizer; its snapshots keep what they have")
    return told


def _dsn(settings: Settings, data: Path) -> str:
    """The embedded server is tidied by its superuser, who sees who else is at work; another one by its owner."""
    own = settings.postgres_url
    return own.get_secret_value() if own is not None else running_superuser_dsn(data)


def _tables(connection: Connection) -> list[str]:
    """Write every table anew. Statistics go with them: they hold the commonest values of each column, and those of a
    table that has become empty would stay."""
    connection.execute(SQL("SET lock_timeout = {}").format(_LOCK_WAIT))
    connection.execute(
        "SELECT pg_clear_attribute_stats(schemaname::text, tablename::text, attname::text, inherited) FROM pg_stats "
        "WHERE schemaname = 'public'"
    )
    told = [] if _alone(connection) else ["a transaction that began before goes on, and keeps what it may still read"]
    names = connection.execute("SELECT schemaname, tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 2")
    left = []
    for place in [*names.fetchall(), ("pg_catalog", "pg_statistic")]:
        how = SQL("VACUUM (FULL, ANALYZE) {}") if place[0] == "public" else SQL("VACUUM (FULL) {}")
        try:
            connection.execute(how.format(Identifier(*place)))
        except (psycopg.errors.LockNotAvailable, psycopg.errors.InsufficientPrivilege):
            left.append(place[1])
    return [*told, "the tables of Postgres were written anew" + (f", but not {', '.join(left)}" if left else "")]


def _alone(connection: Connection) -> bool:
    """Wait until nobody reads from before now: what they may still see would be written anew as well."""
    row = connection.execute("SELECT pg_current_xact_id()::xid::text").fetchone()
    assert row is not None
    for _ in range(_TRIES):
        older = connection.execute(
            "SELECT 1 FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND age(backend_xmin) > age(%s::xid)",
            [row[0]],
        ).fetchone()
        if older is None:
            return True
        time.sleep(_PAUSE)
    return False
