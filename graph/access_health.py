"""What keeps scopes shut right now, counted: for the administrator, not for answers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from core.principals import Principal
from graph.db import Database
from graph.directory import DIRECTORIES, unresolved_in

_NAMED: Final = 5
_WITHOUT_RULE: Final = """
    SELECT count(*) AS n, coalesce((array_agg(name ORDER BY name))[1:5], '{}') AS names
    FROM scopes WHERE origin = %s AND jsonb_array_length(acl) = 0
"""
_HALF_KNOWN: Final = """
    SELECT principal, min(name) AS name FROM containers
    WHERE source = %s AND unresolved_since IS NOT NULL GROUP BY principal ORDER BY name, principal
"""


@dataclass(frozen=True, slots=True)
class Named:
    """So many, and the names of the first few."""

    count: int
    names: tuple[str, ...]

    def __str__(self) -> str:
        more = ", …" if self.count > len(self.names) else ""
        return f"{self.count} ({', '.join(self.names)}{more})" if self.names else str(self.count)


class AccessHealth:
    """Counts over scopes and containers, by the connector that they come from. Raises StoreUnavailableError."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def directory_seen_at(self) -> datetime | None:
        """When the tenant's directory was last read, as far as it could be; None: never."""
        with self._db.connection() as connection:
            row = connection.execute(
                "SELECT min(seen_at) AS at FROM directory_syncs WHERE source = ANY(%s)", [sorted(DIRECTORIES)]
            ).fetchone()
        return row["at"] if row else None

    def scopes(self, origin: str) -> int:
        """How many scopes there are."""
        with self._db.connection() as connection:
            row = connection.execute("SELECT count(*) AS n FROM scopes WHERE origin = %s", [origin]).fetchone()
        return int(row["n"]) if row else 0

    def without_rule(self, origin: str) -> Named:
        """Scopes that let nobody in: switched off or gone at the source, or with unreadable permissions."""
        with self._db.connection() as connection:
            row = connection.execute(_WITHOUT_RULE, [origin]).fetchone()
        return Named(int(row["n"]), tuple(row["names"])) if row else Named(0, ())

    def half_known(self, origin: str) -> Named:
        """Containers in which somebody may be whom we don't know of."""
        with self._db.connection() as connection:
            rows = connection.execute(_HALF_KNOWN, [origin]).fetchall()
        return Named(len(rows), tuple(r["name"] or r["principal"] for r in rows[:_NAMED]))

    def behind_half_known(self, origin: str) -> int:
        """Scopes that stay shut because their rule denies such a container, or one that holds it."""
        with self._db.connection() as connection:
            unresolved: list[Principal] = sorted(unresolved_in(connection))
            row = connection.execute(
                "SELECT count(*) AS n FROM scopes WHERE origin = %s AND denied && %s::text[]", [origin, unresolved]
            ).fetchone()
        return int(row["n"]) if row else 0
