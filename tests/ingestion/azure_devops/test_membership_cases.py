"""Cases that went wrong elsewhere, each through the sandbox: who belongs to what."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

from context_engine.stores import Index
from context_engine.wiring import build_connectors, build_synchronizer
from context_engine.worlds import world_settings
from core import principals
from core.embedding.port import Embedder
from core.index.edge import EdgeIndex
from core.principals import Principal, issue_asker
from fixtures.sandbox.graph.http import GraphSettings
from fixtures.sandbox.server import SandboxServer
from fixtures.sandbox.world import build_world
from graph.db import Database
from graph.directory import DirectoryStore
from graph.records import ItemStore
from graph.scopes import ScopeStore
from query.principals import PrincipalResolver
from tests.ingestion.azure_devops.case_world import OPEN, ado, cut, wi, world
from tests.ingestion.azure_devops.support import connect
from tests.sandbox.small import TENANT, allow


def nested() -> dict[str, Any]:
    """Iris in 250 groups directly, and in three that lie in each other, the last in the first again."""
    chain = {
        "l1": {"name": "L1", "members": ["iris", "group:l3"]},
        "l2": {"name": "L2", "members": ["group:l1"]},
        "l3": {"name": "L3", "members": ["group:l2"]},
    }
    direct = {f"d{n}": {"name": f"D{n}", "members": ["iris"]} for n in range(250)}
    project = {"acl": OPEN, "areas": cut("group:l3"), "work_items": [wi(15)]}
    devops = {"organization": "NovaRuud", "projects": {"Nest": project}}
    return world(groups=chain | direct, azure_devops=devops, events=[])


def test_nested_groups_and_those_on_later_pages_count_and_cycles_end(
    ingest_db: Database, embedder: Embedder, tmp_path: Path
) -> None:
    """C015"""
    with SandboxServer(build_world(nested()), tmp_path, remember=False, graph=GraphSettings(page=100)) as server:
        sync_access(server, ingest_db, embedder, tmp_path, content=True)
        who, other = (principals.user(TENANT, server.state.oid(key)) for key in ("iris", "teo"))
    directory = DirectoryStore(ingest_db, required=("teams", "azure_devops"))
    counted = directory.closure(who)
    everybody = names(ingest_db, "Everyone")
    groups = {x for x in counted if principals.kind_of(x) == "group"}
    # The world's own group of all its members comes on top.
    assert groups - everybody == {x for letter in "DL" for x in names(ingest_db, f"{letter}%")} - everybody
    assert len(groups - everybody) == 253
    assert {principals.kind_of(x) for x in counted} == {"group", "user", "everyone", "anyone", "licence"}
    with ingest_db.connection() as connection:
        row = connection.execute("SELECT allowed FROM scopes WHERE kind = 'area'").fetchone()
    assert row is not None
    assert set(row["allowed"]) <= groups
    assert shown(ingest_db, directory, who) == ["ctx://ado/novaruud/work-items/15"]
    assert shown(ingest_db, directory, other) == []


def shown(database: Database, directory: DirectoryStore, who: Principal) -> list[str]:
    """Addresses of all items that somebody is shown."""
    scopes = ScopeStore(database, revocation_limit=timedelta(days=1))
    asker = issue_asker(principal=who, tenant=TENANT, agent=None, scopes=frozenset())
    trim = scopes.trim_for(PrincipalResolver(directory, scopes).resolve(asker))
    with database.connection() as connection:
        uris = [r["uri"] for r in connection.execute("SELECT uri FROM items ORDER BY uri").fetchall()]
    assert uris
    return sorted(ItemStore(database).visible(trim, uris))


def names(database: Database, pattern: str) -> set[Principal]:
    """Directory groups whose name is like that."""
    with database.connection() as connection:
        rows = connection.execute("SELECT principal FROM containers WHERE name LIKE %s AND kind = 'group'", [pattern])
        return {Principal(r["principal"]) for r in rows}


def sync_access(
    server: SandboxServer, database: Database, embedder: Embedder, folder: Path, *, content: bool = False
) -> dict[str, str]:
    """Read permissions of both sources; the state of each run. `content`: read the items too, before that."""
    settings = world_settings(server, folder, {"revocation_sla": 86_400})
    with tempfile.TemporaryDirectory() as index_folder:
        edge = EdgeIndex(Path(index_folder), embedder=embedder.name, size=embedder.size)
        synchronizer = build_synchronizer(settings, database, Index(edge.reader, edge.writer, edge.close), embedder)
        connectors = build_connectors(settings)
        try:
            if content:
                synchronizer.sync(connectors)
            return {c.name: synchronizer.sync_access(c).state for c in connectors}
        finally:
            for connector in connectors:
                connector.close()
            edge.close()


def members(database: Database) -> dict[str, set[Principal]]:
    """Rows of the two groups of Azure DevOps that the world has, by the end of their name."""
    with database.connection() as connection:
        rows = connection.execute(
            "SELECT c.name, m.member FROM containers c LEFT JOIN memberships m ON m.container = c.principal "
            "AND m.source = c.source WHERE c.kind = 'azure_devops_group'"
        ).fetchall()
    found: dict[str, set[Principal]] = {}
    for row in rows:
        held = found.setdefault(row["name"].rpartition("\\")[2], set())
        if row["member"]:
            held.add(row["member"])
    return found


def test_a_refused_list_of_members_deletes_none_and_a_whole_one_without_the_group_does(
    ingest_db: Database, embedder: Embedder, tmp_path: Path
) -> None:
    """C019"""
    groups = {"tug": ado("Tug", "iris"), "nord": ado("Nord", "teo")}
    project = {"acl": OPEN, "areas": cut("group:tug", "group:nord"), "work_items": [wi(1)]}
    events = [{"id": "e", "after": "1m", "set_acl": {"on": "area:T", "acl": allow("group:nord")}}]
    devops = {"organization": "NovaRuud", "projects": {"T": project}}
    made = build_world(world(groups=groups, azure_devops=devops, events=events))
    with SandboxServer(made, tmp_path, remember=False) as server:
        iris, teo = (principals.user(TENANT, server.state.oid(k)) for k in ("iris", "teo"))
        both = {"Tug": {iris}, "Nord": {teo}}
        assert set(sync_access(server, ingest_db, embedder, tmp_path).values()) == {"complete"}
        assert members(ingest_db) == both
        tug = connect(server)
        descriptor = next(c.principal for c in tug.access().containers if c.name.endswith("Tug")).partition(":")[2]
        tug.close()
        server.faults.fail(rf"(?i)/ado/[^/]+/_apis/graph/memberships/{descriptor}", status=403, times=None)
        assert sync_access(server, ingest_db, embedder, tmp_path)["azure_devops"] == "partial"
        assert members(ingest_db) == both
        since = DirectoryStore(ingest_db).unresolved_since()
        assert [x.partition(":")[2] for x in since] == [descriptor]
        server.faults.clear()
        server.apply("e")
        assert sync_access(server, ingest_db, embedder, tmp_path)["azure_devops"] == "complete"
        assert members(ingest_db) == {"Nord": {teo}}
        assert DirectoryStore(ingest_db).unresolved_since() == {}
