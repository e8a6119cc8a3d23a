"""A live sandbox, a connector on it, what a sync would keep, and small worlds made of plain data."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from context_engine.worlds import world_settings
from core import uris
from core.items import Item
from core.principals import Principal, user
from core.settings import GraphSettings
from fixtures.sandbox.graph.http import GraphSettings as Paging
from fixtures.sandbox.refs import Ref
from fixtures.sandbox.server import SandboxServer
from fixtures.sandbox.world_models import World
from ingestion.connector import (
    AccessSnapshot,
    Batch,
    Change,
    Failure,
    ItemDeleted,
    ItemUpserted,
    Reader,
    Skipped,
    Unlisted,
)
from ingestion.teams.client import GraphClient
from ingestion.teams.connector import TeamsConnector

WORLDS = Path(__file__).resolve().parents[3] / "fixtures" / "worlds"
WORLD_NAMES = ("contoso", "havenlicht")
TENANT = "5a0b8f4c-7d1e-4b69-8c55-0e2f6d9a1b37"
FOREIGN = "c0ffee00-1111-4222-8333-444455556666"
AT = "2031-01-10T09:00:00Z"
Data = dict[str, Any]
# Takes the path and the JSON of an answer and gives what arrives instead; None: as it was.
Rewrite = Callable[[str, Data], Any]


class Rewriting(httpx.BaseTransport):
    """Carries requests to the sandbox and lets a test change what comes back, for what no sandbox does by itself."""

    def __init__(self, rewrite: Rewrite) -> None:
        self.rewrite: Rewrite = rewrite
        self._real = httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = self._real.handle_request(request)
        answer.read()
        answer.close()
        path = request.url.path.partition("/graph/v1.0")[2]
        is_json = "json" in answer.headers.get("content-type", "")
        if not path or answer.status_code != 200 or not is_json:
            return answer
        changed = self.rewrite(path, json.loads(answer.content))
        if changed is None:
            return answer
        if isinstance(changed, httpx.Response):
            return changed
        return httpx.Response(200, json=changed, request=request)

    def close(self) -> None:
        self._real.close()


def as_is(path: str, data: Data) -> None:
    """Change nothing."""


def without_replies(path: str, data: Data) -> Data | None:
    """Graph does not give the replies with their root."""
    if not path.endswith("/messages"):
        return None
    return {**data, "value": [{k: v for k, v in row.items() if k != "replies"} for row in data["value"]]}


@dataclass
class Live:
    """A sandbox with a connector on it. `waits` are the seconds that the client would have slept."""

    server: SandboxServer
    settings: GraphSettings
    client: GraphClient
    connector: TeamsConnector
    transport: Rewriting
    waits: list[float]

    @property
    def graph(self) -> str:
        """The path that Graph is below, for faults."""
        return "/graph/v1.0"

    def channel_id(self, team: str, channel: str) -> str:
        """A channel's id."""
        return self.server.state.channel_id(team, channel)

    def thread(self, team: str, channel: str, key: str) -> str:
        """The address of a thread."""
        return self._address(team, channel, key)[0]

    def reply(self, team: str, channel: str, key: str) -> str:
        """The address of a reply."""
        return self._address(team, channel, key)[1]

    def _address(self, team: str, channel: str, key: str) -> tuple[str, str]:
        now = self.server.state.message(team, channel, key)
        tenant, where = self.server.state.tenant_id, self.channel_id(team, channel)
        thread = uris.thread(tenant, where, now.root_id or now.id)
        return thread, uris.reply(tenant, where, now.root_id, now.id) if now.root_id else thread

    def principal(self, person: str) -> Principal:
        """A person's principal."""
        return user(self.server.state.tenant_id, self.server.state.oid(person))

    def afresh(self) -> Live:
        """The world as it was at first, without faults, and a connector that knows nothing of it yet."""
        self.server.state.reset()
        self.server.faults.clear()
        self.transport.rewrite = as_is
        self.waits.clear()
        self.connector = self.again()
        return self

    def again(self) -> TeamsConnector:
        """A connector as a new process would make it."""
        return TeamsConnector(self.settings, labels=tuple(self.server.state.world.labels), client=self.client)

    def again_with_access(self) -> TeamsConnector:
        """A connector as a new process would make it, that has read permissions."""
        connector = self.again()
        connector.access()
        return connector


