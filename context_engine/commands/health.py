"""doctor: what is configured, reachable and fresh, and what to do about what isn't."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict

import httpx
from rich.console import Console
from rich.markup import escape

from context_engine.commands.access_health import access_findings
from context_engine.commands.counts import in_words
from context_engine.commands.finding import Finding, Health
from context_engine.commands.lines import WIDTH, line
from context_engine.commands.record import record_of, terms_of
from context_engine.commands.target import Target
from context_engine.commands.work_health import work_findings
from context_engine.embedded import EmbeddedEngine
from core.errors import ContextEngineError
from core.settings import Settings
from graph.db import Database
from graph.runs import RunStore

_SHOWN = 5


def doctor(target: Target, *, as_json: bool) -> int:
    """Look and tell; 1 where there is trouble."""
    findings = list(examine(target))
    if as_json:
        print(json.dumps({"findings": [asdict(f) for f in findings]}))
    else:
        _show(findings)
    return 1 if any(f.health is Health.TROUBLE for f in findings) else 0


def examine(target: Target) -> Iterator[Finding]:
    """All findings, in order of what depends on what."""
    where = str(target.world) if target.world else "a configured organization"
    yield Finding("target", Health.OK, f"{where}; data in {target.data}")
    running = target.running()
    if running is not None:
        yield from _of_running(running.api, running.pid)
        terms = terms_of(target)
        try:
            with record_of(target) as database:
                yield from access_findings(database, terms.connectors, terms.limit)
                yield from _runs(database, serving=True)
                yield from work_findings(database)
        except ContextEngineError as e:
            yield Finding("record", Health.TROUBLE, e.message, e.mend or "")
        return
    s = target.settings
    worker = s is not None and s.postgres_url is not None and s.postgres_query_url is None
    if s is not None:
        if s.sources is not None and s.postgres_url is None:
            yield Finding(
                "postgres_url",
                Health.TROUBLE,
                "not set: this is the environment of a process that sees a part of the record at most",
                "run doctor with the settings of a worker",
            )
            return
        yield from _of_settings(s, worker=worker)
    try:
        # Nothing answers without an issuer; the stores can be looked at all the same.
        with target.open(answers=not worker and (s is None or bool(s.issuers))) as engine:
            yield from _of_engine(engine, beside_workers=worker)
    except ContextEngineError as e:
        found = f"{e.where}: {e.message}" if e.where else e.message
        yield Finding("engine", Health.TROUBLE, found, e.mend or (f"look at {e.where}" if e.where else ""))


def _of_settings(s: Settings, *, worker: bool) -> Iterator[Finding]:
    needed: dict[str, tuple[bool, str]] = {
        "issuers": (bool(s.issuers), "without a trusted issuer nothing answers questions: set `issuers`"),
        "azure_devops": (s.azure_devops is not None, "set `azure_devops` to crawl it"),
        "graph": (s.graph is not None, "without the directory nobody can ask: set `graph`"),
    }
    if worker:
        del needed["issuers"]  # the API has them
    for name, (present, do) in needed.items():
        if name == "azure_devops" and s.azure_devops is not None and s.azure_devops.pat is None:
            what = "configured without a token, so it will refuse everything"
            yield Finding(name, Health.WARNING, what, "set `azure_devops.pat`")
        elif present:
            yield Finding(name, Health.OK, "configured")
        else:
            yield Finding(name, Health.WARNING if name == "azure_devops" else Health.TROUBLE, "not configured", do)


def _of_running(api: str, pid: int) -> Iterator[Finding]:
    try:
        answer = httpx.get(f"{api}/readyz", timeout=10, trust_env=False)
        states = answer.json().get("stores", {})
    except (httpx.HTTPError, ValueError) as e:
        yield Finding(
            "api", Health.TROUBLE, f"process {pid} does not answer at {api} ({type(e).__name__})", "restart it"
        )
        return
    yield Finding("api", Health.OK, f"process {pid} serves at {api}")
    for name, state in states.items():
        ok = state == "ok"
        yield Finding(
            name, Health.OK if ok else Health.TROUBLE, state, "" if ok else "restart the store, then look again"
        )


def _of_engine(engine: EmbeddedEngine, *, beside_workers: bool) -> Iterator[Finding]:
    for name, ping in sorted(engine.checks.items()):
        try:
            ping()
            yield Finding(name, Health.OK, "answers")
        except ContextEngineError as e:
            yield Finding(name, Health.TROUBLE, e.message, e.mend or "start it, or mend its address in the settings")
            return
    yield Finding("embedder", Health.OK, f"{engine.embedder.name}, {engine.embedder.size} dimensions")
    names = [connector.name for connector in engine.connectors]
    yield from access_findings(engine.database, names, engine.settings.revocation_limit)
    yield from _runs(engine.database, serving=beside_workers)
    yield from work_findings(engine.database)


def _runs(database: Database, *, serving: bool) -> Iterator[Finding]:
    runs = RunStore(database)
    for run in runs.last():
        told = in_words(run.counts)
        found = f"{run.state}: {told}" if told else run.state
        # Beside an engine that serves, a run that has not ended is on its way; else it was cut short.
        ok = run.state == "complete" or (serving and run.state == "running")
        yield Finding(
            f"{run.source}/{run.reader}",
            Health.OK if ok else Health.TROUBLE if run.state in {"failed", "blocked"} else Health.WARNING,
            found,
            "" if ok else f"{run.reason or 'it was cut short'}; the next sync goes on from there",
        )
    failures = runs.failures(None)
    for failure in failures[:_SHOWN]:
        yield Finding("item", Health.WARNING, f"{failure.uri}: {failure.reason}", "`sources failures` says when again")
    if len(failures) > _SHOWN:
        yield Finding("items", Health.WARNING, f"{len(failures) - _SHOWN} more failed", "`sources failures` lists them")


def _show(findings: list[Finding]) -> None:
    out = Console(width=WIDTH)
    colour = {Health.OK: "green", Health.WARNING: "yellow", Health.TROUBLE: "red", Health.UNKNOWN: "blue"}
    for f in findings:
        lead = f"[{colour[f.health]}]{f.health.value:<8}[/] "
        line(out, 0, lead, f"[bold]{escape(f.what)}[/bold]: {escape(f.found)}")
        if f.do:
            line(out, 9, "→ ", escape(f.do))
