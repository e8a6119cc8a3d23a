"""Settings to adapters: the only place that knows which adapter stands behind which port.

Two builders, one a plane. The query plane gets its own Postgres role, the reading half of the index and no source
credential; the ingestion plane gets the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import SecretStr

from context_engine.guards import build_late_binder, build_limiter, labels_that_need_no_word
from context_engine.principal_caching import build_principal_cache
from core.clock import Clock, SystemClock
from core.embedding.port import Embedder
from core.errors import ConfigError
from core.index.port import IndexReader, IndexWriter
from core.index.privileged import PrivilegedReader
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

if TYPE_CHECKING:
    from core.index.privileged_server import ServerPrivilegedReader
    from core.index.server import ServerIndex

# The readers of each connector, for processes that know sources by name only.
_READERS: Final[Mapping[str, tuple[str, ...]]] = {
    "teams": ("teams",),
    "azure_devops": ("work_items", "wikis", "code", "pull_requests"),
}


@dataclass(frozen=True, slots=True)
class Index:
    """The two halves of the vector index, one a plane; `privileged` is the audit plane's, None where it has no key."""

    reader: IndexReader
    writer: IndexWriter
    close: Callable[[], None]
    privileged: PrivilegedReader | None = None


@dataclass(frozen=True, slots=True)
class WritingHalf:
    """The index as the ingestion plane's process has it."""

    writer: IndexWriter
    close: Callable[[], None]


@dataclass(frozen=True, slots=True)
class ReadingHalf:
    """The index as the query plane's process has it."""

    reader: IndexReader
    close: Callable[[], None]


def build_embedder(settings: Settings) -> Embedder:
    """The embedder that the settings name. Raises ConfigError where it can't be had."""
    if settings.embedder == "openai":
        from core.embedding.openai_http import OpenAIEmbedder

        if settings.embedder_url is None or settings.embedder_model is None:
            raise ConfigError(
                "an OpenAI-compatible embedder needs an address and a model",
                where="embedder",
                mend="Set embedder_url and embedder_model",
            )
        key = settings.embedder_key.get_secret_value() if settings.embedder_key else None
        return OpenAIEmbedder(settings.embedder_url, settings.embedder_model, api_key=key)
    from core.embedding.sentence_transformers import SentenceTransformersEmbedder

    return SentenceTransformersEmbedder(settings.embedder_model, threads=settings.embedder_threads)


def build_index(settings: Settings, embedder: Embedder) -> Index:
    """The index that the settings name: a Qdrant server, or Qdrant Edge in the data folder of this process."""
    if settings.qdrant_url is not None:
        return _server_index(settings, settings.qdrant_url, embedder)
    from core.index.edge import EdgeIndex
    from core.index.privileged_edge import EdgePrivilegedReader

    edge = EdgeIndex(edge_folder(settings.data), size=embedder.size, embedder=embedder.name)
    return Index(edge.reader, edge.writer, edge.writer.close, EdgePrivilegedReader(edge))


def _server_index(settings: Settings, url: str, embedder: Embedder) -> Index:
    """A connection a plane, each with its own key."""
    if settings.qdrant_api_key is not None and settings.qdrant_read_key is None:
        raise ConfigError(
            "the query plane needs a key of its own",
            where="qdrant_read_key",
            mend="Set it to the server's read-only key",
        )
    writing = _connect(settings, url, settings.qdrant_api_key, embedder, read_only=False)
    reading = _connect(settings, url, settings.qdrant_read_key, embedder, read_only=True)
    # A server that knows no keys gives everybody everything; one that does wants the audit plane's own.
    open_to_all = settings.qdrant_api_key is None
    auditing = build_privileged_index(settings, embedder) if settings.qdrant_audit_key or open_to_all else None

    def close() -> None:
        if auditing is not None:
            auditing.close()
        reading.close()
        writing.close()

    return Index(reading.reader, writing.writer, close, auditing)


def build_privileged_index(settings: Settings, embedder: Embedder) -> ServerPrivilegedReader:
    """The index of a server as the audit plane has it. Raises ConfigError where none is set."""
    from core.index.privileged_server import ServerPrivilegedReader
    from core.index.server import ServerConnection

    key = settings.qdrant_audit_key
    return ServerPrivilegedReader(
        ServerConnection(
            url=_server(settings),
            api_key=key.get_secret_value() if key else None,
            collection=settings.qdrant_collection,
            size=embedder.size,
            embedder=embedder.name,
        )
    )


def build_writing_index(settings: Settings, embedder: Embedder) -> WritingHalf:
    """The index of a server as a process of the ingestion plane alone has it. Raises ConfigError where none is set."""
    index = _connect(settings, _server(settings), settings.qdrant_api_key, embedder, read_only=False)
    return WritingHalf(index.writer, index.close)


def build_reading_index(settings: Settings, embedder: Embedder) -> ReadingHalf:
    """The index of a server as a process of the query plane alone has it. Raises ConfigError where none is set."""
    index = _connect(settings, _server(settings), settings.qdrant_read_key, embedder, read_only=True)
    return ReadingHalf(index.reader, index.close)


def _server(settings: Settings) -> str:
    if settings.qdrant_url is None:
        raise ConfigError(
            "processes of their own share the index of a server", where="qdrant_url", mend="Set it to a Qdrant server"
        )
    return settings.qdrant_url


def _connect(
    settings: Settings, url: str, key: SecretStr | None, embedder: Embedder, *, read_only: bool
) -> ServerIndex:
    from core.index.server import ServerIndex

    return ServerIndex.connect(
        url,
        api_key=key.get_secret_value() if key else None,
        collection=settings.qdrant_collection,
        size=embedder.size,
        embedder=embedder.name,
        read_only=read_only,
    )


def edge_folder(data: Path) -> Path:
    """Where the embedded index lives."""
    return data / "qdrant"


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
