"""Reads again who may read single places, as a hint names them, and leaves everything else as it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final
from urllib.parse import unquote

from ingestion.teams.channels import Channel, ChannelLister, Listing
from ingestion.teams.client import GraphClient
from ingestion.teams.known import Known
from ingestion.teams.rosters import Rosters, read_rosters, scope_of

_PLACE: Final = re.compile(r"ctx://teams/(?P<tenant>[^/]+)/(?P<kind>channels|teams)/(?P<id>[^/]+)")


class Places:
    """Rosters of single channels and teams. A place that is gone is nobody's from now on."""

    def __init__(
        self, client: GraphClient, tenant: str, lister: ChannelLister, known: Known, *, public_teams_open: bool
    ) -> None:
        self._client, self._tenant = client, tenant
        self._lister, self._known = lister, known
        self._public_teams_open = public_teams_open

    def read(self, places: Iterable[str]) -> Rosters | None:
        """Read the rosters of these places; None where one of them is no place of this tenant, or is not known here and
        can't be told from a channel that was there. Raises SourceError."""
        before = self._known.peek()
        channels: dict[str, Channel] = {}
        gone: dict[str, Channel] = {}
        for place in places:
            found = _PLACE.fullmatch(place)
            if found is None or found["tenant"] != self._tenant:
                return None
            name = unquote(found["id"])
            here = self._channel(name, before) if found["kind"] == "channels" else self._team(name, before)
            if here is None:
                return None
            channels |= {c.id: c for c in here[0]}
            gone |= {c.id: c for c in here[1]}
        return self._rosters(channels, gone)

    def _channel(self, channel_id: str, before: Listing | None) -> tuple[Sequence[Channel], Sequence[Channel]] | None:
        """A channel as it is known, where its roster alone says who may read it; otherwise as it is listed now."""
        known = before.get(channel_id) if before is not None else None
        if known is not None and not self._hangs_on_a_team(known):
            return (known,), ()
        listing = self._known.renew()
        channel = listing.get(channel_id)
        if channel is not None:
            return (channel,), ()
        if before is None or listing.broken or (known is not None and listing.refused):
            return None  # nobody can tell it from one that is there, or was there
        return (), (() if known is None else (known,))

    def _hangs_on_a_team(self, channel: Channel) -> bool:
        """Whether a team's visibility opens it, or another team lets it in: another process may know better by now."""
        return bool(channel.into) or (self._public_teams_open and channel.kind == "standard")

    def _team(self, team_id: str, before: Listing | None) -> tuple[Sequence[Channel], Sequence[Channel]] | None:
        """A team's channels as they are listed now, and those that it no longer has."""
        listing = self._lister.list_team(team_id)
        if before is None or (listing is not None and listing.broken):
            return None
        now = {} if listing is None else listing.channels | listing.hidden
        known = {c.id: c for c in before.of_team(team_id)}
        if listing is not None and listing.refused:
            known = {k: c for k, c in known.items() if not c.into}  # nobody tells whether they still come in
        if any(_named(before.get(k)) != _named(c) for k, c in now.items()) or known.keys() - now.keys():
            self._known.forget()
        # A channel that still comes in by another team is not gone.
        gone = [c for k, c in known.items() if k not in now and not _elsewhere(c, team_id)]
        return list(now.values()), gone

    def _rosters(self, channels: dict[str, Channel], gone: dict[str, Channel]) -> Rosters | None:
        wanted = [c for c in channels.values() if c.id not in gone]
        rosters = read_rosters(self._client, self._tenant, wanted, public_teams_open=self._public_teams_open)
        if rosters.missing:
            return None  # it may be no more, which is for the lists to say
        rosters.scopes += [scope_of(self._tenant, c) for c in gone.values()]
        return rosters


def _named(channel: Channel | None) -> Channel | None:
    """A channel without the ways by which it comes in, of which one team alone does not tell all."""
    return replace(channel, into=()) if channel is not None else None


def _elsewhere(channel: Channel, team_id: str) -> bool:
    return bool(set(map(str.lower, channel.into)) - {team_id.lower()})
