"""Who belongs to what: accounts, containers and their members, as the sources list them, and closures over them.

A container whose members could not be read keeps the members it had. It counts as unresolved, as does one with members
of whom nobody can tell who they are, and whatever contains either: who else may be in it is not known, so nobody can be
shown not to be denied through it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any, Final

from psycopg import Connection
from psycopg.rows import DictRow

from core import principals as p
from core.directory import Account, Container, DirectoryPerson, PersonKind
from core.errors import UnresolvedIdentityError
from core.principals import Principal
from graph.db import Database, clean
from graph.epoch import move_epoch

# The sources whose people are the tenant's accounts; others may name people, but don't say who is a member.
DIRECTORIES: Final = frozenset({"graph", "teams"})
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
    ) -> bool:
        """Take over what a source says, in one transaction; return whether access changed (then the epoch moved).

        `complete`: people and containers of this source that are not listed are gone. Otherwise nothing is removed
        but members that a listed container no longer has. A container's members None: it keeps those it had.
        """
        persons = list({x.principal: x for x in people}.values())
        boxes = list({x.principal: x for x in containers}.values())

        def work(connection: Connection[DictRow]) -> bool:
            # One snapshot at a time: two would deadlock on shared rows, or one undo half of the other.
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [_APPLY_LOCK])
            changed = _apply_people(connection, snapshot_source, persons, complete)
            changed |= _apply_containers(connection, snapshot_source, boxes, complete, at)
            if snapshot_source in DIRECTORIES:
                changed |= _apply_audiences(connection, snapshot_source)
            changed |= _note_sync(connection, snapshot_source, complete, at)
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
        with self._db.connection() as connection:
            rows = connection.execute(
                """
                WITH rosters AS (
                    SELECT DISTINCT container FROM memberships
                    WHERE member = %(who)s AND split_part(container, ':', 1) IN ('group', 'ado', 'team', 'channel')
                ), people_of AS (
                    SELECT DISTINCT m.container, m.member
                    FROM memberships m JOIN rosters USING (container) WHERE m.member LIKE 'user:%%'
                ), small AS (
                    SELECT container FROM people_of GROUP BY container HAVING count(*) <= %(limit)s
                )
                SELECT DISTINCT member FROM people_of JOIN small USING (container) WHERE member <> %(who)s
                """,
                {"who": principal, "limit": ROSTER_LIMIT},
            ).fetchall()
        return frozenset(Principal(r["member"]) for r in rows)

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


def _apply_people(
    connection: Connection[DictRow], source: str, people: Sequence[DirectoryPerson], complete: bool
) -> bool:
    """Upsert accounts; True where somebody came, went, or is enabled or counted otherwise."""
    before = {
        r["principal"]: r for r in connection.execute("SELECT * FROM people WHERE source = %s", [source]).fetchall()
    }
    changed = False
    rows = []
    for person in sorted(people, key=lambda x: x.principal):
        row = _person_row(source, person)
        old = before.pop(person.principal, None)
        if old != row:
            changed |= old is None or (old["kind"], old["enabled"]) != (row["kind"], row["enabled"])
            rows.append(row)
    with connection.cursor() as cursor:
        cursor.executemany(
            """
            INSERT INTO people (source, principal, name, kind, enabled, upn, title, department, manager)
            VALUES (%(source)s, %(principal)s, %(name)s, %(kind)s, %(enabled)s, %(upn)s, %(title)s, %(department)s,
                    %(manager)s)
            ON CONFLICT (source, principal) DO UPDATE SET name = excluded.name, kind = excluded.kind,
                enabled = excluded.enabled, upn = excluded.upn, title = excluded.title,
                department = excluded.department, manager = excluded.manager
            """,
            rows,
        )
    if complete and before:
        connection.execute("DELETE FROM people WHERE source = %s AND principal = ANY(%s)", [source, sorted(before)])
        changed = True
    return changed


def _apply_containers(
    connection: Connection[DictRow], source: str, containers: Sequence[Container], complete: bool, at: datetime
) -> bool:
    """Upsert containers and their members; True where a membership, or whether one is known, changed."""
    before = {
        r["principal"]: r for r in connection.execute("SELECT * FROM containers WHERE source = %s", [source]).fetchall()
    }
    members = _members_of(connection, source)
    changed = False
    for box in sorted(containers, key=lambda x: x.principal):
        old = before.pop(box.principal, None)
        unread = box.half_known
        was_unread = old is not None and old["unresolved_since"] is not None
        changed |= unread != was_unread
        if box.members is not None and box.members != members.get(box.principal, frozenset()):
            changed |= _set_members(connection, source, box.principal, box.members)
        if old is not None and (old["name"], old["kind"], was_unread) == (clean(box.name), box.kind, unread):
            continue
        connection.execute(
            """
            INSERT INTO containers (source, principal, name, kind, unresolved_since) VALUES (%s, %s, %s, %s, %s)
            ON CONFLICT (source, principal) DO UPDATE SET name = excluded.name, kind = excluded.kind,
                unresolved_since = CASE WHEN excluded.unresolved_since IS NULL THEN NULL
                    ELSE coalesce(containers.unresolved_since, excluded.unresolved_since) END
            """,
            [source, box.principal, clean(box.name), box.kind, at if unread else None],
        )
    if complete and before:
        gone = sorted(before)
        connection.execute("DELETE FROM containers WHERE source = %s AND principal = ANY(%s)", [source, gone])
        connection.execute("DELETE FROM memberships WHERE source = %s AND container = ANY(%s)", [source, gone])
        changed = True
    return changed


def _members_of(connection: Connection[DictRow], source: str) -> dict[str, frozenset[str]]:
    rows = connection.execute(
        "SELECT container, array_agg(member) AS members FROM memberships WHERE source = %s GROUP BY container", [source]
    )
    return {r["container"]: frozenset(r["members"]) for r in rows}


def _set_members(
    connection: Connection[DictRow], source: str, container: Principal, members: Collection[Principal]
) -> bool:
    gone = connection.execute(
        "DELETE FROM memberships WHERE source = %s AND container = %s AND NOT member = ANY(%s)",
        [source, container, list(members)],
    ).rowcount
    come = connection.execute(
        "INSERT INTO memberships (source, container, member) SELECT %s, %s, unnest(%s::text[]) ON CONFLICT DO NOTHING",
        [source, container, sorted(members)],
    ).rowcount
    return bool(gone or come)


def _apply_audiences(connection: Connection[DictRow], source: str) -> bool:
    """Who counts as `everyone` (enabled members) and `anyone` (enabled members and guests), a tenant each."""
    wanted: dict[Principal, set[Principal]] = {}
    for row in connection.execute("SELECT principal, kind, enabled FROM people WHERE source = %s", [source]):
        who = Principal(row["principal"])
        if p.kind_of(who) != "user":
            continue
        tenant = who.removeprefix("user:").partition("/")[0]
        everyone, anyone = (wanted.setdefault(x(tenant), set()) for x in (p.everyone, p.anyone))
        if row["enabled"] and row["kind"] == PersonKind.MEMBER:
            everyone.add(who)
        if row["enabled"] and row["kind"] != PersonKind.SERVICE:
            anyone.add(who)
    known = connection.execute(
        "SELECT DISTINCT container FROM memberships "
        "WHERE source = %s AND (container LIKE 'everyone:%%' OR container LIKE 'anyone:%%')",
        [source],
    ).fetchall()
    for row in known:
        wanted.setdefault(Principal(row["container"]), set())
    changes = [_set_members(connection, source, audience, wanted[audience]) for audience in sorted(wanted)]
    return any(changes)


def _note_sync(connection: Connection[DictRow], source: str, complete: bool, at: datetime) -> bool:
    """Record the pass; True where it is the first that came to its end (closures may be answered from now on)."""
    old = connection.execute("SELECT completed_at FROM directory_syncs WHERE source = %s", [source]).fetchone()
    connection.execute(
        """
        INSERT INTO directory_syncs (source, seen_at, completed_at) VALUES (%s, %s, %s)
        ON CONFLICT (source) DO UPDATE SET seen_at = excluded.seen_at,
            completed_at = coalesce(excluded.completed_at, directory_syncs.completed_at)
        """,
        [source, at, at if complete else None],
    )
    return complete and (old is None or old["completed_at"] is None)


def _person_row(source: str, person: DirectoryPerson) -> dict[str, Any]:
    def text(value: str | None) -> str | None:
        return None if value is None else clean(value)

    return {
        "source": source,
        "principal": person.principal,
        "name": clean(person.name),
        "kind": person.kind.value,
        "enabled": person.enabled,
        "upn": text(person.upn),
        "title": text(person.title),
        "department": text(person.department),
        "manager": person.manager,
    }


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
