"""A small invented company, written through the real pipeline into real Postgres and a real index."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from core import uris
from core.access import Gate, Layer, Scope, ScopeAcl, ScopeId
from core.authority import Authority
from core.bundle import Bundle, ContextRequest
from core.clock import FixedClock
from core.directory import Container, DirectoryPerson, PersonKind
from core.embedding.port import Embedder
from core.index.edge import EdgeIndex
from core.items import Contribution, Item, ItemKind, Link, Part, PersonRef, Role, Source, TextFormat
from core.principals import Principal, PrincipalSet, issue_asker, issue_principal_set, parse
from graph.db import Database
from graph.directory import DirectoryStore
from graph.edges import EdgeStore
from graph.glossary import GlossaryStore
from graph.records import ItemStore
from graph.runs import RunStore
from graph.scopes import ScopeStore
from graph.supersession import SupersessionStore
from ingestion.admission import LabelGate
from ingestion.pipeline import Pipeline, Tally
from query.engine import ContextEngine

NOW = datetime(2031, 3, 10, 9, 0, tzinfo=UTC)
T = "t"
ORG = "novaruud"
TEAMS = "tenant"


def who(name: str) -> Principal:
    """A person's principal."""
    return parse(f"user:{T}/{name}")


def ref(name: str) -> PersonRef:
    """A person as an item names them."""
    return PersonRef(name.title(), who(name))


def ago(**given: float) -> datetime:
    """A time before now."""
    return NOW - timedelta(**given)


def did(name: str, role: Role, at: datetime | None) -> Contribution:
    """An edge."""
    return Contribution(person=ref(name), role=role, at=at)


def wiki(number: int, title: str, text: str, *, scope: str = "wiki", **given: Any) -> Item:
    """A wiki page."""
    uri = uris.wiki_page(ORG, "w1", number)
    values: dict[str, Any] = {
        "uri": uri,
        "source": Source.WIKIS,
        "kind": ItemKind.WIKI_PAGE,
        "scope": ScopeId(scope),
        "title": title,
        "url": f"https://dev.azure.com/{ORG}/Harbor/_wiki/wikis/Harbor.wiki/{number}/{title.replace(' ', '-')}",
        "parts": (Part(uri=uri, text=text),),
        "version": "1",
        "created_at": ago(days=400),
        "modified_at": ago(days=60),
        "authority": Authority.APPROVED,
        "container": "Harbor.wiki",
        "aliases": (f"/{title}",),
    }
    return Item(**(values | given))


def work_item(number: int, title: str, text: str, *, scope: str = "boards", **given: Any) -> Item:
    """A work item."""
    uri = uris.work_item(ORG, number)
    values: dict[str, Any] = {
        "uri": uri,
        "source": Source.WORK_ITEMS,
        "kind": ItemKind.WORK_ITEM,
        "scope": ScopeId(scope),
        "title": title,
        "url": f"https://dev.azure.com/{ORG}/Harbor/_workitems/edit/{number}",
        "parts": (Part(uri=uri, text=text),),
        "version": "1",
        "created_at": ago(days=90),
        "modified_at": ago(days=30),
        "state": "Closed",
        "container": "Harbor",
        "number": str(number),
    }
    return Item(**(values | given))


def code(path: str, text: str, *, scope: str = "repo", repo: str = "berth-data", **given: Any) -> Item:
    """A file at the head of the default branch."""
    uri = uris.file(ORG, "r1", path)
    name = path.rpartition("/")[2]
    values: dict[str, Any] = {
        "uri": uri,
        "source": Source.CODE,
        "kind": ItemKind.FILE,
        "scope": ScopeId(scope),
        "title": path,
        "url": f"https://dev.azure.com/{ORG}/Harbor/_git/{repo}?path=/{path}",
        "parts": (Part(uri=uri, text=text, format=TextFormat.CODE, language=path.rpartition(".")[2]),),
        "version": "1",
        "created_at": ago(days=300),
        "modified_at": ago(days=100),
        "authority": Authority.CANONICAL,
        "container": repo,
        "aliases": (f"{repo}/{path}", path, name),
    }
    return Item(**(values | given))


def commit(sha: str, message: str, links: tuple[Link, ...], **given: Any) -> Item:
    """A commit."""
    uri = uris.commit(ORG, "r1", sha)
    values: dict[str, Any] = {
        "uri": uri,
        "source": Source.CODE,
        "kind": ItemKind.COMMIT,
        "scope": ScopeId("repo"),
        "title": message,
        "url": f"https://dev.azure.com/{ORG}/Harbor/_git/berth-data/commit/{sha}",
        "parts": (Part(uri=uri, text=message),),
        "version": "1",
        "created_at": ago(days=50),
        "modified_at": ago(days=50),
        "container": "berth-data",
        "links": links,
    }
    return Item(**(values | given))


