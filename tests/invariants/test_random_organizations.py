"""Hundreds of random organizations: what a search returns to somebody is what they may read, and nothing else.

Each round packs 25 organizations (a project each, with nested groups, cycles, denies, cuts, levels and visibilities by
chance) into one world, lets the connectors read its permissions from the sandbox, and compares for every person and
item three answers that must be one: an independent, naive evaluator over the plain data (`naive_access`); the exported
rule over the synced directory; and a real search under the Trim, with the record's own check after it. Then a hundred
random changes happen, permissions alone are read again, and all is compared once more. The content was crawled once,
before the first round. Rounds take turns in how a rule is read: as worlds define it, as the real service is documented,
and each of these with denies that reach down. 4 rounds × 25 × 2 states are 200 organizations;
RANDOM_ORGANIZATIONS_ROUNDS raises that, RANDOM_ORGANIZATIONS_SEED begins elsewhere.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TypedDict

import pytest

from context_engine.stores import Index
from context_engine.wiring import build_connectors, build_synchronizer
from context_engine.worlds import world_settings
from core import principals
from core.access import NOBODY, ScopeId
from core.embedding.port import Embedder
from core.errors import IdentityError
from core.index.edge import EdgeIndex
from core.index.port import HybridQuery, SearchLeg
from core.items import Source
from core.principals import Principal, issue_asker
from core.settings import Settings
from core.text.tokens import sparse_query
from fixtures.sandbox.server import SandboxServer
from fixtures.sandbox.world import build_world
from graph.db import Database
from graph.directory import DirectoryStore
from graph.records import ItemStore
from graph.scopes import ScopeStore
from query.principals import PrincipalResolver
from tests.invariants.naive_access import NaiveAccess
from tests.invariants.organizations import PEOPLE, Data, Slot, crawlable, events, happened, organization
from tests.sandbox.small import TENANT
from tests.support.postgres import PostgresServer


class Rules(TypedDict):
    """How a rule is to be read, by the names that the naive evaluator has for it."""

    project_reaches: bool
    deny_reaches_down: bool


PROJECTS = 25
CHANGES = 100
ROUNDS = int(os.environ.get("RANDOM_ORGANIZATIONS_ROUNDS", "4"))
SEED = os.environ.get("RANDOM_ORGANIZATIONS_SEED", "harbour")
# The ways in which rules can be read, turn by turn: as worlds define them, as the real service is documented, and with
# each setting's other value.
WAYS: tuple[Rules, ...] = (
    {"project_reaches": True, "deny_reaches_down": False},
    {"project_reaches": False, "deny_reaches_down": False},
    {"project_reaches": True, "deny_reaches_down": True},
    {"project_reaches": False, "deny_reaches_down": True},
)
SOURCES = (Source.WORK_ITEMS, Source.WIKIS, Source.CODE, Source.PULL_REQUESTS)


@dataclass
class Bench:
    """Stores that hold the content of every round's organizations."""

    database: Database
    index: Index
    embedder: Embedder
    folder: Path
    scope_of: dict[str, ScopeId] = field(default_factory=dict)
    # Project, and the node that the item's permissions hang on.
    node_of: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    # Object ids of the people.
    ids: dict[str, str] = field(default_factory=dict)

    def settings(self, server: SandboxServer, rules: Rules) -> Settings:
        """Settings that point at a sandbox."""
        made = world_settings(server, self.folder, {"revocation_sla": 86_400})
        assert made.azure_devops is not None
        changed = made.azure_devops.model_copy(
            update={
                "project_acl_reaches_objects": rules["project_reaches"],
                "deny_reaches_down": rules["deny_reaches_down"],
            }
        )
        return made.model_copy(update={"azure_devops": changed})

    def sync(self, server: SandboxServer, rules: Rules, *, content: bool = False) -> None:
        """Read permissions, and content only where asked."""
        settings = self.settings(server, rules)
        connectors = build_connectors(settings)
        synchronizer = build_synchronizer(settings, self.database, self.index, self.embedder)
        try:
            if content:
                reports = synchronizer.sync(connectors)
            else:
                reports = [synchronizer.sync_access(c) for c in connectors]
        finally:
            for connector in connectors:
                connector.close()
        assert [r for r in reports if r.state != "complete"] == []

    def learn(self, server: SandboxServer) -> None:
        """Remember on which node each item of the record hangs."""
        ids, nodes = server.state.ids, dict[str, tuple[str, str, str]]()
        for number in range(PROJECTS):
            slot = Slot(number)
            nodes |= {start: (slot.project, *node) for start, node in slot.nodes(ids).items()}
        with self.database.connection() as connection:
            rows = connection.execute("SELECT uri, scope FROM items WHERE shown").fetchall()
        for row in rows:
            parts = row["uri"].removeprefix("ctx://ado/random/").split("/")
            self.node_of[row["uri"]] = nodes["/".join(parts[:2])]
            self.scope_of[row["uri"]] = ScopeId(row["scope"])

    def disagreements(self, world: Data, rules: Rules) -> list[str]:
        """Person and item where the three answers are not one."""
        naive = NaiveAccess(world, **rules)
        scopes = ScopeStore(self.database, revocation_limit=Settings(revocation_sla=86_400).revocation_limit)
        directory = DirectoryStore(self.database, required=("teams", "azure_devops"))
        exported = scopes.acls(set(self.scope_of.values()))
        found, readable = list[str](), 0
        for person in PEOPLE:
            own = principals.user(TENANT, self.ids[person])
            account = directory.account(own)
            works = account is not None and account.enabled
            counted = directory.closure(own) if works else frozenset[Principal]()
            searched = self.searched(own, scopes, directory)
            for uri, node in self.node_of.items():
                expected = naive.may_read(person, *node)
                ruled = works and exported.get(self.scope_of[uri], NOBODY).permits(counted)
                readable += expected
                if not expected == ruled == (uri in searched):
                    found.append(
                        f"{person} {node}: naive {expected}, rule {ruled}, search {uri in searched}; "
                        f"{world['azure_devops']['projects'][node[0]]}"
                    )
            stray = searched - self.node_of.keys()
            found += [f"{person} found {uri}, which no organization has" for uri in sorted(stray)]
        # Where nearly all or nearly nothing could be read, agreeing would be no achievement.
        assert 0.01 < readable / (len(PEOPLE) * len(self.node_of)) < 0.6
        return found

    def searched(self, who: Principal, scopes: ScopeStore, directory: DirectoryStore) -> set[str]:
        """Everything that a search by this person can return, having checked that the record agrees with the index."""
        asker = issue_asker(principal=who, tenant=TENANT, agent=None, scopes=frozenset())
        try:
            counted = PrincipalResolver(directory, scopes).resolve(asker)
        except IdentityError:
            return set()
        trim = scopes.trim_for(counted)
        everything = 40 * PROJECTS
        query = HybridQuery(
            dense=self.embedder.embed_query("tide table"),
            sparse=sparse_query("tide table"),
            legs=tuple(SearchLeg(sources=(s,), limit=everything) for s in SOURCES),
        )
        in_index = {c.uri for c in self.index.reader.search(trim, query)}
        in_record = set(ItemStore(self.database).visible(trim, list(self.node_of)))
        assert in_index == in_record
        return in_index


