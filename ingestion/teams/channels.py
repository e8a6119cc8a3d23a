"""Channels, their rosters and their scopes. Who may read is the channel's own `allMembers`, never the team's list for
a private or shared channel, and never "public" by default."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from core import principals
from core.access import NOBODY, Gate, Layer, Scope, ScopeAcl, ScopeId
from core.errors import SourceError
from core.principals import Principal
from ingestion.connector import Container
from ingestion.teams.client import GraphClient

# Without it shared channels arrive as `unknownFutureValue`.
PREFER = "include-unknown-enum-members"
KINDS = frozenset({"standard", "private", "shared"})


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel that is hosted here, with where it belongs."""

    id: str
    name: str
    kind: str
    team_id: str
    team_name: str
    team_public: bool
    label: str | None

    @property
    def path(self) -> str:
        """What people call it."""
        return f"{self.team_name}/{self.name}"


@dataclass
class Rosters:
    """Channels with their containers and scopes; `complete` False where a list broke off."""

    channels: list[Channel] = field(default_factory=list)
    containers: list[Container] = field(default_factory=list)
    scopes: list[Scope] = field(default_factory=list)
    unknown: Counter[str] = field(default_factory=Counter)
    complete: bool = True
    notes: list[str] = field(default_factory=list)


def scope_id(tenant: str, channel_id: str) -> ScopeId:
    """The scope of a channel."""
    return ScopeId(f"teams/{tenant}/channel/{channel_id}")


def read_rosters(client: GraphClient, tenant: str, allowed: tuple[str, ...], *, public_teams_open: bool) -> Rosters:
    """Read all teams that the allowlist names (by id or name; `*` all), their channels and who may read them.

    Raises SourceError where the list of teams itself breaks off.
    """
    rosters = Rosters()
    teams = list(
        client.rows(
            "/groups?$filter=resourceProvisioningOptions/Any(x:x eq 'Team')&$select="
            "id,displayName,visibility,assignedLabels"
        )
    )
    for team in teams:
        if "*" not in allowed and not {team["id"], team.get("displayName")} & set(allowed):
            continue
        try:
            channels = list(client.rows(f"/teams/{team['id']}/channels", prefer=PREFER))
        except SourceError as e:
            rosters.complete = False
            rosters.notes.append(f"channels of {team.get('displayName')} could not be read: {e}")
            continue
        for row in channels:
            _add(client, tenant, _channel(team, row), row, rosters, public_teams_open)
    return rosters


def _add(
    client: GraphClient, tenant: str, channel: Channel, row: dict[str, Any], rosters: Rosters, public_teams_open: bool
) -> None:
    if str(row.get("tenantId") or tenant).lower() != tenant.lower():
        rosters.notes.append(f"{channel.path} belongs to another tenant and is not read")
        return
    if channel.kind not in KINDS:
        rosters.unknown[f"channel:{channel.kind}"] += 1
        rosters.notes.append(f"{channel.path} is of an unknown kind and stays hidden")
        rosters.scopes.append(_scope(tenant, channel, NOBODY))
        return
    members = _all_members(client, tenant, channel, rosters)
    roster = principals.channel(channel.id)
    rosters.channels.append(channel)
    rosters.containers.append(Container(principal=roster, name=channel.path, kind="channel", members=members))
    allow = {roster}
    if public_teams_open and channel.team_public and channel.kind == "standard":
        allow.add(principals.everyone(tenant))
    rosters.scopes.append(
        _scope(tenant, channel, ScopeAcl((Gate("roster", (Layer(channel.path, frozenset(allow)),)),)))
    )


def _scope(tenant: str, channel: Channel, acl: ScopeAcl) -> Scope:
    return Scope(
        id=scope_id(tenant, channel.id), source="teams", kind=f"{channel.kind} channel", name=channel.path, acl=acl,
        label=channel.label,
    )  # fmt: skip


def _all_members(client: GraphClient, tenant: str, channel: Channel, rosters: Rosters) -> frozenset[Principal] | None:
    try:
        return frozenset(
            _principals(client.rows(f"/teams/{channel.team_id}/channels/{channel.id}/allMembers"), tenant, rosters)
        )
    except SourceError as e:
        rosters.complete = False
        rosters.notes.append(f"readers of {channel.path} could not be read: {e}")
        return None


def _principals(rows: Iterator[dict[str, Any]], tenant: str, rosters: Rosters) -> Iterator[Principal]:
    """People by (tenant, id); one person may stand in several rows. A row without an id is skipped and counted."""
    for row in rows:
        if not row.get("userId"):
            rosters.unknown["member without an id"] += 1
            continue
        yield principals.user(row.get("tenantId") or tenant, row["userId"])


def _channel(team: dict[str, Any], row: dict[str, Any]) -> Channel:
    labels = [x.get("displayName") for x in team.get("assignedLabels") or () if x.get("displayName")]
    return Channel(
        id=row["id"],
        name=row.get("displayName") or "",
        kind=row.get("membershipType") or "unknown",
        team_id=team["id"],
        team_name=team.get("displayName") or "",
        team_public=str(team.get("visibility", "")).lower() == "public",
        label=row.get("sensitivityLabel") or (labels[0] if labels else None),
    )
