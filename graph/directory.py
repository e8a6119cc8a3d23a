"""Who belongs to what: accounts, containers and their members, as the sources list them, and closures over them.

A container whose members could not be read keeps the members it had. It counts as unresolved, as does one with members
of whom nobody can tell who they are, and whatever contains either: who else may be in it is not known, so nobody can be
shown not to be denied through it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Final

from psycopg import Connection
from psycopg.rows import DictRow

from core.directory import Account, Container, DirectoryPerson, PersonKind
from core.errors import UnresolvedIdentityError
from core.principals import Principal
from graph.applied import directory_digest, note_applied, would_change_nothing
from graph.db import Database
from graph.directory_snapshot import DIRECTORIES as DIRECTORIES
from graph.directory_snapshot import PEOPLE as PEOPLE
from graph.directory_snapshot import note_sync, write_snapshot
from graph.epoch import move_epoch
from graph.leases import still_held

ROSTER_LIMIT: Final = 25

_APPLY_LOCK: Final = 0x6469726563746F72

_UNRESOLVED: Final = """
    WITH RECURSIVE unknown(principal) AS (
        SELECT principal FROM containers WHERE unresolved_since IS NOT NULL
        UNION
        SELECT m.container FROM memberships m JOIN unknown u ON m.member = u.principal
    )
    SELECT principal FROM unknown