@pytest.fixture(scope="module")
def bench(postgres: PostgresServer, embedder: Embedder) -> Iterator[Bench]:
    """The content of all organizations, crawled once with every repo switched on."""
    # An index of some hundred points is flushed after each batch: in memory, where there is such a folder.
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="context-engine-random-", dir=memory if memory.is_dir() else None))
    made = postgres.fresh_database()
    database = Database(made.ingest_dsn)
    edge = EdgeIndex(folder / "qdrant", embedder=embedder.name, size=embedder.size)
    bench = Bench(database, Index(edge.reader, edge.writer, edge.close), embedder, folder)
    try:
        world = build_world(crawlable(organization(f"{SEED}/content", PROJECTS)))
        with SandboxServer(world, folder, remember=False) as server:
            bench.sync(server, WAYS[0], content=True)
            bench.ids = {person: server.state.oid(person) for person in PEOPLE}
            bench.learn(server)
        yield bench
    finally:
        edge.close()
        database.close()
        postgres.drop(made)
        shutil.rmtree(folder, ignore_errors=True)


def test_every_organization_s_content_is_in_the_record_and_the_index(bench: Bench) -> None:
    kinds = {(project, kind) for project, kind, _ in bench.node_of.values()}
    assert len(kinds) == 3 * PROJECTS
    assert len(bench.node_of) >= 13 * PROJECTS
    assert set(bench.index.writer.uris()) == set(bench.node_of)


@pytest.mark.invariant("INV-3", "INV-6")
@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_search_returns_exactly_what_its_asker_may_read(bench: Bench, number: int) -> None:
    seed = f"{SEED}/{number}"
    rules = WAYS[number % len(WAYS)]
    world = organization(seed, PROJECTS)
    changes = events(Random(f"{seed}/events"), world, CHANGES)
    served = build_world({**deepcopy(world), "events": changes})
    with SandboxServer(served, bench.folder, remember=False) as server:
        bench.sync(server, rules)
        assert bench.disagreements(world, rules)[:5] == [], f"seed {seed}"
        server.apply(changes[-1]["id"])
        for change in changes:
            happened(world, change)
        bench.sync(server, rules)
        assert bench.disagreements(world, rules)[:5] == [], f"seed {seed}, after its events"
