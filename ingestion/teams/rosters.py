"""Who may read a channel: its own `allMembers`, never the team's list for a private or shared channel, and never
"public" by default."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from core import principals
from core.access import NOBODY, Gate, Layer, Scope, ScopeAcl, ScopeId
from core.errors import SourceAuthError, SourceError, SourceNotFoundError
from core.principals import Principal
from ingestion.connector import Container
from ingestion.teams.channels import KINDS, Channel
from ingestion.teams.client import GraphClient

# The only kind of member that is an account of a directory; the others carry numbers and ids of other systems.
_ACCOUNT: Final = "aaduserconversationmember"


@dataclass
class Rosters:
    """Containers and scopes of channels. `complete` False where the readers of one could not be read, with a note;
    `missing`: that one was missing or closed to us. `unknown` counts members of whom nobody can tell who they are."""

    containers: list[Container] = field(default_factory=list)
    scopes: list[Scope] = field(default_factory=list)
    complete: bool = True
    missing: bool = False
    unknown: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)


def scope_id(tenant: str, channel_id: str) -> ScopeId:
    """The scope of a channel."""
    return ScopeId(f"teams/{tenant}/channel/{channel_id}")


def scope_of(tenant: str, channel: Channel, acl: ScopeAcl = NOBODY) -> Scope:
    """The scope of a channel with this rule; by default nobody's."""
    return Scope(
        id=scope_id(tenant, channel.id),
        source="teams",
        kind=f"{channel.kind} channel",
        name=channel.path,
        acl=acl,
        label=channel.label,
        attributes={"team": channel.team_name, "team_id": channel.team_id},
    )


def read_rosters(client: GraphClient, tenant: str, channels: Iterable[Channel], *, public_teams_open: bool) -> Rosters:
    """Read who may read these channels. One that can't be read keeps the readers it had, and is told. Raises
    SourceAuthError where the token is refused."""
    rosters = Rosters()
    for channel in channels:
        if channel.kind not in KINDS:
            rosters.scopes.append(scope_of(tenant, channel))
            continue
        members = _all_members(client, channel, rosters)
        roster = principals.channel(channel.id)
        rosters.containers.append(Container(principal=roster, name=channel.path, kind="channel", members=members))
        allow = {roster}
        if public_teams_open and channel.team_public and channel.kind == "standard":
            allow.add(principals.everyone(tenant))
        acl = ScopeAcl((Gate("roster", (Layer(channel.path, frozenset(allow)),)),))
        rosters.scopes.append(scope_of(tenant, channel, acl))
    return rosters


def _all_members(client: GraphClient, channel: Channel, rosters: Rosters) -> frozenset[Principal] | None:
    try:
        return frozenset(_principals(client.rows(f"{channel.url}/allMembers"), rosters))
    except SourceAuthError:
        raise
    except SourceError as e:
        rosters.complete = False
        rosters.missing |= isinstance(e, SourceNotFoundError)
        rosters.notes.append(f"readers of {channel.path} could not be read: {e}")
        return None


def _principals(rows: Iterator[Mapping[str, Any]], rosters: Rosters) -> Iterator[Principal]:
    """People by (tenant, id); one person may stand in several rows. A row that does not say who it means, by account
    and tenant, is skipped and counted: taken as one of ours it might let in somebody else."""
    for row in rows:
        kind = str(row.get("@odata.type") or "").rsplit(".", 1)[-1]
        if kind and kind.lower() != _ACCOUNT:
            rosters.unknown[f"member:{kind}"] += 1
        elif not row.get("userId"):
            rosters.unknown["member without an id"] += 1
        elif not row.get("tenantId"):
            rosters.unknown["member without a tenant"] += 1
        else:
            yield principals.user(row["tenantId"], row["userId"])
