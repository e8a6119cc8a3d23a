"""A live sandbox, a connector on it, and what a person counts as by the connector's own snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from core import principals
from core.access import ScopeAcl, ScopeId
from core.directory import PersonKind
from core.items import Item
from core.principals import Principal
from core.settings import AzureDevOpsSettings, GraphSettings
from fixtures.sandbox.refs import Ref
from fixtures.sandbox.server import SandboxServer
from fixtures.sandbox.state import SandboxState
from ingestion.azure_devops.client import AdoClient
from ingestion.azure_devops.connector import AzureDevOpsConnector
from ingestion.connector import AccessSnapshot, Batch, Failure, ItemDeleted, ItemUpserted, Reader, Skipped
from ingestion.teams.connector import TeamsConnector

WORLDS = Path(__file__).resolve().parents[3] / "fixtures" / "worlds"
WORLD_NAMES = ("contoso", "havenlicht")
KINDS = frozenset({"work_item", "page", "file", "commit", "pr"})


def settings_for(server: SandboxServer, **changes: Any) -> AzureDevOpsSettings:
    """Settings that point at a sandbox, as the composition root makes them."""
    values: dict[str, Any] = {
        "organization": server.state.organization,
        "base_url": server.ado_url,
        "pat": "sandbox-pat",
        "tenant": str(server.state.tenant_id),
        "project_acl_reaches_objects": True,
    }
    return AzureDevOpsSettings(**{**values, **changes})


def connect(server: SandboxServer, sleeps: list[float] | None = None, **changes: Any) -> AzureDevOpsConnector:
    """A connector that never really sleeps; what it would have slept is put into `sleeps`."""
    settings = settings_for(server, **changes)
    kept = sleeps if sleeps is not None else []
    client = AdoClient(settings, sleep=kept.append, jitter=lambda: 0.0, now=lambda: 0.0)
    return AzureDevOpsConnector(settings, client=client)


@dataclass
class Store:
    """What a sync would keep: items, checkpoints, failures, and what was left out."""

    items: dict[str, Item] = field(default_factory=dict)
    checkpoints: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)
    upserts: int = 0

    def take(self, reader: Reader, batch: Batch) -> None:
        """Commit one batch: its changes, then its checkpoint."""
        for change in batch.changes:
            match change:
                case ItemUpserted(item):
                    self.items[item.uri] = item
                    self.failures.pop(item.uri, None)
                    self.hidden.discard(item.uri)
                    self.upserts += 1
                case ItemDeleted(uri):
                    self.items.pop(uri, None)
                    self.failures.pop(uri, None)
                case Failure(uri, _, hide):
                    self.failures[uri] = change
                    if hide:
                        self.hidden.add(uri)
                case Skipped(uri, reason):
                    self.skipped[uri] = reason
        self.checkpoints[reader.name] = batch.checkpoint

    def sync(self, connector: AzureDevOpsConnector, names: Iterable[str] | None = None) -> None:
        """Run readers from their checkpoints to the end, and reconcile."""
        for reader in connector.readers():
            if names is not None and reader.name not in set(names):
                continue
            self.drain(reader)
            present = set(reader.present() or ())
            for uri in [u for u, i in self.items.items() if i.source is reader.source and u not in present]:
                del self.items[uri]

    def drain(self, reader: Reader) -> None:
        """Run one reader from its checkpoint until it ends or breaks off."""
        for batch in reader.read(self.checkpoints.get(reader.name)):
            self.take(reader, batch)

    def digests(self) -> dict[str, tuple[str, str]]:
        """Digest and scope of every item, for comparison with another store.

        Links are left out: a link by name is resolved when its text is read, so one that was read before the target
        was renamed still leads to it, where a fresh read finds a dead name.
        """
        bare = {uri: replace(item, links=(), replaced_by=()) for uri, item in sorted(self.items.items())}
        return {uri: (item.digest, item.scope) for uri, item in bare.items()}


def reader_of(connector: AzureDevOpsConnector, name: str) -> Reader:
    """The reader with this name."""
    return next(r for r in connector.readers() if r.name == name)


def item_refs(state: SandboxState, kinds: Iterable[str] = KINDS) -> list[Ref]:
    """References to all items of Azure DevOps that the world knows, deleted ones too."""
    return [ref for ref in state.everything() if ref.kind in set(kinds)]


def is_read(state: SandboxState, ref: Ref) -> bool:
    """Whether an item is of a kind that is read: commits only once they have reached the default branch."""
    if ref.kind != "commit":
        return True
    sha = state.ids.commit(*ref.parts)
    return any(c.sha == sha for c in state.git(ref.parts[0]).history())


def directory_snapshot(server: SandboxServer) -> AccessSnapshot:
    """People, groups and teams as the Teams connector reads them from Graph."""
    state = server.state
    settings = GraphSettings(
        base_url=server.graph_url,
        token_url=f"{server.base_url}/oidc/{state.tenant_id}/oauth2/v2.0/token",
        tenant=str(state.tenant_id),
        client_id="context-engine-connector",
        client_secret=SecretStr("sandbox-secret"),
        public_teams_open=True,
    )
    connector = TeamsConnector(settings)
    snapshot = connector.access()
    connector.close()
    return snapshot


def closures(server: SandboxServer, *snapshots: AccessSnapshot) -> dict[str, frozenset[Principal]]:
    """Everything that each person of the world counts as, by the connectors' snapshots alone.

    An account that is not enabled counts as nobody.
    """
    state = server.state
    tenant = str(state.tenant_id)
    people = {p.principal: p for snapshot in snapshots for p in snapshot.people}
    containers = {c.principal: c.members or frozenset() for snapshot in snapshots for c in snapshot.containers}
    found: dict[str, frozenset[Principal]] = {}
    for key in state.world.people:
        own = principals.user(tenant, state.oid(key))
        person = people.get(own)
        if person is None or not person.enabled:
            found[key] = frozenset()
            continue
        counted = {own, principals.anyone(tenant)}
        if person.kind is PersonKind.MEMBER:
            counted.add(principals.everyone(tenant))
        while fresh := {p for p, members in containers.items() if p not in counted and members & counted}:
            counted |= fresh
        found[key] = frozenset(counted)
    return found


def rules(snapshot: AccessSnapshot) -> dict[ScopeId, ScopeAcl]:
    """The rule of each scope."""
    return {scope.id: scope.acl for scope in snapshot.scopes}
