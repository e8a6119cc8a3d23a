"""The directory from Graph: accounts, groups and their direct members; nesting and cycles stay as they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from core import principals
from core.errors import SourceAuthError, SourceError, SourceNotFoundError
from core.principals import Principal
from ingestion.connector import Container, DirectoryPerson, PersonKind
from ingestion.teams.client import GraphClient

USER_FIELDS = "id,displayName,userPrincipalName,accountEnabled,userType,jobTitle,department"


@dataclass
class Directory:
    """What was read; `complete` False where any list broke off."""

    people: list[DirectoryPerson] = field(default_factory=list)
    containers: list[Container] = field(default_factory=list)
    unknown: Counter[str] = field(default_factory=Counter)
    complete: bool = True
    notes: list[str] = field(default_factory=list)


def read_directory(client: GraphClient, tenant: str) -> Directory:
    """Read all accounts and groups. Raises SourceError where the list of accounts or of groups itself breaks off."""
    directory = Directory()
    for row in _identified(client.rows(f"/users?$select={USER_FIELDS}&$expand=manager($select=id)"), "user", directory):
        directory.people.append(_person(row, tenant))
    try:
        services = client.rows("/servicePrincipals?$select=id,displayName,accountEnabled")
        for row in _identified(services, "service principal", directory):
            directory.people.append(
                DirectoryPerson(
                    principal=principals.user(tenant, row["id"]),
                    name=row.get("displayName") or "",
                    kind=PersonKind.SERVICE,
                    enabled=row.get("accountEnabled") is True,
                )
            )
    except SourceNotFoundError as e:
        directory.notes.append(f"service principals are not readable: {e}")
    # The whole list first: a page link may grow old while members are read.
    for row in list(_identified(client.rows("/groups?$select=id,displayName"), "group", directory)):
        principal = principals.group(tenant, row["id"])
        members = _members(client, f"/groups/{row['id']}/members?$select=id", tenant, directory)
        directory.containers.append(
            Container(principal=principal, name=row.get("displayName") or "", kind="group", members=members)
        )
    directory.containers += built_in(tenant, directory.people)
    return directory


def _identified(rows: Iterable[dict[str, Any]], kind: str, directory: Directory) -> Iterator[dict[str, Any]]:
    """Rows that say what they are about; the others name nobody and are counted."""
    for row in rows:
        if row.get("id"):
            yield row
        else:
            directory.unknown[f"{kind} without an id"] += 1


def built_in(tenant: str, people: Iterable[DirectoryPerson]) -> list[Container]:
    """`everyone` (enabled members) and `anyone` (guests too), which sources mean by "all internal people"."""
    people = list(people)
    enabled = [p for p in people if p.enabled and p.kind is not PersonKind.SERVICE]
    members = frozenset(p.principal for p in enabled if p.kind is PersonKind.MEMBER)
    return [
        Container(
            principal=principals.everyone(tenant), name="Everyone in the company", kind="everyone", members=members
        ),
        Container(
            principal=principals.anyone(tenant),
            name="Anyone who signs in",
            kind="anyone",
            members=frozenset(p.principal for p in enabled),
        ),
    ]


def _person(row: dict[str, Any], tenant: str) -> DirectoryPerson:
    manager = row.get("manager") or {}
    return DirectoryPerson(
        principal=principals.user(tenant, row["id"]),
        name=row.get("displayName") or row.get("userPrincipalName") or "",
        kind=PersonKind.GUEST if str(row.get("userType", "")).lower() == "guest" else PersonKind.MEMBER,
        # Absent is not the same as true: an account that Graph does not call enabled is not.
        enabled=row.get("accountEnabled") is True,
        upn=row.get("userPrincipalName"),
        title=row.get("jobTitle"),
        department=row.get("department"),
        manager=principals.user(tenant, manager["id"]) if manager.get("id") else None,
    )


def _members(client: GraphClient, path: str, tenant: str, directory: Directory) -> frozenset[Principal] | None:
    """Direct members; None (and a note) where the list broke off: half a group is no group."""
    found: set[Principal] = set()
    try:
        for row in _identified(client.rows(path), "member", directory):
            kind = str(row.get("@odata.type", "")).rsplit(".", 1)[-1]
            match kind:
                case "user" | "servicePrincipal":
                    found.add(principals.user(tenant, row["id"]))
                case "group":
                    found.add(principals.group(tenant, row["id"]))
                case _:
                    directory.unknown[kind or "untyped"] += 1
    except SourceAuthError:
        raise
    except SourceError as e:
        directory.complete = False
        directory.notes.append(f"members could not be read: {e}")
        return None
    return frozenset(found)
