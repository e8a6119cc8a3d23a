"""sources: how the last runs ended, what is parked or was given up and why, and trying it again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.markup import escape

from context_engine.commands.counts import in_words
from context_engine.commands.lines import WIDTH, line
from context_engine.commands.record import record_of
from context_engine.commands.screen import LABELS
from context_engine.commands.target import Target
from core.clock import SystemClock
from core.errors import InputError
from core.items import Source
from graph.db import Database
from graph.dead_letters import DeadLetter, DeadLetters
from graph.inbox import DeadHint, Inbox
from graph.jobs import JobStore
from graph.runs import FailedItem, Run, RunStore

_SHOWN = 50
_COLOUR = {"complete": "green", "partial": "yellow", "running": "blue", "blocked": "red", "failed": "red"}


def runs(target: Target, *, as_json: bool, history: int) -> int:
    """Tell how each reader's last run ended (or the last `history` runs); 1 where one is not complete."""
    with record_of(target) as database:
        store = RunStore(database)
        found = store.recent(history) if history else store.last()
    if as_json:
        print(json.dumps({"runs": [_run_json(r) for r in found]}))
    else:
        _show_runs(found)
    return 0 if all(r.state == "complete" for r in found) else 1


def failures(target: Target, source: str | None, *, as_json: bool) -> int:
    """List parked items, with reason, attempts and when they are tried again; 1 where there are any."""
    _check(source)
    with record_of(target) as database:
        found = RunStore(database).failures(source)
    if as_json:
        print(json.dumps({"failures": [_failure_json(f) for f in found]}))
    else:
        _show_failures(found)
    return 1 if found else 0


def dead(target: Target, *, as_json: bool) -> int:
    """List what was given up, jobs and hints of deliveries, and why; 1 where there is any."""
    with record_of(target) as database:
        letters, hints = DeadLetters(database).all(), Inbox(database, SystemClock()).dead(_SHOWN)
    if as_json:
        told = [{**asdict(d), "at": d.at.isoformat()} for d in letters]
        print(json.dumps({"dead_letters": told, "hints": [_hint_json(h) for h in hints]}))
    else:
        _show_dead(letters, hints)
    return 1 if letters or hints else 0


def retry(target: Target, source: str | None) -> int:
    """Let everything that is parked be tried by the next sync; without a source also what was given up, at once."""
    _check(source)
    with record_of(target) as database:
        waiting = RunStore(database).retry_now(source)
        print(f"{waiting} parked {'item' if waiting == 1 else 'items'} will be tried by the next sync")
        if source is None:
            _revive(database)
    return 0


def _revive(database: Database) -> None:
    letters, hints = DeadLetters(database), Inbox(database, SystemClock()).retry_dead()
    given_up = letters.all()
    jobs = JobStore(database).bring_forward([d.name for d in given_up])
    letters.remove([d.name for d in given_up])
    if jobs:
        print(f"{jobs} {'job' if jobs == 1 else 'jobs'} that had been given up will be tried at once")
    if forgotten := len(given_up) - jobs:
        print(f"{forgotten} refused {'message' if forgotten == 1 else 'messages'} can't be tried again: forgotten")
    if hints:
        print(f"{hints} {'hint' if hints == 1 else 'hints'} of deliveries will be tried again")


def _check(source: str | None) -> None:
    known = [s.value for s in Source]
    if source is not None and source not in known:
        raise InputError(f"no source {source!r}", where="--source", mend=f"Known: {', '.join(known)}")


def _show_runs(found: list[Run]) -> None:
    out = Console(width=WIDTH)
    if not found:
        out.print("nothing was synced yet")
    for run in found:
        name = LABELS["access"] if run.reader == "access" else LABELS.get(run.reader, run.reader)
        took = f", {(run.finished_at - run.started_at).total_seconds():.1f} s" if run.finished_at else ""
        colour = _COLOUR.get(run.state, "white")
        said = f"[bold]{escape(name)}[/] of {run.source}, {_time(run.started_at)}{took}"
        line(out, 0, f"[{colour}]{run.state:<9}[/] ", said)
        for told in (in_words(run.counts), _checked(run.checks), run.reason or ""):
            if told:
                line(out, 10, "", escape(told))


def _checked(checks: Mapping[str, Any]) -> str:
    if not checks:
        return ""
    if checks.get("passed"):
        return f"checks passed: {checks.get('points', 0)} points are what the record says"
    wrong = {k: v for k, v in checks.items() if v and k not in {"passed", "points", "expected_points"}}
    return "checks did not pass: " + ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in wrong.items())


def _show_failures(found: list[FailedItem]) -> None:
    out = Console(width=WIDTH)
    if not found:
        out.print("no item is parked")
        return
    now = SystemClock().now()
    for f in found[:_SHOWN]:
        # An address is not broken over lines: it is copied into other commands.
        print(f.uri)
        tries = "try" if f.attempts == 1 else "tries"
        again = "by the next sync" if f.due_at is None or f.due_at <= now else f"after {_time(f.due_at)}"
        told = f"{f.source}; {f.attempts} {tries} since {_time(f.first_at)}; again {again}"
        line(out, 3, "", f"{escape(f.reason)}\n[dim]{told}[/dim]")
    if len(found) > _SHOWN:
        out.print(f"and {len(found) - _SHOWN} more; --json lists all")


def _show_dead(letters: list[DeadLetter], hints: list[DeadHint]) -> None:
    out = Console(width=WIDTH)
    if not letters and not hints:
        out.print("nothing was given up")
        return
    for d in letters:
        print(d.name)
        line(out, 3, "", f"{escape(d.reason)}\n[dim]given up at {_time(d.at)} after {_tries(d.attempts)}[/dim]")
    for h in hints:
        # An address is not broken over lines: it is copied into other commands.
        print(h.hint.uri or h.hint.place or f"{h.hint.connector}/{h.hint.reader or 'access'}")
        told = f"[dim]delivered at {_time(h.received_at)}; {_tries(h.attempts)}[/dim]"
        line(out, 3, "", f"{escape(h.reason or 'it failed')}\n{told}")


def _tries(n: int) -> str:
    return "1 try" if n == 1 else f"{n} tries"


def _time(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S UTC")


def _run_json(run: Run) -> dict[str, Any]:
    return {
        "connector": run.source,
        "reader": run.reader,
        "state": run.state,
        "started_at": run.started_at.isoformat(),
        "finished_at": run.finished_at.isoformat() if run.finished_at else None,
        "counts": run.counts,
        "checks": run.checks,
        "reason": run.reason,
    }


def _failure_json(f: FailedItem) -> dict[str, Any]:
    return {
        "uri": f.uri,
        "source": f.source,
        "reason": f.reason,
        "attempts": f.attempts,
        "first_at": f.first_at.isoformat(),
        "at": f.at.isoformat(),
        "due_at": f.due_at.isoformat() if f.due_at else None,
    }


def _hint_json(h: DeadHint) -> dict[str, Any]:
    return {
        **h.hint.to_json(),
        "received_at": h.received_at.isoformat(),
        "attempts": h.attempts,
        "reason": h.reason,
    }
