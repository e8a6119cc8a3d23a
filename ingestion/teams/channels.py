"""Which channels are read: those of the allowed teams, and those that other teams of the tenant share into them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from core.errors import SourceAuthError, SourceError, SourceNotFoundError
from ingestion.teams.client import GraphClient, SourceRefusedError

Json = Mapping[str, Any]

# Without it shared channels arrive as `unknownFutureValue`.
PREFER: Final = "include-unknown-enum-members"
KINDS: Final = frozenset({"standard", "private", "shared"})
_TEAM_FIELDS: Final = "id,displayName,visibility,assignedLabels"
_ALL_TEAMS: Final = (
    "/groups?$filter=resourceProvisioningOptions/Any(x:x eq 'Team')&$select=" + _TEAM_FIELDS + "&$top=999"
)
# Where a shared channel lives. The address as given can't be called: the tenant's part has to go.
_HOME: Final = re.compile(r"(?:/tenants/([0-9a-fA-F-]{36}))?/teams/([0-9a-fA-F-]{36})/channels/")


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel of this tenant, with the team that hosts it. `label` is its own, or its team's.

    `into`: the allowed teams that it is shared into, where the team that hosts it is not allowed itself.
    """

    id: str
    name: str
    kind: str
    team_id: str
    team_name: str
    team_public: bool
    label: str | None
    into: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """What people call it."""
        return f"{self.team_name}/{self.name}"

    @property
    def url(self) -> str:
        """Where it is below Graph's base."""
        return f"/teams/{self.team_id}/channels/{self.id}"


@dataclass
class Listing:
    """The channels of the allowed teams, by id. `hidden` are of a kind that nobody knows: they are nobody's.

    `lists`: what each list that came whole held. `broken`: lists that broke off, so that a channel that is missing here
    may well be there. `refused`: lists of incoming channels that Graph does not give, here or any more.
    """

    channels: dict[str, Channel] = field(default_factory=dict)
    hidden: dict[str, Channel] = field(default_factory=dict)
    foreign: set[str] = field(default_factory=set)
    lists: dict[str, frozenset[str]] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    unknown: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    def get(self, channel_id: str) -> Channel | None:
        """A channel by id, a hidden one too."""
        return self.channels.get(channel_id) or self.hidden.get(channel_id)

    def put(self, channel: Channel) -> None:
        """Take up a channel, or what is new of it."""
        (self.channels if channel.kind in KINDS else self.hidden)[channel.id] = channel

    def of_team(self, team_id: str) -> list[Channel]:
        """The channels that a team hosts or that are shared into it."""
        every = (*self.channels.values(), *self.hidden.values())
        return [c for c in every if team_id.lower() in (c.team_id.lower(), *map(str.lower, c.into))]


