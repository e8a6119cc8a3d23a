"""Threads: a root message with its replies is one item, since question and answers mean something together only.

Roots come by delta; Graph has no delta for replies, but a reply makes its root come up again, and then all replies
are read anew. A delta reaches back eight months only, so the first read takes a delta link first (nothing that
changes meanwhile is missed) and then the plain list. A thread whose root was deleted goes with it: its replies quote
and answer what somebody wanted gone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import unquote, urlsplit

from core import principals, uris
from core.authority import Authority
from core.errors import SourceError, SourceGoneError, SourceNotFoundError
from core.items import Contribution, Item, ItemKind, Link, Part, PersonRef, Role, Source, TextFormat
from core.text.html import html_to_markdown
from ingestion.connector import Batch, Change, Failure, ItemDeleted, ItemUpserted, Skipped
from ingestion.teams.channels import PREFER, Channel, scope_id
from ingestion.teams.client import GraphClient

BATCH = 20
TITLE_CHARACTERS = 90
_DECIDED = re.compile(r"^\W*(?:decision|decided|besluit|besloten|agreed|afgesproken)\b", re.IGNORECASE)
_LINK = re.compile(r"\]\((https?://[^)\s]+)\)|(?<![(\w])(https?://[^\s)>\]]+)")
_WORK_ITEM_URL = re.compile(
    r"https://(?:dev\.azure\.com/(?P<org>[^/]+)|(?P<old>[^./]+)\.visualstudio\.com)/.*_workitems/edit/(?P<id>\d+)", re.I
)
# States that mean that the text may not be shown, though the message is still listed.
_BLOCKED = frozenset({"blockaccess", "blockaccessexternal", "notifysender,blockaccess"})

Json = Mapping[str, Any]


class ThreadReader:
    """Reads the threads of all channels; its checkpoint is one delta link a channel."""

    name = "teams"
    source = Source.TEAMS

    def __init__(self, client: GraphClient, tenant: str, channels: Callable[[], Sequence[Channel]]) -> None:
        self._client = client
        self._tenant = tenant
        self._channels = channels

    def read(self, checkpoint: Mapping[str, Any] | None) -> Iterator[Batch]:
        """Yield changed threads channel by channel. A channel that fails is a Failure and is read again next time; an
        expired delta link costs a full read of that channel alone."""
        links: dict[str, str] = dict((checkpoint or {}).get("delta", {}))
        channels = self._channels()
        for done, channel in enumerate(channels):
            yield from self._read_channel(channel, links, (done, len(channels)))
        live = {c.id for c in channels}
        yield Batch(
            changes=(),
            checkpoint={"delta": {k: v for k, v in links.items() if k in live}},
            progress=(len(channels), len(channels)),
        )

    def _read_channel(self, channel: Channel, links: dict[str, str], progress: tuple[int, int]) -> Iterator[Batch]:
        try:
            known = links.get(channel.id)
            if known is None:
                roots, link = self._everything(channel)
            else:
                try:
                    roots, link = self._round(known)
                except SourceGoneError:
                    roots, link = self._everything(channel)
            for start in range(0, len(roots), BATCH):
                changes = tuple(self._change(channel, root) for root in roots[start : start + BATCH])
                yield Batch(changes=changes, checkpoint={"delta": dict(links)}, progress=progress)
        except SourceError as e:
            failure = Failure(self._address(channel, ""), f"{channel.path}: {e}")
            yield Batch(changes=(failure,), checkpoint={"delta": dict(links)}, progress=progress)
            return
        if link is not None:
            links[channel.id] = link
        yield Batch(changes=(), checkpoint={"delta": dict(links)}, progress=progress)

    def fetch(self, uris_: Sequence[str]) -> Iterator[Change]:
        """Read single threads again, as they are now."""
        by_id = {c.id: c for c in self._channels()}
        for uri in uris_:
            found = re.match(r"ctx://teams/[^/]+/channels/([^/]+)/messages/([^/]*)", uri)
            channel = by_id.get(unquote(found.group(1))) if found else None
            if found is None or channel is None:
                continue
            if not found.group(2):
                yield from self._again(channel)
                continue
            try:
                root = self._client.get(f"{_path(channel)}/messages/{unquote(found.group(2))}")
            except SourceNotFoundError as e:
                yield Failure(uri, str(e), hide=True)
                continue
            yield self._change(channel, root)

    def present(self) -> Iterator[str]:
        """Addresses of all live threads. Raises SourceError where any channel can't be listed."""
        for channel in self._channels():
            for root in self._client.rows(f"{_path(channel)}/messages?$top=50", prefer=PREFER):
                if _is_speech(root) and not root.get("deletedDateTime"):
                    yield self._address(channel, root["id"])

    def _again(self, channel: Channel) -> Iterator[Change]:
        """A whole channel that failed before: recorded under the channel's own address, which is then cleared."""
        try:
            roots, _ = self._everything(channel)
        except SourceError as e:
            yield Failure(self._address(channel, ""), f"{channel.path}: {e}")
            return
        for root in roots:
            yield self._change(channel, root)
        yield ItemDeleted(self._address(channel, ""))

    def _everything(self, channel: Channel) -> tuple[list[Json], str | None]:
        try:
            _, link = self._round(f"{_path(channel)}/messages/delta?$top=50")
        except SourceGoneError:
            link = None
        except SourceError as e:
            # An empty channel may refuse to start a delta; the plain list is then all there is.
            if "unexpected answer 400" not in str(e):
                raise
            link = None
        return list(self._client.rows(f"{_path(channel)}/messages?$top=50", prefer=PREFER)), link

    def _round(self, link: str) -> tuple[list[Json], str | None]:
        """One delta round: changed roots (the last word on each), and the link for the next."""
        roots: dict[str, Json] = {}
        following = None
        for page in self._client.pages(link, prefer=PREFER):
            for row in page.get("value", ()):
                roots[row["id"]] = row
            following = page.get("@odata.deltaLink") or following
        return list(roots.values()), following

    def _change(self, channel: Channel, root: Json) -> Change:
        uri = self._address(channel, root["id"])
        if "@removed" in root or root.get("deletedDateTime"):
            return ItemDeleted(uri, _time(root.get("deletedDateTime")))
        if not _is_speech(root):
            return Skipped(uri, "system event")
        if _is_blocked(root):
            return ItemDeleted(uri)
        try:
            replies = sorted(
                self._client.rows(f"{_path(channel)}/messages/{root['id']}/replies?$top=50", prefer=PREFER),
                key=lambda m: (m.get("createdDateTime") or "", m["id"]),
            )
        except SourceNotFoundError as e:
            return Failure(uri, str(e), hide=True)
        except SourceError as e:
            return Failure(uri, str(e))
        return ItemUpserted(self._item(channel, uri, root, replies))

    def _item(self, channel: Channel, uri: str, root: Json, replies: Sequence[Json]) -> Item:
        kept = [r for r in replies if _is_speech(r) and not r.get("deletedDateTime") and not _is_blocked(r)]
        messages = [(uri, root), *((uris.reply(self._tenant, channel.id, root["id"], r["id"]), r) for r in kept)]
        parts = tuple(self._part(address, message) for address, message in messages)
        changed = [
            t for m in (root, *kept) if (t := _time(m.get("lastEditedDateTime")) or _time(m.get("createdDateTime")))
        ]
        label = next(
            (x["sensitivityLabel"] for x in (*reversed(kept), root) if x.get("sensitivityLabel")), channel.label
        )
        return Item(
            uri=uri,
            source=Source.TEAMS,
            kind=ItemKind.THREAD,
            scope=scope_id(self._tenant, channel.id),
            title=_title(root, parts[0].text),
            url=_web_url(root),
            parts=tuple(p for p in parts if p.text),
            version=_version((root, *replies)),
            created_at=_time(root.get("createdDateTime")),
            modified_at=max(changed, default=None),
            author=parts[0].author,
            authority=Authority.OBSERVED,
            container=channel.path,
            label=label,
            contributions=tuple(self._contributions(root, kept, parts)),
            links=tuple(_links(parts)),
            attributes={"channel_id": channel.id, "team_id": channel.team_id},
        )

    def _part(self, address: str, message: Json) -> Part:
        return Part(
            uri=address,
            text=_text(message),
            format=TextFormat.MARKDOWN,
            author=self._author(message),
            at=_time(message.get("createdDateTime")),
        )

    def _author(self, message: Json) -> PersonRef | None:
        sender = message.get("from") or {}
        person = sender.get("user")
        if person and person.get("id") and person.get("userIdentityType") in {None, "aadUser", "federatedUser"}:
            tenant = person.get("tenantId") or self._tenant
            return PersonRef(person.get("displayName") or "", principals.user(tenant, person["id"]))
        other = person or sender.get("application") or sender.get("device") or {}
        return PersonRef(other["displayName"]) if other.get("displayName") else None

    def _contributions(self, root: Json, kept: Sequence[Json], parts: Sequence[Part]) -> Iterator[Contribution]:
        for i, (message, part) in enumerate(zip((root, *kept), parts, strict=True)):
            if part.author is not None:
                own = parts[0].author is not None and part.author.principal == parts[0].author.principal
                role = Role.WROTE if i == 0 or own else Role.ANSWERED
                yield Contribution(person=part.author, role=role, at=part.at)
                if _DECIDED.search(part.text):
                    yield Contribution(person=part.author, role=Role.DECIDED, at=part.at)
            for mention in message.get("mentions") or ():
                person = (mention.get("mentioned") or {}).get("user") or {}
                if person.get("id"):
                    ref = PersonRef(
                        person.get("displayName") or mention.get("mentionText") or "",
                        principals.user(person.get("tenantId") or self._tenant, person["id"]),
                    )
                    yield Contribution(person=ref, role=Role.MENTIONED, at=part.at)

    def _address(self, channel: Channel, root_id: str) -> str:
        return uris.thread(self._tenant, channel.id, root_id)


