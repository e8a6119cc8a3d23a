"""A way to the record for commands that only look: beside the engine that runs on it, or with Postgres started here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from context_engine.commands.target import Target
from context_engine.embedded import QUERY_ROLE, owned
from context_engine.postgres import EmbeddedPostgres, running_ingest_dsn
from core.errors import ConfigError
from graph.db import Database
from graph.migrate import migrate


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
