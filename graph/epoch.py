"""The access epoch: a number that moves, in the same transaction, with everything that changes who sees what."""

from __future__ import annotations

from psycopg import Connection
from psycopg.rows import DictRow


def move_epoch(connection: Connection[DictRow]) -> int:
    """Move the epoch; the last statement of a transaction, since every mover queues for this one row."""
    row = connection.execute("UPDATE access_epoch SET epoch = epoch + 1 RETURNING epoch").fetchone()
    assert row is not None
    return int(row["epoch"])


def read_identity(connection: Connection[DictRow]) -> str:
    """Which database this is, of all that count epochs: its cluster's identifier and its own number there."""
    row = connection.execute(
        "SELECT (SELECT system_identifier FROM pg_control_system()) AS cluster, "
        "(SELECT oid FROM pg_database WHERE datname = current_database()) AS database"
    ).fetchone()
    assert row is not None
    return f"{row['cluster']}/{row['database']}"


def read_epoch(connection: Connection[DictRow]) -> int:
    """The epoch as this transaction sees it."""
    row = connection.execute("SELECT epoch FROM access_epoch").fetchone()
    assert row is not None
    return int(row["epoch"])
