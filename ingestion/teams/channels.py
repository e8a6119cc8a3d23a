"""Channels, their rosters and their scopes. Who may read is the channel's own `allMembers`, never the team's list for
a private or shared channel, and never "public" by default."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from core import principals
from core.access import NOBODY, Gate, Layer, Scope, ScopeAcl, ScopeId
from core.errors import SourceAuthError, SourceError
from core.principals import Principal
from ingestion.connector import Container
from ingestion.teams.client import GraphClient

# Without it shared channels arrive as `unknownFutureValue`.
PREFER = "include-unknown-enum-members"
KINDS = frozenset({"standard", "private", "shared"})
# The only kind of member that is an account of a directory; the others carry numbers and ids of other systems.
_ACCOUNT = "aaduserconversationmember"


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel that is hosted here, with where it belongs. `label` is its own, or its team's."""

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

    @property
    def url(self) -> str:
        """Where it is below Graph's base."""
        return f"/teams/{self.team_id}/channels/{self.id}"


@dataclass
class Rosters:
    """Channels with their containers and scopes.

    `complete` False where any list broke off; `listed` False where a list of channels did, so that a channel that is
    missing here may well be there.
    """

    channels: list[Channel] = field(default_factory=list)
    containers: list[Container] = field(default_factory=list)
    scopes: list[Scope] = field(default_factory=list)
    unknown: Counter[str] = field(default_factory=Counter)
    complete: bool = True
    listed: bool = True
    notes: list[str] = field(default_factory=list)


def scope_id(tenant: str, channel_id: str) -> ScopeId:
    """The scope of a channel."""
    return ScopeId(f"teams/{tenant}/channel/{channel_id}")


def read_rosters(client: GraphClient, tenant: str, allowed: tuple[str, ...], *, public_teams_open: bool) -> Rosters:
    """Read all teams that the allowlist names (by id or name; `*` all), their channels and who may read them.

    Raises SourceError where the list of teams itself breaks off, SourceAuthError where the token is refused.
    """
    rosters = Rosters()
    for team in _teams(client, allowed, rosters):
        name = team.get("displayName") or team["id"]
        try:
            rows = _channel_rows(client, team["id"])
        except SourceAuthError:
            raise
        except SourceError as e:
            rosters.complete = rosters.listed = False
            rosters.notes.append(f"channels of {name} could not be read: {e}")
            continue
        for row in rows:
            if row.get("id"):
                _add(client, tenant, _channel(team, row), row, rosters, public_teams_open)
            else:
                rosters.unknown["channel without an id"] += 1
    rosters.channels.sort(key=lambda c: c.id)
    return rosters


def _teams(client: GraphClient, allowed: tuple[str, ...], rosters: Rosters) -> list[dict[str, Any]]:
    fields = "id,displayName,visibility,assignedLabels"
    rows = list(client.rows(f"/groups?$filter=resourceProvisioningOptions/Any(x:x eq 'Team')&$select={fields}"))
    ids, names = {x.lower() for x in allowed}, set(allowed)
    found: dict[str, dict[str, Any]] = {}
    for team in rows:
        if not team.get("id"):
            rosters.unknown["team without an id"] += 1
        elif "*" in allowed or team["id"].lower() in ids or team.get("displayName") in names:
            found[team["id"]] = team
    named = {str(x) for team in found.values() for x in (team["id"].lower(), team.get("displayName"))}
    for wanted in allowed:
        if wanted != "*" and wanted not in named and wanted.lower() not in named:
            rosters.unknown["allowed team that is not there"] += 1
            rosters.notes.append(f"there is no team {wanted}")
    return list(found.values())


def _channel_rows(client: GraphClient, team_id: str) -> list[dict[str, Any]]:
    """The channels of a team. Every real team has one at least, and the service has been seen to forget them all for
    a moment, so an empty list is believed when it is given twice."""
    path = f"/teams/{team_id}/channels"
    return list(client.rows(path, prefer=PREFER)) or list(client.rows(path, prefer=PREFER))


def _add(
    client: GraphClient, tenant: str, channel: Channel, row: dict[str, Any], rosters: Rosters, public_teams_open: bool
) -> None:
    if str(row.get("tenantId") or tenant).lower() != tenant.lower():
        rosters.unknown["channel of another tenant"] += 1
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
    acl = ScopeAcl((Gate("roster", (Layer(channel.path, frozenset(allow)),)),))
    rosters.scopes.append(_scope(tenant, channel, acl))


def _scope(tenant: str, channel: Channel, acl: ScopeAcl) -> Scope:
    return Scope(
        id=scope_id(tenant, channel.id),
        source="teams",
        kind=f"{channel.kind} channel",
        name=channel.path,
        acl=acl,
        label=channel.label,
    )


def _all_members(client: GraphClient, tenant: str, channel: Channel, rosters: Rosters) -> frozenset[Principal] | None:
    try:
        return frozenset(_principals(client.rows(f"{channel.url}/allMembers"), rosters))
    except SourceAuthError:
        raise
    except SourceError as e:
        rosters.complete = False
        rosters.notes.append(f"readers of {channel.path} could not be read: {e}")
        return None


def _principals(rows: Iterator[dict[str, Any]], rosters: Rosters) -> Iterator[Principal]:
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


def _channel(team: dict[str, Any], row: dict[str, Any]) -> Channel:
    labels = [x.get("displayName") for x in team.get("assignedLabels") or () if x.get("displayName")]
    return Channel(
        id=row["id"],
        name=row.get("displayName") or "",
        kind=row.get("membershipType") or "unknown",
        team_id=team["id"],
        team_name=team.get("displayName") or "",
        team_public=str(team.get("visibility") or "").lower() == "public",
        label=row.get("sensitivityLabel") or (labels[0] if labels else None),
    )
