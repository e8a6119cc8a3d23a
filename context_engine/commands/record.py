"""A way to the record for commands that only look: beside the engine that runs on it, or with Postgres started here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from context_engine.commands.target import Target
from context_engine.embedded import QUERY_ROLE, owned
from context_engine.guards import labels_that_need_no_word
from context_engine.postgres import EmbeddedPostgres, running_ingest_dsn
from context_engine.wiring import connector_names
from core.errors import ConfigError
from core.principals import Principal
from core.settings import load_settings
from fixtures.sandbox.world import load_world
from graph.db import Database
from graph.migrate import migrate


@dataclass(frozen=True, slots=True)
class AccessTerms:
    """On which terms questions are answered: the connectors that must have told who belongs where, how old permissions
    may be, the labels that need no word of their source (None: late binding is off), and the spaces of applications
    that ask on their own."""

    connectors: tuple[str, ...]
    limit: timedelta
    free_labels: tuple[str, ...] | None = None
    policies: Mapping[Principal, frozenset[str]] = field(default_factory=dict)


def terms_of(target: Target) -> AccessTerms:
    """The terms of a target. Raises ConfigError for a bad setting or world."""
    if target.settings is not None:
        settings = target.settings
        return AccessTerms(
            connector_names(settings),
            settings.revocation_limit,
            labels_that_need_no_word(settings),
            {a.principal: frozenset(a.spaces) for a in settings.applications},
        )
    assert target.world is not None
    world = load_world(target.world)
    names = ("teams", "azure_devops") if world.azure_devops is not None else ("teams",)
    return AccessTerms(names, load_settings().revocation_limit)


@contextmanager
def record_of(target: Target) -> Iterator[Database]:
    """The record of a target, as the ingestion plane sees it. Neither an index nor a model is opened.

    Raises ConfigError where nothing was ever synced there; StoreUnavailableError where Postgres does not answer.
    """
    settings = target.settings
    if settings is not None and settings.postgres_url is not None:
        with closing(Database(settings.postgres_url.get_secret_value())) as database:
            yield database
        return
    if settings is not None and settings.sources is not None:
        raise ConfigError(
            "not set, so there is no record to look at", where="postgres_url", mend="Use the settings of a worker"
        )
    if not _was_made(target.data):
        raise ConfigError("nothing was synced into it yet", where=str(target.data), mend="Run `context-engine sync`")
    if target.running() is not None:
        with closing(Database(running_ingest_dsn(target.data))) as database:
            yield database
        return
    with owned(target.data), EmbeddedPostgres(target.data) as server:
        migrate(server.ingest_dsn, query_role=QUERY_ROLE)
        with closing(Database(server.ingest_dsn)) as database:
            yield database


def _was_made(data: Path) -> bool:
    return (data / "postgres" / "credentials.json").is_file()
