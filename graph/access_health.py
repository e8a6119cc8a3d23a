"""What keeps scopes shut right now, counted: for the administrator, not for answers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from core.principals import Principal
from graph.db import Database
from graph.directory import DIRECTORIES, unresolved_in

_NAMED: Final = 5
TABLES_OF_ACCESS: Final = frozenset({"scopes", "permission_syncs", "directory_syncs", "containers"})
_AGES: Final = """
    SELECT 'permissions' AS what, source AS connector, p.at AS since, 1 AS count
    FROM (SELECT DISTINCT origin AS source FROM scopes UNION SELECT source FROM permission_syncs) known
    LEFT JOIN permission_syncs p USING (source)
    UNION ALL SELECT 'memberships', source, seen_at, 1 FROM directory_syncs
    UNION ALL SELECT 'unread', source, min(unresolved_since), count(*)::int FROM containers
    WHERE unresolved_since IS NOT NULL GROUP BY source
    ORDER BY what, connector
"""
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


class AgeOf(StrEnum):
    """What of access has an age. `permissions`: the rules that a connector reads; `memberships`: accounts, groups and
    who is in them; `unread`: containers whose members could not be fully read, since the first of them failed."""

    PERMISSIONS = "permissions"
    MEMBERSHIPS = "memberships"
    UNREAD = "unread"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessAge:
    """Since when a part of access is not known to be otherwise: its last reading (None: never), or since when it could
    not be read. `count` is how many containers it is about.

    Past the revocation limit, what stands on it is shut: the scopes of the connector (permissions), every scope
    (memberships of the tenant's directory), whatever these containers let in (unread; what denies them is shut from
    the beginning).
    """

    what: AgeOf
    connector: str
    since: datetime | None
    count: int

    def at(self, now: datetime) -> timedelta | None:
        """How old it is; None where it was never read."""
        return None if self.since is None else now - self.since

    @property
    def shuts_all(self) -> bool:
        """Whether the scopes of all connectors stand on it."""
        return self.what is AgeOf.MEMBERSHIPS and self.connector in DIRECTORIES


class AccessHealth:
    """Counts over scopes and containers, by the connector that they come from. Raises StoreUnavailableError."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def ages(self) -> list[AccessAge]:
        """The age of everything that access stands on: nothing is shown that hangs on a part older than the limit."""
        with self._db.connection() as connection:
            rows = connection.execute(_AGES).fetchall()
        return [AccessAge(**{**r, "what": AgeOf(r["what"])}) for r in rows]

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