def thread(
    root: str, title: str, text: str, *, at: datetime, channel: str = "19:ops@thread.tacv2", **given: Any
) -> Item:
    """A Teams thread."""
    uri = uris.thread(TEAMS, channel, root)
    values: dict[str, Any] = {
        "uri": uri,
        "source": Source.TEAMS,
        "kind": ItemKind.THREAD,
        "scope": ScopeId(f"teams/{channel}"),
        "title": title,
        "url": f"https://teams.microsoft.com/l/message/{channel}/{root}?groupId=g&tenantId={TEAMS}",
        "parts": (Part(uri=uri, text=text, at=at),),
        "version": "1",
        "created_at": at,
        "modified_at": at,
        "container": "Ops/General" if channel == "19:ops@thread.tacv2" else "Ops/Private",
    }
    return Item(**(values | given))


VIEW = uris.file(ORG, "r1", "sql/v_fuel.sql")

ITEMS: tuple[Item, ...] = (
    wiki(
        1,
        "Connect a shipping line",
        "Owner: Sarah\n\nHow to integrate a new shipping line, step by step: copy the last onboarding work item, "
        "write the adapter, rehearse on the quay simulator, then go live on a Tuesday.",
        authority=Authority.CANONICAL,
        validated_at=ago(days=40),
        owner=ref("sarah"),
        contributions=(did("sarah", Role.OWNS, None), did("sarah", Role.VALIDATED, ago(days=40))),
        links=(Link(to=uris.work_item(ORG, 4711), rel="mentions"),),
    ),
    wiki(
        2,
        "Manifest delivery",
        "Shipping lines deliver their manifest files by SFTP to the drop box. Files are polled every five minutes.",
        validated_at=ago(days=700),
        modified_at=ago(days=700),
        created_at=ago(days=900),
    ),
    wiki(
        3,
        "Gangway timeouts",
        "The gangway sensor timeout of the berth gateway is 30 seconds.",
        authority=Authority.CANONICAL,
        validated_at=ago(days=200),
    ),
    wiki(4, "Berth runbook", "If the gateway is slow: the gangway sensor timeout of the berth gateway is 60 seconds."),
    wiki(5, "Abbreviations", "KLS stands for Kai Last System. BLAST = Berth Load And Stow Tool."),
    wiki(6, "Canteen", "The canteen opens at noon. Soup on Thursdays, fish on Fridays."),
    wiki(
        7,
        "Old hoisting rules",
        "Deprecated. How the hoisting of containers was done with the mobile drum.",
        deprecated=True,
        replaced_by=("Hoisting rules",),
    ),
    wiki(8, "Hoisting rules", "How the hoisting of containers is done: the fixed crane lifts, two people guide."),
    wiki(
        9,
        "Merger Walrus",
        "KLS stands for Kraken Liquidation Scheme. Connect a shipping line only after the merger. "
        "The gangway sensor timeout of the berth gateway is 15 seconds.",
        scope="secret",
    ),
    work_item(
        4711,
        "Onboard Northline as a shipping line",
        "Adapter for Northline, integration of a new shipping line, certificates, rehearsal and go-live.",
        contributions=(did("pieter", Role.ASSIGNED, ago(days=30)), did("pieter", Role.CLOSED, ago(days=21))),
    ),
    work_item(
        4602,
        "Onboard Eastline as a shipping line",
        "Integration of the shipping line Eastline with an adapter.",
        modified_at=ago(days=500),
        contributions=(did("gone", Role.CLOSED, ago(days=500)),),
    ),
    work_item(
        4688,
        "Subtract returns from fuel value",
        "The fuel value is net of returns from now on.",
        contributions=(did("mei", Role.CLOSED, ago(days=50)),),
    ),
    work_item(
        9001, "Walrus closing list", "Steps to connect the shipping line Walrus after the merger.", scope="secret"
    ),
    code(
        "src/adapters/northline.py",
        'class NorthlineAdapter(LineAdapter):\n    """Adapter of the shipping line Northline: reads its manifest."""\n'
        "    partner = 'northline'\n",
        contributions=(did("pieter", Role.WROTE, ago(days=100)),),
    ),
    code(
        "sql/v_fuel.sql",
        "-- Net fuel value of a berth per month (#4688).\ncreate view analytics.v_fuel as select berth, sum(value) "
        "from core.fuel group by 1;",
        aliases=("berth-data/sql/v_fuel.sql", "v_fuel.sql", "sql:analytics.v_fuel", "sql:v_fuel"),
    ),
    code(
        "grafana/fuel.json",
        '{"uid": "fu3l", "title": "Fuel", "panels": [{"id": 7, "title": "Net fuel", "targets": [{"rawSql": '
        '"select month, value from analytics.v_fuel"}]}, {"id": 8, "title": "Crew", "targets": []}]}',
        aliases=("berth-data/grafana/fuel.json", "grafana:fu3l", "grafana:fu3l/7", "grafana:fu3l/8"),
    ),
    commit(
        "c0ffee0000000000000000000000000000000001",
        "Net of returns, closes #4688",
        (Link(to=VIEW, rel="changes"), Link(to=uris.work_item(ORG, 4688), rel="mentions")),
        contributions=(did("mei", Role.WROTE, ago(days=50)),),
    ),
    thread(
        "100",
        "Decision: manifests",
        "Decision: from today new shipping lines deliver their manifest files over the HTTPS API "
        "and no longer by SFTP. "
        "This replaces what the page Manifest delivery says.",
        at=ago(days=20),
        contributions=(did("sarah", Role.DECIDED, ago(days=20)),),
    ),
    thread("101", "Soup?", "Soup at twelve in the canteen, who joins? It is the orange kind.", at=ago(days=2)),
    thread(
        "200",
        "Certificate trouble",
        "The certificate of the berth gateway expires next week, connect nobody new.",
        at=ago(days=1),
        channel="19:private@thread.tacv2",
    ),
)

