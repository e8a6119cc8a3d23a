"""Settings to the planes: with `context_engine.stores`, the only place that knows which adapter stands behind which
port.

Two builders, one a plane. The query plane gets its own Postgres role, the reading half of the index and no source
credential; the ingestion plane gets the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Final

from context_engine.guards import build_late_binder, build_limiter, labels_that_need_no_word
from context_engine.principal_caching import build_principal_cache
from context_engine.stores import Index, ReadingHalf, WritingHalf
from core.clock import Clock, SystemClock
from core.embedding.port import Embedder
from core.index.port import IndexWriter
from core.items import Source
from core.settings import Settings
from core.trust import TENANT_MARK
from graph.audit import AuditLog
from graph.audit_erasure import AuditWords
from graph.db import Database
from graph.directory import DirectoryStore
from graph.edges import EdgeStore
from graph.erasures import ErasureStore
from graph.glossary import GlossaryStore
from graph.inventory import Inventory
from graph.records import ItemStore
from graph.runs import RunStore
from graph.scopes import ScopeStore
from graph.supersession import SupersessionStore
from ingestion.admission import LabelGate, admit
from ingestion.connector import Connector
from ingestion.erasing import Eraser
from ingestion.pipeline import Pipeline
from ingestion.sync import Progress, Synchronizer
from query.api import ApiServices
from query.engine import ContextEngine
from query.identity import TokenVerifier
from query.oauth import ProtectedResource
from query.principals import PrincipalResolver
from query.service import ContextService
from query.status import StatusReader

# The readers of each connector, for processes that know sources by name only.
_READERS: Final[Mapping[str, tuple[str, ...]]] = {
    "teams": ("teams",),
    "azure_devops": ("work_items", "wikis", "code", "pull_requests"),
}


def build_connectors(settings: Settings, clock: Clock | None = None) -> list[Connector]:
    """The connectors that are configured, each with its six admission questions answered. `clock` says what is long
    ago at the source; the machine's where none is given."""
    connectors: list[Connector] = []
    if settings.graph is not None:
        from ingestion.teams.connector import TeamsConnector

        connectors.append(TeamsConnector(settings.graph, labels=settings.labels))
    if settings.azure_devops is not None:
        from ingestion.azure_devops.connector import AzureDevOpsConnector

        connectors.append(AzureDevOpsConnector(settings.azure_devops, clock=clock))
    for connector in connectors:
        admit(connector)
    return connectors


def build_pipeline(
    settings: Settings, database: Database, writer: IndexWriter, embedder: Embedder, scopes: ScopeStore
) -> Pipeline:
    """The way of items into the stores."""
    return Pipeline(
        items=ItemStore(database),
        scopes=scopes,
        glossary=GlossaryStore(database),
        supersessions=SupersessionStore(database),
        index=writer,
        embedder=embedder,
        labels=LabelGate(settings.labels, settings.never_index_label),
        erasures=ErasureStore(database),
    )


def build_eraser(settings: Settings, database: Database, index: Index | WritingHalf, embedder: Embedder) -> Eraser:
    """What carries out erasures over the stores of the ingestion plane."""
    scopes = ScopeStore(database, revocation_limit=settings.revocation_limit)
    return Eraser(
        erasures=ErasureStore(database),
        audit=AuditWords(database),
        items=ItemStore(database),
        runs=RunStore(database),
        pipeline=build_pipeline(settings, database, index.writer, embedder, scopes),
        index=index.writer,
        embedder=embedder,
        clock=SystemClock(),
    )


