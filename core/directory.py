"""The directory's own words: accounts, and the containers that have members."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from core.principals import Principal


class PersonKind(StrEnum):
    """What an account of the directory is."""

    MEMBER = "member"
    GUEST = "guest"
    SERVICE = "service"


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryPerson:
    """An account. Never matched by name or address: `principal` is its identity."""

    principal: Principal
    name: str
    kind: PersonKind
    enabled: bool
    upn: str | None = None
    title: str | None = None
    department: str | None = None
    manager: Principal | None = None


# What the store gives back is what the source gave: one account.
Account = DirectoryPerson


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """Something that has members (group, ADO group, team, channel, licence). `members` None: it could not be read.

    Members may be people or other containers; nesting and cycles are the directory's business. `partial`: `members`
    were read, but there are some of whom nobody can tell who they are.
    """

    principal: Principal
    name: str
    kind: str
    members: frozenset[Principal] | None
    partial: bool = False

    @property
    def half_known(self) -> bool:
        """Whether somebody may be in it whom we don't know of."""
        return self.members is None or self.partial
