"""Writes what one source says of people, containers and members; the caller holds the lock and the transaction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any, Final

from psycopg import Connection
from psycopg.rows import DictRow

from core import principals as p
from core.directory import Container, DirectoryPerson, PersonKind
from core.erased import MARK
from core.principals import Principal
from graph.db import clean
from graph.erasures import erased_people

# Accounts, among the kinds of containers that were read to their end.
PEOPLE: Final = "people"
# The sources whose people are the tenant's accounts; others may name people, but don't say who is a member.
DIRECTORIES: Final = frozenset({"graph", "teams"})


def write_snapshot(
    connection: Connection[DictRow],
    source: str,
    people: Sequence[DirectoryPerson],
    containers: Sequence[Container],
    *,
    complete: bool,
    at: datetime,
    kinds: Collection[str] | None = None,
) -> bool:
    """Bring the tables to what `source` says (see `DirectoryStore.apply`); True where access may have changed."""

    def whole(kind: str) -> bool:
        return complete if kinds is None else kind in kinds

    changed = _apply_people(connection, source, people, prune=complete or whole(PEOPLE))
    changed |= _apply_containers(connection, source, containers, whole, at)
    if source in DIRECTORIES:
        changed |= _apply_audiences(connection, source)
    return changed


def _apply_people(
    connection: Connection[DictRow], source: str, people: Sequence[DirectoryPerson], *, prune: bool
) -> bool:
    """Upsert accounts; True where somebody came, went, or is enabled or counted otherwise."""
    before = {
        r["principal"]: r for r in connection.execute("SELECT * FROM people WHERE source = %s", [source]).fetchall()
    }
    changed = False
    rows = []
    erased = erased_people(connection)
    for person in sorted(people, key=lambda x: x.principal):
        row = _person_row(source, person)
        if erased.has(person.principal):
            # Who they are stays as long as the source lists them, since access hangs on it; how they are called not.
            row |= {"name": MARK, "upn": None, "title": None, "department": None}
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
    if prune and before:
        connection.execute("DELETE FROM people WHERE source = %s AND principal = ANY(%s)", [source, sorted(before)])
        changed = True
    return changed


def _apply_containers(
    connection: Connection[DictRow],
    source: str,
    containers: Sequence[Container],
    whole: Callable[[str], bool],
    at: datetime,
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
        known = members.get(box.principal, frozenset())
        grew = box.members is not None and not box.members <= known
        if box.members is not None and box.members != known:
            changed |= _set_members(connection, source, box.principal, box.members)
        same = old is not None and (old["name"], old["kind"], was_unread) == (clean(box.name), box.kind, unread)
        if same and not grew:
            continue
        connection.execute(
            """
            INSERT INTO containers (source, principal, name, kind, unresolved_since, grew_at)
            VALUES (%s, %s, %s, %s, %s, %s)
            ON CONFLICT (source, principal) DO UPDATE SET name = excluded.name, kind = excluded.kind,
                grew_at = coalesce(excluded.grew_at, containers.grew_at),
                unresolved_since = CASE WHEN excluded.unresolved_since IS NULL THEN NULL
                    ELSE coalesce(containers.unresolved_since, excluded.unresolved_since) END
            """,
            [source, box.principal, clean(box.name), box.kind, at if unread else None, at if grew else None],
        )
    gone = sorted(name for name, row in before.items() if whole(row["kind"]))
    if gone:
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
    known = {
        Principal(container): members
        for container, members in _members_of(connection, source).items()
        if p.kind_of(Principal(container)) in ("everyone", "anyone")
    }
    changed = False
    for audience in sorted(wanted.keys() | known.keys()):
        if wanted.get(audience, set()) != known.get(audience, frozenset()):
            changed |= _set_members(connection, source, audience, wanted.get(audience, set()))
    return changed


def note_sync(connection: Connection[DictRow], source: str, complete: bool, at: datetime, *, listed: bool) -> bool:
    """Record the pass; True where it is the first that came to its end (closures may be answered from now on).

    `listed`: it read accounts or groups, so what is known of them is as young as the pass.
    """
    old = connection.execute("SELECT completed_at FROM directory_syncs WHERE source = %s", [source]).fetchone()
    connection.execute(
        """
        INSERT INTO directory_syncs (source, seen_at, completed_at) VALUES (%(source)s, %(at)s, %(completed)s)
        ON CONFLICT (source) DO UPDATE SET
            seen_at = CASE WHEN %(listed)s THEN excluded.seen_at ELSE directory_syncs.seen_at END,
            completed_at = coalesce(excluded.completed_at, directory_syncs.completed_at)
        """,
        {"source": source, "at": at, "completed": at if complete else None, "listed": listed},
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
