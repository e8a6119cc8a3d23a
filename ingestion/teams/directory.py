"""The directory from Graph as the engine keeps it: accounts, groups and their direct members; nesting and cycles stay
as they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from core import principals
from core.principals import Principal
from graph.directory_snapshot import PEOPLE
from ingestion.connector import Container, DirectoryPerson, PersonKind

Json = Mapping[str, Any]

USER_FIELDS: Final = "id,displayName,userPrincipalName,accountEnabled,userType,jobTitle,department"
SERVICE_FIELDS: Final = "id,displayName,accountEnabled"
_LISTED: Final = frozenset({PEOPLE, "group", "everyone", "anyone"})
# Members that are no accounts and hold none: they never ask anything.
_THINGS: Final = frozenset({"device", "orgContact"})


@dataclass
class Directory:
    """What was read; `complete` False where any list broke off."""

    people: list[DirectoryPerson] = field(default_factory=list)
    containers: list[Container] = field(default_factory=list)
    unknown: Counter[str] = field(default_factory=Counter)
    complete: bool = True
    notes: list[str] = field(default_factory=list)

    @property
    def whole(self) -> frozenset[str] | None:
        """What was listed to its end, whatever becomes of the rest of a snapshot."""
        return _LISTED if self.complete else None


@dataclass
class Group:
    """A group with the kind of each direct member by its id; `members` None where they could not be read.

    `nameless` counts members that don't say who they are.
    """

    name: str
    members: dict[str, str] | None = field(default_factory=dict)
    nameless: int = 0


def user_of(row: Json, tenant: str) -> DirectoryPerson:
    """An account of a person or guest. `row` must hold an id."""
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


def service_of(row: Json, tenant: str) -> DirectoryPerson:
    """A service principal. `row` must hold an id."""
    return DirectoryPerson(
        principal=principals.user(tenant, row["id"]),
        name=row.get("displayName") or "",
        kind=PersonKind.SERVICE,
        enabled=row.get("accountEnabled") is True,
    )


def kind_of(row: Json) -> str:
    """The kind of a member, as `user` or `group`; empty where it does not say."""
    return str(row.get("@odata.type") or "").rsplit(".", 1)[-1]


def container_of(group_id: str, group: Group, tenant: str, gone: frozenset[str], unknown: Counter[str]) -> Container:
    """The group as a container, without members whose id is in `gone`; members of no known kind are counted.

    It is partial where somebody may be in it of whom nobody can tell who they are.
    """
    principal = principals.group(tenant, group_id)
    if group.members is None:
        return Container(principal=principal, name=group.name, kind="group", members=None)
    found: set[Principal] = set()
    partial = group.nameless > 0
    if partial:
        unknown["member without an id"] += group.nameless
    for member, kind in group.members.items():
        if member in gone:
            continue
        match kind:
            case "user" | "servicePrincipal":
                found.add(principals.user(tenant, member))
            case "group":
                found.add(principals.group(tenant, member))
            case _:
                unknown[kind or "untyped"] += 1
                partial |= kind not in _THINGS
    return Container(principal=principal, name=group.name, kind="group", members=frozenset(found), partial=partial)


def audiences(tenant: str, people: Iterable[DirectoryPerson]) -> list[Container]:
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


def identified(rows: Iterable[Json], kind: str, unknown: Counter[str]) -> Iterator[Json]:
    """Rows that say what they are about; the others name nobody and are counted."""
    for row in rows:
        if row.get("id"):
            yield row
        else:
            unknown[f"{kind} without an id"] += 1
