"""Messages as Graph writes them, and the item that a thread of them becomes."""

from __future__ import annotations

import json
from typing import Any

from core import principals
from core.items import Item
from ingestion.teams.channels import Channel
from ingestion.teams.people import People
from ingestion.teams.threads import ThreadWriter
from tests.ingestion.teams.support import TENANT

CHANNEL = Channel("19:gen@thread.tacv2", "General", "standard", "team-1", "Nord", False, "internal")
IRIS = principals.user(TENANT, "oid-iris")
LABELS = ("public", "internal", "secret")
Json = dict[str, Any]


def user(name: str = "iris", **more: Any) -> Json:
    """A sender."""
    identity = {"id": f"oid-{name}", "displayName": name.title(), "userIdentityType": "aadUser", "tenantId": TENANT}
    return {"user": {**identity, **more}, "application": None, "device": None}


def message(id_: str = "1", content: str | None = "hello", *, html: bool = False, **more: Any) -> Json:
    """A message as Graph writes it."""
    return {
        "id": id_,
        "etag": id_,
        "messageType": "message",
        "createdDateTime": f"2031-01-0{id_[0]}T09:00:00.123Z",
        "lastEditedDateTime": None,
        "deletedDateTime": None,
        "from": user(),
        "body": {"contentType": "html" if html else "text", "content": content},
        "attachments": [],
        "mentions": [],
        **more,
    }


def item_of(root: Json, *replies: Json, channel: Channel = CHANNEL, names: dict[Any, str] | None = None) -> Item:
    """The thread's item."""
    made = ThreadWriter(TENANT, People(TENANT, lambda: names or {}), LABELS).item(channel, root, replies)
    assert made is not None
    return made


def text_of(content: str, **more: Any) -> str:
    """The text of one HTML message."""
    return item_of(message(content=content, html=True, **more)).parts[0].text


def attached(kind: str, content: object, **more: Any) -> Json:
    """An attachment with JSON in it."""
    return {"id": "a1", "contentType": kind, "content": json.dumps(content), "name": None, "contentUrl": None, **more}
