"""Whoever the world's own rules let read an item passes the exported rule of its scope, and nobody else."""

from __future__ import annotations

import os

import pytest

from core.access import LICENCE_GATE, NOBODY
from core.principals import kind_of
from fixtures.sandbox.access import may_read
from fixtures.sandbox.references import target
from fixtures.sandbox.server import SandboxServer
from ingestion.azure_devops.connector import AzureDevOpsConnector
from tests.ingestion.azure_devops.support import (
    WORLD_NAMES,
    WORLDS,
    Store,
    closures,
    connect,
    directory_snapshot,
    is_read,
    item_refs,
    rules,
)

SHARE = int(os.environ.get("TEST_ACCESS_SHARE", "12"))


def disagreements(
    server: SandboxServer, connector: AzureDevOpsConnector, store: Store, first: int = 0, step: int = 1
) -> list[str]:
    """Person and item where the connector's rule and the oracle differ; every `step`-th item, from the `first`."""
    state = server.state
    snapshot = connector.access()
    assert snapshot.complete, snapshot.notes
    by_scope = rules(snapshot)
    counted = closures(server, snapshot, directory_snapshot(server))
    found = []
    for ref in item_refs(state)[first::step]:
        if not is_read(state, ref):
            continue
        uri = target(state, str(ref)).uri
        assert uri is not None
        item = store.items.get(uri)
        scope = item.scope if item is not None else None
        for person, principals in counted.items():
            permitted = scope is not None and by_scope.get(scope, NOBODY).permits(principals)
            expected = may_read(state, person, ref)
            if item is None and uri in store.skipped:
                continue
            if permitted != expected:
                found.append(f"{person} {ref}: oracle {expected}, connector {permitted}")
    return found


def test_every_person_passes_exactly_for_what_the_world_lets_them_read(server: SandboxServer, crawled: Store) -> None:
    connector = connect(server)
    assert disagreements(server, connector, crawled) == []
    connector.close()


@pytest.mark.parametrize("world", WORLD_NAMES)
def test_it_stays_so_after_each_event_and_what_was_read_step_by_step_equals_a_fresh_read(
    world: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with SandboxServer(WORLDS / world, tmp_path_factory.mktemp("sandbox"), remember=False) as server:
        store, connector = Store(), connect(server)
        store.sync(connector)
        for number, event in enumerate(server.world.events):
            server.state.apply(event.id)
            store.sync(connector)
            # A share of the items, another one each time; all of them at the end.
            assert disagreements(server, connector, store, number % SHARE, SHARE) == [], event.id
        assert disagreements(server, connector, store) == []
        fresh = Store()
        fresh.sync(connector)
        assert store.digests() == fresh.digests()
        connector.close()


def test_no_rule_names_an_entra_identity_by_its_azure_devops_descriptor(server: SandboxServer) -> None:
    connector = connect(server)
    snapshot = connector.access()
    containers = {c.principal for c in snapshot.containers}
    for scope in snapshot.scopes:
        for principal in scope.acl.mentioned():
            if kind_of(principal) == "ado":
                # Every Azure DevOps group that a rule names comes with its members.
                assert principal in containers
                assert principal.startswith("ado:vssgp.")
    connector.close()


def test_every_rule_has_the_three_gates_or_lets_nobody_in(server: SandboxServer) -> None:
    connector = connect(server)
    for scope in connector.access().scopes:
        assert [g.name for g in scope.acl.gates] in ([], ["project", "object", LICENCE_GATE])
    connector.close()


def test_without_the_setting_a_project_s_own_acl_opens_no_object(server: SandboxServer) -> None:
    connector = connect(server, project_acl_reaches_objects=False)
    for scope in connector.access().scopes:
        for gate in scope.acl.gates:
            if gate.name == "object":
                assert not any(layer.node.startswith(("project ", "visibility ")) for layer in gate.layers)
    connector.close()


def test_a_snapshot_is_the_same_each_time(server: SandboxServer) -> None:
    connector = connect(server)
    assert connector.access() == connector.access()
    connector.close()