@contextmanager
def live(
    world: World | Path, data: Path, *, page: int = 5, messages_page: int = 20, rewrite: Rewrite = as_is, **changes: Any
) -> Iterator[Live]:
    """Serve a world, and connect to it with a client that never really sleeps."""
    paging = Paging(page=page, messages_page=messages_page)
    with SandboxServer(world, data, graph=paging, remember=False) as server:
        settings = world_settings(server, data).graph
        assert settings is not None
        settings = settings.model_copy(update=changes)
        waits: list[float] = []
        transport = Rewriting(rewrite)
        client = GraphClient(settings, sleep=waits.append, jitter=lambda: 0.0, transport=transport)
        connector = TeamsConnector(settings, labels=tuple(server.state.world.labels), client=client)
        try:
            yield Live(server, settings, client, connector, transport, waits)
        finally:
            connector.close()


@dataclass
class Kept:
    """What a sync would keep of the batches of a reader."""

    items: dict[str, Item] = field(default_factory=dict)
    checkpoint: Mapping[str, Any] | None = None
    failures: dict[str, Failure] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    upserted: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)

    def take(self, batch: Batch) -> None:
        """Commit one batch: its changes, then its checkpoint."""
        for change in batch.changes:
            self.change(change)
        self.checkpoint = json.loads(json.dumps(batch.checkpoint))

    def change(self, change: Change) -> None:
        """Take one change over."""
        match change:
            case ItemUpserted(item):
                self.items[item.uri] = item
                self.failures.pop(item.uri, None)
                self.upserted.append(item.uri)
            case ItemDeleted(uri):
                self.items.pop(uri, None)
                self.failures.pop(uri, None)
                self.deleted.append(uri)
            case Failure(uri, _, _):
                self.failures[uri] = change
            case Skipped(uri, reason):
                self.skipped[uri] = reason

    def sync(self, connector: TeamsConnector) -> AccessSnapshot:
        """Permissions, then what failed before, then the changes, then what is no longer there."""
        snapshot = connector.access()
        self.upserted.clear()
        self.deleted.clear()
        (reader,) = connector.readers()
        for change in list(reader.fetch(sorted(self.failures))):
            self.change(change)
        self.read(reader)
        present = set(reader.present() or ())
        beginnings = tuple(x.prefix for x in present if isinstance(x, Unlisted))
        for uri in [u for u in self.items if u not in present and not u.startswith(beginnings)]:
            del self.items[uri]
        return snapshot

    def read(self, reader: Reader, batches: int | None = None) -> None:
        """Read from the checkpoint to the end, or until so many batches were committed."""
        for n, batch in enumerate(reader.read(self.checkpoint)):
            if n == batches:
                return
            self.take(batch)

    def digests(self) -> dict[str, str]:
        """What can be compared at a glance."""
        return {uri: item.digest for uri, item in sorted(self.items.items())}

    def texts(self) -> list[str]:
        """What all messages say, sorted."""
        return sorted(part.text for item in self.items.values() for part in item.parts)

    def only(self) -> Item:
        """The one item there is."""
        (item,) = self.items.values()
        return item


def closure(snapshot: AccessSnapshot, person: Principal) -> frozenset[Principal]:
    """Everything that a person counts as by the connector's own containers; an account that is not enabled is nobody,
    which is for identity to say."""
    account = next((p for p in snapshot.people if p.principal == person), None)
    if account is None or not account.enabled:
        return frozenset()
    found = {person}
    grew = True
    while grew:
        fresh = {c.principal for c in snapshot.containers if c.members and c.members & found} - found
        grew = bool(fresh)
        found |= fresh
    return frozenset(found)


def message_refs(server: SandboxServer) -> list[Ref]:
    """Every message and reply that the world knows, deleted ones too."""
    return [
        Ref("message", (team, channel, key))
        for (team, channel), messages in server.state.lookup.messages.items()
        for key in messages
    ]
