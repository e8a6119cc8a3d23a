"""What a notification of Graph names as its resource, and which subscriptions can tell of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import unquote

Kind = Literal["message", "channel", "team", "team_member", "channel_member", "user", "group", "group_member"]

_GUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_CHANNEL: Final = re.compile(r"[0-9A-Za-z:@._\-]{1,256}")
_MESSAGE: Final = re.compile(r"[0-9A-Za-z._\-]{1,128}")
_STEP: Final = re.compile(r"/?([A-Za-z]+)(?:\('((?:[^']|'')*)'\)|/([^/'()]+))(?=/|$)")
_LONGEST: Final = 1024
_KINDS: Final[dict[tuple[str, ...], Kind]] = {
    ("teams", "channels", "messages"): "message",
    ("teams", "channels", "messages", "replies"): "message",
    ("teams", "channels"): "channel",
    ("teams",): "team",
    ("teams", "members"): "team_member",
    ("teams", "channels", "members"): "channel_member",
    ("teams", "channels", "allmembers"): "channel_member",
    ("teams", "channels", "sharedwithteams"): "channel_member",
    ("users",): "user",
    ("groups",): "group",
    ("groups", "members"): "group_member",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One thing of Graph: ids of what it lies in, lower case where they are GUIDs. `message` is the root."""

    kind: Kind
    team: str = ""
    channel: str = ""
    message: str = ""
    reply: str | None = None
    directory_id: str = ""

    @property
    def watched_by(self) -> tuple[str, ...]:
        """The resources of the subscriptions that can tell of it."""
        team, channel = f"teams/{self.team}", f"teams/{self.team}/channels/{self.channel}"
        match self.kind:
            case "message":
                return "teams/getAllMessages", f"{channel}/messages"
            case "channel":
                return "teams/getAllChannels", f"{team}/channels"
            case "team":
                return "teams", team
            case "team_member":
                return "teams/getAllMembers", f"{team}/members"
            case "channel_member":
                return (
                    f"{team}/channels/getAllMembers",
                    "teams/getAllChannels/getAllMembers",
                    "teams/getAllMembers",
                    f"{channel}/sharedWithTeams",
                )
            case "user":
                return "users", f"users/{self.directory_id}"
            case "group" | "group_member":
                return "groups", f"groups/{self.directory_id}", f"groups/{self.directory_id}/members"


def read_resource(text: str) -> Resource | None:
    """Read `teams('T')/channels('C')/messages('M')` or the same with slashes; None for what is none of ours: chats,
    and whatever has ids of a shape that is not known."""
    if len(text) > _LONGEST:
        return None
    steps: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None:
            return None
        name, quoted, plain = found.groups()
        steps.append((name.lower(), quoted.replace("''", "'") if quoted is not None else unquote(plain)))
        at = found.end()
    kind = _KINDS.get(tuple(name for name, _ in steps))
    return _made(kind, [value for _, value in steps]) if kind is not None else None


def _made(kind: Kind, ids: list[str]) -> Resource | None:
    if not _GUID.fullmatch(ids[0].lower()):
        return None
    if kind in ("user", "group", "group_member"):
        return Resource(kind=kind, directory_id=ids[0].lower())
    if kind in ("team", "team_member"):
        return Resource(kind=kind, team=ids[0].lower())
    if not _CHANNEL.fullmatch(ids[1]) or (kind == "message" and not all(_MESSAGE.fullmatch(i) for i in ids[2:])):
        return None
    if kind != "message":
        return Resource(kind=kind, team=ids[0].lower(), channel=ids[1])
    reply = ids[3] if len(ids) > 3 else None
    return Resource(kind=kind, team=ids[0].lower(), channel=ids[1], message=ids[2], reply=reply)