def _path(channel: Channel) -> str:
    return f"/teams/{channel.team_id}/channels/{channel.id}"


def _is_speech(message: Json) -> bool:
    """A message that somebody wrote: not a system event, and not of a kind we don't know."""
    return message.get("messageType", "message") == "message" and (message.get("body") or {}).get("content") is not None


def _is_blocked(message: Json) -> bool:
    action = str((message.get("policyViolation") or {}).get("dlpAction") or "").replace(" ", "").lower()
    return action in _BLOCKED or "block" in action


def _text(message: Json) -> str:
    body = message.get("body") or {}
    content = body.get("content") or ""
    text = html_to_markdown(content) if str(body.get("contentType", "")).lower() == "html" else content
    names = [a["name"] for a in message.get("attachments") or () if a.get("name")]
    shown = [f"[attachment: {name}]" for name in names if name not in text]
    return "\n".join([text.strip(), *shown]).strip()


def _title(root: Json, text: str) -> str:
    if root.get("subject"):
        return str(root["subject"])
    line = next((" ".join(x.split()) for x in text.splitlines() if x.strip()), "")
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line).strip("*_#> ")
    if len(plain) <= TITLE_CHARACTERS:
        return plain
    return plain[:TITLE_CHARACTERS].rsplit(" ", 1)[0] + " …"