"""


def unresolved_in(connection: Connection[DictRow]) -> frozenset[Principal]:
    """`DirectoryStore.unresolved` in a transaction that is already open."""
    return frozenset(Principal(r["principal"]) for r in connection.execute(_UNRESOLVED))


class DirectoryStore:
    """Accounts and memberships. `required` names sources that must have been read to their end at least once."""

    def __init__(self, db: Database, *, required: Iterable[str] = ()) -> None:
        self._db = db
        self._required = frozenset(required)

    def apply(
        self,
        snapshot_source: str,
        people: Iterable[DirectoryPerson],
        containers: Iterable[Container],
        *,
        complete: bool,
        at: datetime,
        kinds: Collection[str] | None = None,
    ) -> bool:
        """Take over what a source says, in one transaction; return whether access changed (then the epoch moved).

        `complete`: the source was read to its end, and people and containers of it that are not listed are gone.
        Otherwise nothing is removed but members that a listed container no longer has. With `kinds`, containers are
        gone only where their kind is one of these, which were read to their end in any case; so are people where
        PEOPLE is. A container's members None: it keeps those it had. A snapshot that the record is known to hold
        already is not compared with it again. One of containers alone, of which none was read to its end, makes what
        is known of the source no younger.
        """
        persons = list({x.principal: x for x in people}.values())
        boxes = list({x.principal: x for x in containers}.values())
        digest = directory_digest(persons, boxes, complete=complete, kinds=kinds)

        def work(connection: Connection[DictRow]) -> bool:
            # One snapshot at a time: two would deadlock on shared rows, or one undo half of the other.
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [_APPLY_LOCK])
            still_held(connection)
            changed = False
            if not would_change_nothing(connection, "directory", snapshot_source, digest):
                changed = write_snapshot(
                    connection, snapshot_source, persons, boxes, complete=complete, at=at, kinds=kinds
                )
                note_applied(connection, "directory", snapshot_source, digest)
            # The readers of one place say nothing of accounts and groups.
            listed = complete or bool(persons) or bool(kinds)
            changed |= note_sync(connection, snapshot_source, complete, at, listed=listed)
            if changed:
                move_epoch(connection)
            return changed

        return self._db.retrying(work)

    def closure(self, principal: Principal) -> frozenset[Principal]:
        """The principal and everything it belongs to, however deeply nested.

        Raises UnresolvedIdentityError where a source of memberships was never read to its end: a group that is not
        known can hide a deny.
        """
        with self._db.connection() as connection:
            syncs = connection.execute("SELECT source, completed_at FROM directory_syncs").fetchall()
            done = {r["source"] for r in syncs if r["completed_at"] is not None}
            missing = sorted((self._required | {r["source"] for r in syncs}) - done)
            if missing or not done:
                raise UnresolvedIdentityError(
                    "memberships are not fully known yet", where=", ".join(missing) or "directory"
                )
            rows = connection.execute(
                """
                WITH RECURSIVE up(principal) AS (
                    SELECT %s::text COLLATE "C"
                    UNION
                    SELECT m.container FROM memberships m JOIN up ON m.member = up.principal
                )
                SELECT principal FROM up
                """,
                [principal],
            ).fetchall()
        return frozenset(Principal(r["principal"]) for r in rows)

    def account(self, principal: Principal) -> Account | None:
        """The account of that identity; None where no source lists it."""
        return self.accounts([principal]).get(principal)

    def accounts(self, principals: Collection[Principal]) -> dict[Principal, Account]:
        """Accounts by identity; the tenant's directory has the last word where several sources list one."""
        with self._db.connection() as connection:
            rows = connection.execute(
                "SELECT * FROM people WHERE principal = ANY(%s) ORDER BY source = ANY(%s), source DESC",
                [list(principals), sorted(DIRECTORIES)],
            ).fetchall()
        return {Principal(r["principal"]): _account(r) for r in rows}

    def teammates(self, principal: Principal) -> frozenset[Principal]:
        """People who share a roster (group, team, channel) of at most 25 people with this one, without them."""
        return frozenset(self.closeness(principal))

    def closeness(self, principal: Principal) -> dict[Principal, float]:
        """How closely people share a roster with this one, 0 to 1: two of the number of people in the smallest one
        (1 for a pair, 0.5 for a team of four). Large rosters, which bind nobody, are left out as in `teammates`."""
        with self._db.connection() as connection:
            rows = connection.execute(
                """
                WITH rosters AS (
                    SELECT DISTINCT container FROM memberships
                    WHERE member = %(who)s AND split_part(container, ':', 1) IN ('group', 'ado', 'team', 'channel')
                ), people_of AS (
                    SELECT DISTINCT m.container, m.member
                    FROM memberships m JOIN rosters USING (container) WHERE m.member LIKE 'user:%%'
                ), sized AS (
                    SELECT container, count(*) AS people FROM people_of GROUP BY container HAVING count(*) <= %(limit)s
                )
                SELECT member, min(people) AS people FROM people_of JOIN sized USING (container)
                WHERE member <> %(who)s GROUP BY member ORDER BY member
                """,
                {"who": principal, "limit": ROSTER_LIMIT},
            ).fetchall()
        return {Principal(r["member"]): min(1.0, 2 / int(r["people"])) for r in rows}

    def containers_of(self, principal: Principal) -> dict[Principal, str]:
        """Names of the containers that the principal is in, directly or not; those without a name are left out."""
        with self._db.connection() as connection:
            rows = connection.execute(
                """
                WITH RECURSIVE up(principal) AS (
                    SELECT container FROM memberships WHERE member = %s
                    UNION
                    SELECT m.container FROM memberships m JOIN up ON m.member = up.principal
                )
                SELECT DISTINCT ON (c.principal) c.principal, c.name FROM containers c JOIN up USING (principal)
                ORDER BY c.principal, c.source
                """,
                [principal],
            ).fetchall()
        return {Principal(r["principal"]): str(r["name"]) for r in rows}

    def unresolved(self) -> frozenset[Principal]:
        """Containers whose members are not fully known: unread ones, and whatever contains them."""
        with self._db.connection() as connection:
            return unresolved_in(connection)

    def unresolved_since(self) -> dict[Principal, datetime]:
        """Since when each container could not be read (the containers themselves, not what contains them)."""
        with self._db.connection() as connection:
            rows = connection.execute(
                "SELECT principal, min(unresolved_since) AS since FROM containers "
                "WHERE unresolved_since IS NOT NULL GROUP BY principal"
            ).fetchall()
        return {Principal(r["principal"]): r["since"] for r in rows}


def _account(row: DictRow) -> Account:
    return Account(
        principal=Principal(row["principal"]),
        name=row["name"],
        kind=PersonKind(row["kind"]),
        enabled=row["enabled"],
        upn=row["upn"],
        title=row["title"],
        department=row["department"],
        manager=Principal(row["manager"]) if row["manager"] else None,
    )