class ChannelLister:
    """Lists teams and channels. `allowed` names teams by id or name, `*` all; `incoming`: whether this cloud tells
    which channels are shared into a team."""

    def __init__(self, client: GraphClient, tenant: str, allowed: Collection[str], *, incoming: bool) -> None:
        self._client, self._tenant = client, tenant
        self._allowed, self._incoming = tuple(allowed), incoming

    def list_all(self) -> Listing:
        """List everything. Raises SourceError where the list of teams itself breaks off, SourceAuthError where the
        token is refused."""
        listing = Listing()
        teams: dict[str, Json] = {}
        for row in self._client.rows(_ALL_TEAMS):
            if row.get("id"):
                teams[str(row["id"]).lower()] = row
            else:
                listing.unknown["team without an id"] += 1
        found = [team for team in teams.values() if self._allows(team)]
        self._missing(found, listing)
        for team in found:
            self._own(team, listing)
        for team in found:
            self._shared_into(team, teams.get, listing)
        listing.channels = dict(sorted(listing.channels.items()))
        if self._allowed and not listing.channels and not listing.broken:
            listing.unknown["no channel to read"] += 1
            listing.notes.append("no team that may be read has a channel")
        return listing

    def list_team(self, team_id: str) -> Listing | None:
        """List one team alone; None where there is no such team, or it is not allowed. Raises SourceError."""
        team = self._team(team_id)
        if team is None or not self._allows(team):
            return None
        listing = Listing()
        self._own(team, listing)
        self._shared_into(team, self._team, listing)
        return listing

    def _team(self, team_id: str) -> Json | None:
        try:
            return self._client.get(f"/groups/{team_id}?$select={_TEAM_FIELDS}")
        except SourceNotFoundError:
            return None

    def _allows(self, team: Json) -> bool:
        ids, names = {x.lower() for x in self._allowed}, set(self._allowed)
        return "*" in names or str(team["id"]).lower() in ids or team.get("displayName") in names

    def _missing(self, found: Iterable[Json], listing: Listing) -> None:
        named = {str(x) for team in found for x in (str(team["id"]).lower(), team.get("displayName"))}
        for wanted in self._allowed:
            if wanted != "*" and wanted not in named and wanted.lower() not in named:
                listing.unknown["allowed team that is not there"] += 1
                listing.notes.append(f"there is no team {wanted}")

    def _own(self, team: Json, listing: Listing) -> None:
        path = f"/teams/{team['id']}/channels"
        # Every real team has one at least, and the service has been seen to forget them all for a moment, so an empty
        # list is believed when it is given twice.
        rows = self._rows(path, team, listing)
        rows = self._rows(path, team, listing) if rows == [] else rows
        for row in self._identified(rows, path, listing):
            self._add(_channel(team, row), str(row.get("tenantId") or self._tenant), listing)

    def _shared_into(self, team: Json, host_of: Callable[[str], Json | None], listing: Listing) -> None:
        """Channels of other teams, read where they live, once however many teams they come in by."""
        if not self._incoming:
            return
        path = f"/teams/{team['id']}/incomingChannels"
        for row in self._identified(self._rows(path, team, listing, optional=True), path, listing):
            home = _HOME.search(str(row.get("@odata.id") or ""))
            tenants = {str(x).lower() for x in (row.get("tenantId"), home and home.group(1)) if x}
            name = row.get("displayName") or row["id"]
            if tenants and tenants != {self._tenant}:
                self._foreign(str(row["id"]), f"{name}, shared into {_name(team)},", listing)
                continue
            host = host_of(home.group(2).lower()) if home is not None and tenants else None
            if host is None:
                listing.unknown["incoming channel that does not say where it lives"] += 1
                listing.notes.append(f"{name}, shared into {_name(team)}, does not say where it lives and is not read")
            elif (known := listing.get(str(row["id"]))) is None:
                self._add(_channel(host, row, into=(str(team["id"]),)), self._tenant, listing)
            elif known.into:  # where its own team is allowed, it comes in by that
                listing.put(replace(known, into=tuple(sorted({*known.into, str(team["id"])}))))

    def _rows(self, path: str, team: Json, listing: Listing, *, optional: bool = False) -> list[dict[str, Any]] | None:
        """A list; None where it broke off. `optional`: one that this cloud or tenant may not have at all."""
        try:
            return [*self._client.rows(path, prefer=PREFER)]
        except SourceAuthError:
            raise
        except SourceError as e:
            if optional and isinstance(e, SourceNotFoundError | SourceRefusedError):
                listing.refused.add(path)
                listing.notes.append(f"channels that others share into {_name(team)} are not told: {e}")
            else:
                listing.broken.add(path)
                listing.notes.append(f"channels of {_name(team)} could not be read: {e}")
            return None

    def _identified(
        self, rows: Sequence[dict[str, Any]] | None, path: str, listing: Listing
    ) -> Iterator[dict[str, Any]]:
        if rows is None:
            return
        listing.lists[path] = frozenset(str(row["id"]) for row in rows if row.get("id"))
        for row in rows:
            if row.get("id"):
                yield row
            else:
                listing.unknown["channel without an id"] += 1

    def _add(self, channel: Channel, owner: str, listing: Listing) -> None:
        if owner.lower() != self._tenant:
            self._foreign(channel.id, channel.path, listing)
            return
        if channel.kind not in KINDS:
            listing.unknown[f"channel:{channel.kind}"] += 1
            listing.notes.append(f"{channel.path} is of an unknown kind and stays hidden")
        listing.put(channel)

    def _foreign(self, channel_id: str, shown: str, listing: Listing) -> None:
        if channel_id not in listing.foreign:
            listing.foreign.add(channel_id)
            listing.unknown["channel of another tenant"] += 1
            listing.notes.append(f"{shown} belongs to another tenant and is not read")


def _channel(team: Json, row: Json, into: tuple[str, ...] = ()) -> Channel:
    labels = [x.get("displayName") for x in team.get("assignedLabels") or () if x.get("displayName")]
    return Channel(
        id=str(row["id"]),
        name=row.get("displayName") or "",
        kind=row.get("membershipType") or "unknown",
        team_id=str(team["id"]),
        team_name=team.get("displayName") or "",
        team_public=str(team.get("visibility") or "").lower() == "public",
        label=row.get("sensitivityLabel") or (labels[0] if labels else None),
        into=into,
    )


def _name(team: Json) -> str:
    return str(team.get("displayName") or team["id"])