def _web_url(root: Json) -> str:
    return str(root.get("webUrl") or "")


def _version(messages: Sequence[Json]) -> str:
    """Milliseconds of the latest change, deletions among replies included: comparable as a number."""
    times = [
        t
        for m in messages
        for key in ("lastModifiedDateTime", "lastEditedDateTime", "deletedDateTime", "createdDateTime")
        if (t := _time(m.get(key)))
    ]
    return str(int(max(times).timestamp() * 1000)) if times else "0"


def _links(parts: Sequence[Part]) -> Iterator[Link]:
    seen: set[str] = set()
    for part in parts:
        for match in _LINK.finditer(part.text):
            url = (match.group(1) or match.group(2)).rstrip(".,;")
            target = _address_of(url)
            if target not in seen and urlsplit(url).netloc:
                seen.add(target)
                yield Link(to=target, rel="mentions")


def _address_of(url: str) -> str:
    """The address of a work item whose URL says all that is needed; any other URL as it is."""
    found = _WORK_ITEM_URL.match(url)
    if found is None:
        return url
    return uris.work_item(found.group("org") or found.group("old"), int(found.group("id")))


def _time(text: Any) -> datetime | None:
    if not text:
        return None
    at = datetime.fromisoformat(str(text))
    return at if at.tzinfo else None
