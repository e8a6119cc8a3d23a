"""A way to the audit log for commands: as the audit plane's role, beside the engine or with Postgres started here."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

from context_engine.commands.target import Target
from context_engine.embedded import QUERY_ROLE, owned
from context_engine.postgres import EmbeddedPostgres, running_audit_dsn
from core.errors import ConfigError, InputError
from core.principals import Principal, parse
from graph.audit_reading import Selection
from graph.db import Database
from graph.migrate import migrate

_Row = TypeVar("_Row")


@contextmanager
def audit_log_of(target: Target) -> Iterator[Database]:
    """The audit log of a target. Neither an index nor a model is opened.

    Raises ConfigError where the settings name no role for auditors, or nothing was ever recorded there;
    StoreUnavailableError where Postgres does not answer.
    """
    settings = target.settings
    if settings is not None and settings.postgres_audit_url is not None:
        with closing(Database(settings.postgres_audit_url.get_secret_value(), max_size=2)) as database:
            yield database
        return
    if settings is not None and (settings.postgres_url is not None or settings.sources is not None):
        raise ConfigError(
            "the audit log is read by a role of its own",
            where="postgres_audit_url",
            mend="Give it the role context_audit, which `context-engine migrate` grants what it needs",
        )
    if not (target.data / "postgres" / "credentials.json").is_file():
        raise ConfigError("nothing was recorded in it yet", where=str(target.data), mend="Ask something first")
    if target.running() is not None:
        with closing(Database(running_audit_dsn(target.data), max_size=2)) as database:
            yield database
        return
    with owned(target.data), EmbeddedPostgres(target.data) as server:
        migrate(server.ingest_dsn, query_role=QUERY_ROLE)
        with closing(Database(server.audit_dsn, max_size=2)) as database:
            yield database


def selection(
    *, since: str | None = None, until: str | None = None, asker: str | None = None, entry: int | None = None
) -> Selection:
    """The selection that options describe. Raises InputError."""
    return Selection(since=_time(since, "--from"), until=_time(until, "--to"), asker=_principal(asker), seq=entry)


def counted(rows: Iterable[_Row], total: int, what: str) -> Iterator[_Row]:
    """Pass rows on, with a bar on standard error where that is a terminal."""
    if not sys.stderr.isatty():
        yield from rows
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=28), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True)) as bars:
        task = bars.add_task(what, total=total)
        for row in rows:
            yield row
            bars.advance(task)


def _time(text: str | None, option: str) -> datetime | None:
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError as e:
        raise InputError(f"{text!r} is no time", where=option, mend="Write 2026-03-01 or 2026-03-01T09:00Z") from e
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def _principal(text: str | None) -> Principal | None:
    if text is None:
        return None
    try:
        return parse(text)
    except ValueError as e:
        raise InputError(f"{text!r} is no principal", where="--asker", mend="Write user:TENANT/OID") from e