def build_synchronizer(
    settings: Settings,
    database: Database,
    index: Index | WritingHalf,
    embedder: Embedder,
    *,
    wall_clock: Clock | None = None,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> Synchronizer:
    """The ingestion plane over its stores. `wall_clock` dates what is read; the machine's where none is given."""
    clock = wall_clock or SystemClock()
    items = ItemStore(database)
    scopes = ScopeStore(database, revocation_limit=settings.revocation_limit, wall_clock=clock)
    pipeline = build_pipeline(settings, database, index.writer, embedder, scopes)
    return Synchronizer(
        pipeline=pipeline,
        items=items,
        scopes=scopes,
        directory=DirectoryStore(database, required=connector_names(settings)),
        runs=RunStore(database, clock=clock, retry_after=timedelta(seconds=settings.retry_failed_after)),
        inventory=Inventory(database),
        index=index.writer,
        reconcile_every=timedelta(seconds=settings.reconcile_interval),
        wall_clock=clock,
        on_progress=on_progress,
    )


def build_api(
    settings: Settings, database: Database, index: Index | ReadingHalf, embedder: Embedder, clock: Clock
) -> ApiServices:
    """The query plane over its stores. `database` must be the query role's."""
    scopes = ScopeStore(
        database, revocation_limit=settings.revocation_limit, free_labels=labels_that_need_no_word(settings)
    )
    directory = DirectoryStore(database, required=connector_names(settings))
    engine = ContextEngine(
        scopes=scopes,
        items=ItemStore(database),
        edges=EdgeStore(database),
        glossary=GlossaryStore(database),
        supersessions=SupersessionStore(database),
        directory=directory,
        runs=RunStore(database),
        index=index.reader,
        embedder=embedder,
        clock=clock,
        sources=configured_sources(settings),
        default_max_tokens=settings.max_tokens,
        late_binder=build_late_binder(settings, database, scopes, index.reader),
    )
    service = ContextService(
        engine=engine,
        verifier=TokenVerifier(
            settings.issuers,
            required_scope=settings.required_scope,
            required_role=settings.required_role,
            applications=settings.applications,
        ),
        resolver=PrincipalResolver(
            directory, scopes, build_principal_cache(settings, scopes, connector_names(settings))
        ),
        audit=AuditLog(database, keep_questions=settings.audit_withheld > 0),
        limiter=build_limiter(settings),
        status_of=StatusReader(
            RunStore(database),
            scopes,
            SystemClock(),
            limit=settings.revocation_limit,
            content_limit=timedelta(seconds=2 * settings.content_interval),
        ).read,
        wall_clock=SystemClock(),
    )
    checks: dict[str, Callable[[], None]] = {"postgres": database.ping, "qdrant": index.reader.ping}
    return ApiServices(service=service, resource=build_resource(settings), checks=checks)


def build_resource(settings: Settings) -> ProtectedResource:
    """What clients are told of how to ask: by which names, and whose tokens with which scopes."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return ProtectedResource(
        issuers=tuple(i.issuer.replace(TENANT_MARK, tenant) for i in settings.issuers for tenant in i.all_tenants),
        scopes=settings.client_scopes or (settings.required_scope,),
        public_url=settings.public_url,
        hosts=(host, *settings.mcp_hosts),
        origins=settings.mcp_origins,
    )


def connector_names(settings: Settings) -> tuple[str, ...]:
    """The connectors that are configured, here or where ingestion runs: until each has told who belongs where, nobody
    is answered."""
    if settings.sources is not None:
        return settings.sources
    configured = {"teams": settings.graph, "azure_devops": settings.azure_devops}
    return tuple(name for name, found in configured.items() if found is not None)


def known_readers(settings: Settings) -> dict[str, tuple[str, ...]]:
    """The readers of each configured connector, without making one."""
    return {name: _READERS[name] for name in connector_names(settings)}


def configured_sources(settings: Settings) -> tuple[Source, ...]:
    """The sources that can have evidence; only these can be gaps."""
    names = connector_names(settings)
    sources: list[Source] = []
    if "azure_devops" in names:
        sources += [Source.WORK_ITEMS, Source.WIKIS, Source.CODE, Source.PULL_REQUESTS]
    if "teams" in names:
        sources.append(Source.TEAMS)
    return tuple(sources)
