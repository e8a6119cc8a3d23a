"""Notifications of Microsoft Graph: which items, readers, places and subscriptions they are hints for.

A request is a batch that may mix subscriptions: each item proves itself by its secret, tenant and resource. Of resource
data only two facts are used: which version it is, and whether a message is a system event. What is named is read again.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from core import uris
from core.hints import Hint, HintKind
from graph.inbox import Arrival
from ingestion.webhooks.certificates import NoKeyError, ResourceKeys
from ingestion.webhooks.client_state import proves
from ingestion.webhooks.graph_resource import Resource, read_resource
from ingestion.webhooks.outcomes import Outcome, Refused
from ingestion.webhooks.validation_tokens import TokenChecker

CONNECTOR: Final = "teams"
READER: Final = "teams"
MOST_ITEMS: Final = 1000
# Opening resource data takes a millisecond and more each; of larger batches the rest is taken as if it had none.
_MOST_OPENED: Final = 200

_Text = Annotated[str, StringConstraints(max_length=1024)]
_Id = Annotated[str, StringConstraints(min_length=1, max_length=128)]


class _Item(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    subscription: _Id = Field(alias="subscriptionId")
    tenant: _Id = Field(alias="tenantId")
    state: _Text = Field(default="", alias="clientState")
    expires: datetime | None = Field(default=None, alias="subscriptionExpirationDateTime")
    lifecycle: _Id | None = Field(default=None, alias="lifecycleEvent")
    id: _Text | None = None
    change: Literal["created", "updated", "deleted"] | None = Field(default=None, alias="changeType")
    resource: _Text = ""
    data: dict[str, Any] | None = Field(default=None, alias="resourceData")
    encrypted: dict[str, Any] | None = Field(default=None, alias="encryptedContent")


@dataclass
class Notifications:
    """What a request holds: what is to be kept, the subscriptions that told it (ids), and what was refused, why."""

    arrivals: list[Arrival] = field(default_factory=list)
    subscriptions: set[str] = field(default_factory=set)
    refused: list[Refused] = field(default_factory=list)


class GraphParser:
    """Reads notifications for one tenant.

    `resources_of` knows the resource of each subscription of ours by id. `tokens` and `keys` open resource data; where
    either is None, what carries any is refused, respectively taken without it.
    """

    def __init__(
        self,
        *,
        tenant: str,
        key: str,
        max_age: timedelta,
        resources_of: Callable[[Collection[str]], Mapping[str, str]],
        tokens: TokenChecker | None,
        keys: ResourceKeys | None,
    ) -> None:
        self._tenant, self._key, self._max_age = tenant.lower(), key, max_age
        self._resources_of = resources_of
        self._tokens, self._keys = tokens, keys

    def read(self, body: Mapping[str, Any], now: datetime) -> Notifications:
        """Read a request. Raises Refused where it is none, and StoreUnavailableError where it can't be judged now."""
        rows = body.get("value")
        if not isinstance(rows, list):
            raise Refused(Outcome.MALFORMED, "no list of notifications")
        if len(rows) > MOST_ITEMS:
            raise Refused(Outcome.OVERSIZED, "too many notifications")
        found = Notifications()
        opener = _Opener(body.get("validationTokens"), self._tokens, self._keys)
        # Asked once for all: who sends this has proved nothing yet.
        wanted = {str(row["subscriptionId"]) for row in rows if _tells_lifecycle(row)}
        resources = self._resources_of(wanted) if wanted else {}
        for row in rows:
            try:
                item = self._item(row)
                arrival = self._lifecycle(item, resources) if item.lifecycle else self._change(item, opener, found, now)
                found.subscriptions.add(item.subscription)
                found.arrivals.append(arrival)
            except Refused as refusal:
                found.refused.append(refusal)
        return found

    def _lifecycle(self, item: _Item, resources: Mapping[str, str]) -> Arrival:
        resource = resources.get(item.subscription)
        if resource is None:
            raise Refused(Outcome.UNKNOWN, "a lifecycle event of a subscription that is not ours")
        if not proves(self._key, item.state, [resource]):
            raise Refused(Outcome.FORGED, "clientState is wrong")
        if item.lifecycle not in {"reauthorizationRequired", "subscriptionRemoved", "missed"}:
            raise Refused(Outcome.UNKNOWN, "a lifecycle event that nothing is made of")
        hint = Hint(connector=CONNECTOR, kind=HintKind.SUBSCRIPTION, place=item.subscription, note=item.lifecycle)
        # Nothing tells the second "missed" from a copy of the first, and each is worth a look.
        return Arrival(key=uuid.uuid4().hex, hints=(hint,))

    def _change(self, item: _Item, opener: _Opener, found: Notifications, now: datetime) -> Arrival:
        resource = read_resource(item.resource)
        if resource is None or item.change is None:
            raise Refused(Outcome.UNKNOWN, "a resource that nothing is made of")
        if not proves(self._key, item.state, resource.watched_by):
            raise Refused(Outcome.FORGED, "clientState is wrong")
        if item.expires is not None and item.expires.tzinfo is not None and now - item.expires > self._max_age:
            raise Refused(Outcome.STALE, "its subscription has ended long ago")
        content: Mapping[str, Any] = {}
        if item.encrypted is not None:
            try:
                content = opener.open(item.encrypted)
            except NoKeyError:
                why = "its certificate is none of ours; taken by its address alone"
                found.refused.append(Refused(Outcome.UNDECRYPTABLE, why))
        return Arrival(key=_key(item, content), hints=self._hints(resource, item, content))

    def _item(self, row: Any) -> _Item:
        try:
            item = _Item.model_validate(row)
        except ValidationError:
            raise Refused(Outcome.MALFORMED, "a notification without what it needs") from None
        if item.tenant.lower() != self._tenant:
            raise Refused(Outcome.WRONG_TENANT, "from another tenant than is read")
        return item

    def _hints(self, at: Resource, item: _Item, content: Mapping[str, Any]) -> tuple[Hint, ...]:
        again = Hint(connector=CONNECTOR, kind=HintKind.READER, reader=READER)
        match at.kind:
            case "message" if content.get("messageType") == "systemEventMessage":
                return (_access(uris.channel(self._tenant, at.channel)),)
            case "message":
                uri = uris.thread(self._tenant, at.channel, at.message)
                gone = item.change == "deleted" and at.reply is None
                return (Hint(connector=CONNECTOR, kind=HintKind.ITEM, reader=READER, uri=uri, gone=gone),)
            case "channel" | "team":
                # By the team: its channels are listed anew, so what is new, renamed or gone shows.
                return _access(uris.team(self._tenant, at.team)), again
            case "team_member":
                return (_access(uris.team(self._tenant, at.team)),)
            case "channel_member":
                return (_access(uris.channel(self._tenant, at.channel)),)
            case "user":
                return (_access(uris.directory(self._tenant)),)
            case "group" | "group_member":
                # A team is a group: its members are those of its standard channels, its label that of its threads.
                who = (_access(uris.directory(self._tenant)), _access(uris.team(self._tenant, at.directory_id)))
                members_only = any(name.endswith("@delta") for name in item.data or {}) or at.kind == "group_member"
                return who if members_only else (*who, again)


