"""One thread as an item: a root message with its replies, since question and answers mean something together only."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote, urlsplit

from core import uris
from core.authority import Authority
from core.items import Contribution, Item, ItemKind, Link, Part, Role, Source, TextFormat
from ingestion.teams.channels import Channel
from ingestion.teams.labels import most_sensitive
from ingestion.teams.people import People
from ingestion.teams.rosters import scope_id
from ingestion.teams.speech import is_gone, is_speech
from ingestion.teams.text import Words, attached_urls, words_of

TITLE_CHARACTERS: Final = 90
_DECIDED = re.compile(r"^\W*(?:decision|decided|besluit|besloten|agreed|afgesproken)\b", re.IGNORECASE)
_LINK = re.compile(r"\]\((https?://[^)\s]+)\)|(?<![(\w])(https?://[^\s)>\]]+)")
_WORK_ITEM_URL = re.compile(
    r"https://(?:dev\.azure\.com/(?P<org>[^/]+)|(?P<old>[^./]+)\.visualstudio\.com)/.*_workitems/edit/(?P<id>\d+)", re.I
)

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Message:
    """A message that may be shown, read."""

    uri: str
    row: Json
    words: Words


class ThreadWriter:
    """Makes items of the threads of one tenant. `labels` are all sensitivity labels, least sensitive first."""

    def __init__(self, tenant: str, people: People, labels: tuple[str, ...] = ()) -> None:
        self._tenant = tenant
        self._people = people
        self._labels = labels

    def item(self, channel: Channel, root: Json, replies: Sequence[Json]) -> Item | None:
        """Return the thread as an item; None where nothing in it has any text.

        `replies` in any order, doubles allowed. Raises ValueError, TypeError or KeyError for a shape that Graph does
        not document.
        """
        listed = sorted({r["id"]: r for r in replies}.values(), key=lambda r: (_time(r, "createdDateTime"), r["id"]))
        uri = uris.thread(self._tenant, channel.id, root["id"])
        messages = [_Message(uri, root, words_of(root))]
        for row in listed:
            if is_speech(row) and not is_gone(row):
                address = uris.reply(self._tenant, channel.id, root["id"], row["id"])
                messages.append(_Message(address, row, words_of(row)))
        parts = tuple(self._part(m) for m in messages)
        if not any(part.text for part in parts):
            return None
        return Item(
            uri=uri,
            source=Source.TEAMS,
            kind=ItemKind.THREAD,
            scope=scope_id(self._tenant, channel.id),
            title=_title(messages),
            url=_web_url(self._tenant, channel, root),
            parts=tuple(part for part in parts if part.text),
            version=_version((root, *listed)),
            created_at=_at(root, "createdDateTime"),
            modified_at=max((t for m in messages if (t := _said_at(m.row))), default=None),
            author=parts[0].author,
            authority=Authority.OBSERVED,
            container=channel.path,
            label=most_sensitive((m.row.get("sensitivityLabel") or channel.label for m in messages), self._labels),
            contributions=tuple(self._contributions(messages, parts)),
            links=tuple(_links(messages)),
            attributes=_attributes(channel, messages),
        )

    def _part(self, message: _Message) -> Part:
        return Part(
            uri=message.uri,
            text=message.words.all,
            format=TextFormat.MARKDOWN,
            author=self._people.sender(message.row),
            at=_at(message.row, "createdDateTime"),
        )

    def _contributions(self, messages: Sequence[_Message], parts: Sequence[Part]) -> Iterator[Contribution]:
        for message, part in zip(messages, parts, strict=True):
            if part.author is not None:
                asked = parts[0].author
                own = part is parts[0] or (asked is not None and part.author.principal == asked.principal)
                yield Contribution(person=part.author, role=Role.WROTE if own else Role.ANSWERED, at=part.at)
                if _DECIDED.search(message.words.own):
                    yield Contribution(person=part.author, role=Role.DECIDED, at=part.at)
            for person in self._people.mentioned(message.row):
                yield Contribution(person=person, role=Role.MENTIONED, at=part.at)


def _attributes(channel: Channel, messages: Sequence[_Message]) -> dict[str, str]:
    """Facts beside the text: where it is, how often anybody reacted, and what wrote it where that is no person."""
    facts = {"channel_id": channel.id, "team_id": channel.team_id}
    reactions = sum(len(m.row.get("reactions") or ()) for m in messages)
    if reactions:
        facts["reactions"] = str(reactions)
    sender = messages[0].row.get("from") or {}
    kind = next((k for k in ("user", "application", "device") if sender.get(k)), "user")
    return facts if kind == "user" else {**facts, "author_kind": kind}


def _title(messages: Sequence[_Message]) -> str:
    """The subject, else the first line that anybody says; of a quote or attachment where there is nothing else."""
    subject = " ".join(str(messages[0].row.get("subject") or "").split())
    if subject:
        return subject
    texts = [m.words.own for m in messages[:1]] + [m.words.all for m in messages]
    line = next((" ".join(x.split()) for text in texts for x in text.splitlines() if x.strip()), "")
    plain = re.sub(r"\*\*|~~", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line)).strip("*_#> ")
    if len(plain) <= TITLE_CHARACTERS:
        return plain
    return plain[:TITLE_CHARACTERS].rsplit(" ", 1)[0] + " …"


def _web_url(tenant: str, channel: Channel, root: Json) -> str:
    if root.get("webUrl"):
        return str(root["webUrl"])
    where = f"{quote(channel.id, safe='')}/{root['id']}"
    return f"https://teams.microsoft.com/l/message/{where}?groupId={channel.team_id}&tenantId={tenant}"


def _version(messages: Sequence[Json]) -> str:
    """Changes with any message, reactions and deletions too. It is no number on purpose: a reply that was removed for
    good leaves a thread whose newest time is older than before, and yet is the newer state."""
    marks = [(m["id"], m.get("etag") or m.get("lastModifiedDateTime"), m.get("deletedDateTime")) for m in messages]
    return "v" + hashlib.sha256(json.dumps(marks).encode()).hexdigest()[:24]


def _links(messages: Sequence[_Message]) -> Iterator[Link]:
    seen: set[str] = set()
    for message in messages:
        written = [m.group(1) or m.group(2) for m in _LINK.finditer(message.words.all)]
        for url in [*(x.rstrip(".,;:!?") for x in written), *attached_urls(message.row)]:
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


def _said_at(message: Json) -> datetime | None:
    """When the text became what it is: a reaction moves other times, and says nothing new."""
    return _at(message, "lastEditedDateTime") or _at(message, "createdDateTime")


def _time(message: Json, name: str) -> float:
    at = _at(message, name)
    return at.timestamp() if at else 0.0


def _at(message: Json, name: str) -> datetime | None:
    text = message.get(name)
    if not text:
        return None
    at = datetime.fromisoformat(str(text))
    return at if at.tzinfo else None
