"""Whether a scope is open to somebody, and what keeps it shut: the one judgement behind every Trim and explanation."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from psycopg.rows import DictRow

from core.access import GateVerdict, Scope, ScopeAcl
from core.principals import Principal
from graph.moment import Moment
from graph.scope_rows import spaces_of_row


class Bar(StrEnum):
    """Why a scope is shut. Any one of them is enough."""

    STALE = "permissions_too_old"
    STALE_DIRECTORY = "memberships_too_old"
    UNREAD_DENY = "deny_names_unread_container"
    RULE = "rule"
    POLICY = "outside_policy"


def bars(
    row: DictRow,
    acl: ScopeAcl,
    mine: frozenset[Principal],
    *,
    moment: Moment,
    unresolved: frozenset[Principal],
    spaces: frozenset[str] | None,
) -> tuple[Bar, ...]:
    """What keeps the scope of this row shut to whoever counts as `mine`; nothing: it is open.

    `unresolved` are the containers whose members are not fully known: anybody may be in one, so nobody passes a rule
    that denies it, and, once that has lasted too long, nobody is let in by one. `spaces` is the policy of an
    application on its own, to which a scope in none of them is shut; a person has no such policy.
    """
    found = []
    if row["origin"] not in moment.fresh:
        found.append(Bar.STALE)
    if not moment.directory:
        found.append(Bar.STALE_DIRECTORY)
    if row["id"] in moment.unlisted or not unresolved.isdisjoint(row["denied"]):
        found.append(Bar.UNREAD_DENY)
    if not acl.permits(mine - moment.lapsed):
        found.append(Bar.RULE)
    if spaces is not None and spaces.isdisjoint(spaces_of_row(row)):
        found.append(Bar.POLICY)
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a scope stands to one set of principals.

    `read_at` is when the permissions of its source (the connector `origin`) were last read to their end; `unread` are
    the containers that its denies name and whose members are not fully known; `lapsed` are those of the principals
    that count no more, because a container on the way could not be read for too long. `indexed`: the index's points
    carry the rule of this version; until they do, a new grant may not be found by a search (a revocation is obeyed all
    the same).
    """

    scope: Scope
    origin: str
    bars: tuple[Bar, ...]
    verdicts: tuple[GateVerdict, ...]
    read_at: datetime | None
    unread: tuple[Principal, ...]
    lapsed: tuple[Principal, ...]
    indexed: bool

    @property
    def opens(self) -> bool:
        """Whether a Trim of these principals holds the scope as readable."""
        return not self.bars
