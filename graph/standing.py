"""Whether a scope is open to somebody, and what keeps it shut: the one judgement behind every Trim and explanation."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from core.access import GateVerdict, Scope, ScopeAcl
from core.principals import Principal


class Bar(StrEnum):
    """Why a scope is shut. Any one of them is enough."""

    STALE = "permissions_too_old"
    UNREAD_DENY = "deny_names_unread_container"
    RULE = "rule"


def bars(
    row: Mapping[str, Any],
    acl: ScopeAcl,
    mine: frozenset[Principal],
    *,
    fresh: Collection[str],
    unresolved: frozenset[Principal],
) -> tuple[Bar, ...]:
    """What keeps the scope of this row shut to whoever counts as `mine`; nothing: it is open.

    `fresh` are the sources whose permissions are not too old, `unresolved` the containers whose members are not fully
    known: anybody may be in one, so nobody passes a rule that denies it.
    """
    found = []
    if row["origin"] not in fresh:
        found.append(Bar.STALE)
    if not unresolved.isdisjoint(row["denied"]):
        found.append(Bar.UNREAD_DENY)
    if not acl.permits(mine):
        found.append(Bar.RULE)
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a scope stands to one set of principals.

    `read_at` is when the permissions of its source (the connector `origin`) were last read to their end; `unread` are
    the containers that its denies name and whose members are not fully known. `indexed`: the index's points carry the
    rule of this version; until they do, a new grant may not be found by a search (a revocation is obeyed all the same).
    """

    scope: Scope
    origin: str
    bars: tuple[Bar, ...]
    verdicts: tuple[GateVerdict, ...]
    read_at: datetime | None
    unread: tuple[Principal, ...]
    indexed: bool

    @property
    def opens(self) -> bool:
        """Whether a Trim of these principals holds the scope as readable."""
        return not self.bars
