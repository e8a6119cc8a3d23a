"""sync, token, event, migrate."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from context_engine.alone import alone, leases_of
from context_engine.commands.lines import WIDTH, line
from context_engine.commands.screen import LABELS, Screen
from context_engine.commands.target import Target
from context_engine.embedded import QUERY_ROLE
from context_engine.worlds import AUDIENCE
from core.errors import ConfigError, InputError
from core.settings import load_settings
from graph.migrate import migrate as run_migrations
from ingestion.sync import RunReport


def sync(target: Target, *, as_json: bool, full: bool = False) -> int:
    """Sync once, with `full` from the beginning; 1 where a run is not complete."""
    if target.running() is not None:
        raise ConfigError(
            "an engine is serving from this data folder and syncs by itself",
            where=str(target.data),
            mend="Stop it to sync by hand",
        )
    screen = Screen(quiet=as_json)
    with screen, target.open(on_progress=screen.progress, on_step=screen.step, answers=False) as engine:
        if full:
            engine.read_anew()
        # Workers may run over the same stores: what one has just learnt of must not be undone by what was read before.
        names = leases_of(engine.connectors)
        with alone(engine.database, names, engine.holder, engine.lease, mend="They sync by themselves"):
            reports = engine.sync()
    if as_json:
        print(json.dumps({"runs": [report_json(r) for r in reports]}))
    else:
        print_reports(reports)
    return 0 if all(r.state == "complete" for r in reports) else 1


def print_reports(reports: Sequence[RunReport]) -> None:
    """A table of runs, 80 columns wide at most, and below it why those ended that are not complete."""
    table = Table(box=None, pad_edge=False)
    for column in ("source", "run", "items", "embedded", "deleted", "note"):
        table.add_column(column, justify="right" if column in {"items", "embedded", "deleted"} else "left")
    for r in reports:
        items = sum(r.counts.get(k, 0) for k in ("seen", "scopes"))
        table.add_row(
            _name(r),
            r.state,
            str(items),
            str(r.counts.get("embedded", 0)),
            str(r.counts.get("deleted", 0)),
            _skipped(r),
        )
    out = Console(width=WIDTH)
    out.print(table)
    for r in reports:
        if r.reason:
            line(out, 0, f"[bold]{_name(r)}[/bold]: ", escape(r.reason))


def _name(report: RunReport) -> str:
    if report.reader == "access":
        return f"{LABELS['access']} ({report.connector})"
    return LABELS.get(report.reader, report.reader)


def _skipped(report: RunReport) -> str:
    skipped = report.counts.get("skipped", 0)
    return f"{skipped} left out" if skipped else ""


def report_json(report: RunReport) -> dict[str, Any]:
    """A run as `sync --json` prints it."""
    return {
        "connector": report.connector,
        "reader": report.reader,
        "state": report.state,
        "counts": dict(report.counts),
        "reason": report.reason,
        "checks": dict(report.checks),
    }


def token(target: Target, person: str) -> None:
    """Print a token of the sandbox issuer."""
    print(person_token(target, person))


def person_token(target: Target, person: str) -> str:
    """A token for a person of the world, from the running engine's issuer or from the world's own keys."""
    if target.world is None:
        raise ConfigError("tokens are made by the sandbox issuer only", mend="Give a world with --world")
    running = target.running()
    if running is not None and running.sandbox is not None:
        answer = httpx.post(
            f"{running.sandbox}/_sandbox/token",
            json={"person": person, "audience": AUDIENCE},
            timeout=10,
            trust_env=False,
        )
        if answer.status_code != 200:
            raise InputError(_why(answer), where=f"person {person!r}")
        return str(answer.json()["access_token"])
    from fixtures.sandbox.server import SandboxServer

    with SandboxServer(target.world, target.data) as sandbox:
        return sandbox.token(person, audience=AUDIENCE)


def event(target: Target, event_id: str) -> None:
    """Apply an event and all before it, and let the engine obey it."""
    if target.world is None:
        raise ConfigError("events belong to a world", mend="Give a world with --world")
    running = target.running()
    if running is not None and running.sandbox is not None:
        answer = httpx.post(f"{running.sandbox}/_sandbox/events/{event_id}", timeout=30, trust_env=False)
        if answer.status_code >= 400:
            raise InputError(_why(answer), where=f"event {event_id!r}")
        print(_told(event_id, answer.json()["applied"]) + "; the running engine syncs it now")
        return
    with Screen() as screen, target.open(on_progress=screen.progress, on_step=screen.step) as engine:
        assert engine.sandbox is not None
        applied = engine.sandbox.apply(event_id)
        reports = engine.sync()
    print(_told(event_id, applied) + "; synced")
    print_reports(reports)


def _told(event_id: str, applied: Sequence[str]) -> str:
    return f"applied {', '.join(applied)}" if applied else f"{event_id} was applied before"


def migrate(config: Path | None) -> None:
    """Migrate the configured Postgres."""
    settings = load_settings(file=config)
    if settings.postgres_url is None:
        raise ConfigError(
            "no Postgres is configured", where="postgres_url", mend="Set it; embedded mode migrates by itself"
        )
    revision = run_migrations(settings.postgres_url.get_secret_value(), query_role=QUERY_ROLE)
    print(f"the schema is at revision {revision}")


def _why(answer: httpx.Response) -> str:
    try:
        body = answer.json()
    except ValueError:
        return f"the sandbox answered {answer.status_code}"
    return str(body.get("detail") or body.get("error") or body)