PEOPLE = (
    DirectoryPerson(principal=who("sarah"), name="Sarah", kind=PersonKind.MEMBER, enabled=True, title="Lead"),
    DirectoryPerson(principal=who("pieter"), name="Pieter", kind=PersonKind.MEMBER, enabled=True, manager=who("sarah")),
    DirectoryPerson(principal=who("mei"), name="Mei", kind=PersonKind.MEMBER, enabled=True, manager=who("sarah")),
    DirectoryPerson(principal=who("new"), name="Newcomer", kind=PersonKind.MEMBER, enabled=True),
    DirectoryPerson(principal=who("boss"), name="Boss", kind=PersonKind.MEMBER, enabled=True),
    DirectoryPerson(principal=who("gone"), name="Gone", kind=PersonKind.MEMBER, enabled=False, manager=who("sarah")),
    DirectoryPerson(principal=who("nobody"), name="Nobody", kind=PersonKind.MEMBER, enabled=True),
)
STAFF = parse(f"group:{T}/staff")
BOARD = parse(f"group:{T}/board")
CONTAINERS = (
    Container(
        principal=STAFF,
        name="Staff",
        kind="group",
        members=frozenset(map(who, ("sarah", "pieter", "mei", "new", "boss"))),
    ),
    Container(principal=BOARD, name="Board", kind="group", members=frozenset({who("boss")})),
)


def _scope(name: str, source: str, *allow: Principal) -> Scope:
    return Scope(
        id=ScopeId(name),
        source=source,
        kind="x",
        name=name,
        acl=ScopeAcl((Gate("object", (Layer(name, allow=frozenset(allow)),)),)),
    )


SCOPES = (
    _scope("wiki", "wikis", STAFF),
    _scope("boards", "work_items", STAFF),
    _scope("repo", "code", STAFF),
    _scope("secret", "wikis", BOARD),
    Scope(
        id=ScopeId("teams/19:ops@thread.tacv2"),
        source="teams",
        kind="channel",
        name="Ops/General",
        acl=ScopeAcl((Gate("roster", (Layer("channel", allow=frozenset({STAFF})),)),)),
    ),
    _scope("teams/19:private@thread.tacv2", "teams", who("sarah")),
)


@dataclass
class Company:
    """An engine over the small company."""

    engine: ContextEngine
    directory: DirectoryStore
    pipeline: Pipeline
    items: ItemStore

    def principals(self, name: str) -> PrincipalSet:
        """Everything that a person counts as."""
        asker = issue_asker(principal=who(name), tenant=T, agent=None, scopes=frozenset())
        return issue_principal_set(asker, self.directory.closure(who(name)) | {who(name)})

    def ask(self, name: str, question: str, **given: Any) -> Bundle:
        """Ask as a person."""
        return self.engine.get_context(self.principals(name), ContextRequest(question=question, **given))


@contextmanager
def company(
    ingest: Database, query: Database, embedder: Embedder, items: tuple[Item, ...] = ITEMS
) -> Iterator[Company]:
    """Build the company with `items` in fresh stores."""
    wall = FixedClock(NOW)
    limit = timedelta(minutes=5)
    directory = DirectoryStore(ingest)
    directory.apply("graph", PEOPLE, CONTAINERS, complete=True, at=NOW)
    scopes = ScopeStore(ingest, revocation_limit=limit, wall_clock=wall)
    scopes.apply("azure_devops", SCOPES, complete=True, at=NOW)
    scopes.touch("azure_devops", NOW)
    with tempfile.TemporaryDirectory() as folder:
        index = EdgeIndex(Path(folder) / "index", embedder=embedder.name, size=embedder.size)
        pipeline = Pipeline(
            items=ItemStore(ingest),
            scopes=scopes,
            glossary=GlossaryStore(ingest),
            supersessions=SupersessionStore(ingest),
            index=index.writer,
            embedder=embedder,
            labels=LabelGate((), None),
        )
        try:
            for item in items:
                pipeline.upsert(item, at=NOW, tally=Tally())
            for scope_id, _, version in scopes.pending():
                scopes.mark_indexed(scope_id, version)
            engine = ContextEngine(
                scopes=ScopeStore(query, revocation_limit=limit, wall_clock=wall),
                items=ItemStore(query),
                edges=EdgeStore(query),
                glossary=GlossaryStore(query),
                supersessions=SupersessionStore(query),
                directory=DirectoryStore(query),
                runs=RunStore(query),
                index=index.reader,
                embedder=embedder,
                clock=FixedClock(NOW),
                sources=tuple(Source),
            )
            yield Company(engine, DirectoryStore(query), pipeline, ItemStore(query))
        finally:
            index.close()
