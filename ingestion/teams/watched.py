"""Which resources of Graph are to be told of, for how long at most, and by what a change of them is known.

Facts: Microsoft Graph documentation, "Change notifications for Teams resources", "Subscription lifetime".
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from ingestion.teams.channels import Channel

_TEAMS_LIFE: Final = timedelta(minutes=4320)
_DIRECTORY_LIFE: Final = timedelta(minutes=41760)
# Clocks differ, and what is beyond the maximum is refused.
_MARGIN: Final = timedelta(minutes=5)
_DIRECTORY: Final = ("/users", "/groups")


def wanted(allowed: Iterable[str], channels: Iterable[Channel]) -> list[str]:
    """The resources to subscribe to, for teams that are `allowed` (`*` all) and the channels that are read.

    Tenant-wide ones where everything is read; members of private and shared channels are told by team only.
    """
    known = list(channels)
    with_own_rosters = sorted({c.team_id for c in known if c.kind != "standard"})
    found = [*_DIRECTORY, *(f"/teams/{team}/channels/getAllMembers" for team in with_own_rosters)]
    if "*" in set(allowed):
        return [*found, "/teams", "/teams/getAllChannels", "/teams/getAllMembers", "/teams/getAllMessages"]
    # A team that only shares a channel into one of ours is not read.
    for team in sorted({c.team_id for c in known if not c.into}):
        found += [f"/teams/{team}", f"/teams/{team}/channels", f"/teams/{team}/members"]
    return [*found, *sorted(f"{c.url}/messages" for c in known)]


def life(resource: str) -> timedelta:
    """For how long a subscription to it is asked for."""
    return (_DIRECTORY_LIFE if resource in _DIRECTORY else _TEAMS_LIFE) - _MARGIN


def changes(resource: str) -> str:
    """What it is told of; an account or group that is new comes as an update."""
    return "updated,deleted" if resource in _DIRECTORY else "created,updated,deleted"


def tells_messages(resource: str) -> bool:
    """Whether it tells of messages."""
    return resource.lower().endswith(("/messages", "/getallmessages"))