class _Opener:
    """Opens the resource data of one request; its tokens are checked once, and only where there is any."""

    def __init__(self, tokens: Any, checker: TokenChecker | None, keys: ResourceKeys | None) -> None:
        self._tokens, self._checker, self._keys = tokens, checker, keys
        self._verdict: Refused | None = None
        self._checked = False
        self._opened = 0

    def open(self, encrypted: Mapping[str, Any]) -> Mapping[str, Any]:
        """What an item's encrypted content holds. Raises Refused, NoKeyError, StoreUnavailableError."""
        if not self._checked:
            self._verdict = self._check()
            self._checked = True
        if self._verdict is not None:
            raise Refused(self._verdict.outcome, self._verdict.why)
        if self._keys is None:
            raise NoKeyError
        self._opened += 1
        return self._keys.open(encrypted) if self._opened <= _MOST_OPENED else {}

    def _check(self) -> Refused | None:
        if self._checker is None:
            return Refused(Outcome.FORGED, "resource data, and no client_id to check its tokens by")
        try:
            self._checker.check(self._tokens if isinstance(self._tokens, list) else [])
        except Refused as refusal:
            return refusal
        return None


def _tells_lifecycle(row: Any) -> bool:
    return isinstance(row, dict) and bool(row.get("lifecycleEvent")) and "subscriptionId" in row


def _access(place: str) -> Hint:
    return Hint(connector=CONNECTOR, kind=HintKind.ACCESS, place=place)


def _key(item: _Item, content: Mapping[str, Any]) -> str:
    """By what another copy is known. A notification that carries neither id nor version says of two edits the same,
    and may not count as a copy of itself: it is kept, and what it asks for is done once for all that wait."""
    data = item.data or {}
    version = content.get("etag") or content.get("lastModifiedDateTime") or data.get("@odata.etag")
    if item.id:
        facts: list[Any] = [item.subscription, item.id]
    elif isinstance(version, str):
        facts = [item.subscription, item.resource, item.change, version]
    else:
        return uuid.uuid4().hex
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()
