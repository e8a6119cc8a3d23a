"""audit: shows, verifies, exports and prunes what was recorded of questions and answers."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from rich.console import Console
from rich.markup import escape

from context_engine.auditing import last_kept
from context_engine.commands.audit_log import audit_log_of, counted
from context_engine.commands.audit_log import selection as selection
from context_engine.commands.lines import WIDTH, address, line
from context_engine.commands.target import Target
from core.clock import SystemClock
from core.errors import ConfigError, InputError
from graph.audit_chain import ChainedEntry
from graph.audit_export import About, as_json, read_jsonl, verifier_of, write_csv, write_jsonl
from graph.audit_reading import AuditReader, Examination, Retention, Selection
from graph.audit_verify import Link, Verdict, Verifier, verify

_BARS = {
    "permissions_too_old": "its permissions were read too long ago",
    "memberships_too_old": "memberships were read too long ago",
    "deny_names_unread_container": "a deny names a group that is not fully known",
    "rule": "its rule does not let them in",
    "no_rule": "no rule is known for it",
    "outside_policy": "it lies outside what the application may be told of",
    "needs_confirmation": "its source has to confirm it for each request",
}


def target(*, world: Path | None, data: Path | None, config: Path | None) -> Target:
    """What a command runs on; see `Target.of`."""
    return Target.of(world=world, data=data, config=config)


def show(target: Target, wanted: Selection, *, last: int, only_withheld: bool, as_json: bool) -> int:
    """Print the newest entries, or the one of a number in full; 1 where there is no such entry."""
    with audit_log_of(target) as database, AuditReader(database).snapshot() as log:
        entries = log.latest(wanted, last, only_withheld=only_withheld)
        looked_into = log.examinations([e.seq for e in entries])
    if wanted.seq is not None and not entries:
        if as_json:
            print(json.dumps({"entries": []}))
        print(f"there is no entry {wanted.seq}, or none any more", file=sys.stderr)
        return 1
    if as_json:
        print(json.dumps({"entries": [_entry_json(e, looked_into.get(e.seq)) for e in entries]}))
    elif wanted.seq is not None:
        _show_one(Console(width=WIDTH), entries[0], looked_into.get(entries[0].seq))
    else:
        _show_some(Console(width=WIDTH), list(reversed(entries)), looked_into)
    return 0


def verify_log(target: Target, kept: str | None, *, as_json: bool) -> int:
    """Recompute the log of a target; 1 where it is not whole. Raises InputError for a `kept` that is no head."""
    head = Link.parse(kept) if kept is not None else None
    with audit_log_of(target) as database, AuditReader(database).snapshot() as log:
        verifier = Verifier(anchor=log.anchor(), head=log.head(), kept=head)
        verdict = verify(counted(log.entries(), log.count(), "verifying"), verifier)
    return _tell(verdict, as_json=as_json)


def verify_file(file: Path, kept: str | None, *, as_json: bool) -> int:
    """Recompute an export; 1 where it is not whole. Raises InputError for a file that is none."""
    head = Link.parse(kept) if kept is not None else None
    try:
        with file.open(encoding="utf-8") as lines:
            about, entries = read_jsonl(lines)
            verdict = verify(entries, verifier_of(about, head))
    except UnicodeDecodeError as e:
        raise InputError("that is no export of an audit log", where=str(file)) from e
    return _tell(verdict, as_json=as_json)


def export(target: Target, wanted: Selection, *, style: str, output: Path | None) -> None:
    """Write the entries of a selection, one at a time, and tell the head on standard error.

    Raises ConfigError for an unknown style or a file that is there already.
    """
    if style not in ("jsonl", "csv"):
        raise ConfigError(f"there is no format {style!r}", where="--format", mend="Give jsonl or csv")
    with audit_log_of(target) as database, AuditReader(database).snapshot() as log:
        about = About(log.anchor(), log.head(), wanted.is_everything)
        entries = counted(log.entries(wanted), log.count(wanted), "exporting")
        with _new(output) if output is not None else _standard_output() as out:
            written = write_jsonl(out, about, entries) if style == "jsonl" else write_csv(out, entries)
    print(f"{_entries(written)} written; head {about.head}", file=sys.stderr)


def prune(target: Target, days: int | None, *, as_json: bool) -> None:
    """Remove what was kept for `days` (None: the setting). Raises ConfigError where neither says how long."""
    kept = days or (target.settings.audit_keep_days if target.settings is not None else 0)
    if not kept:
        raise ConfigError("entries are kept for ever", where="audit_keep_days", mend="Set it, or give --days")
    before = last_kept(SystemClock().now(), kept)
    with audit_log_of(target) as database:
        gone = Retention(database).prune(before)
    if as_json:
        print(json.dumps({"pruned": gone, "before": before.isoformat()}))
    else:
        print(f"{_entries(gone)} from before {before:%Y-%m-%d} removed")


def _new(path: Path) -> IO[str]:
    """A new file that its owner alone may read. Raises ConfigError where there is one of that name."""
    try:
        return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8", newline="")
    except FileExistsError as e:
        raise ConfigError("there is a file of that name", where=str(path), mend="Give another name") from e


def _standard_output() -> IO[str]:
    return open(os.dup(sys.stdout.fileno()), "w", encoding="utf-8", newline="")


def _tell(verdict: Verdict, *, as_json: bool) -> int:
    if as_json:
        findings = [asdict(f) for f in verdict.findings]
        told = {"holds": verdict.holds, "entries": verdict.entries, "first": verdict.first, "head": str(verdict.head)}
        print(json.dumps({**told, "erased": verdict.erased, "faults": verdict.faults, "findings": findings}))
        return 0 if verdict.holds else 1
    out = Console(width=WIDTH)
    state = "[green]the log is whole[/green]" if verdict.holds else "[red]the log is not whole[/red]"
    erased = f", {verdict.erased} without words" if verdict.erased else ""
    out.print(f"[bold]{state}[/bold]: {_entries(verdict.entries)}{erased}", highlight=False)
    for finding in verdict.findings:
        line(out, 2, f"[red]entry {finding.first}[/red] ", f"{escape(finding.says)} ({finding.fault.value})")
    if verdict.faults > len(verdict.findings):
        line(out, 2, "", f"and {verdict.faults - len(verdict.findings)} more")
    address(out, 0, "head ", str(verdict.head))
    return 0 if verdict.holds else 1


def _show_some(out: Console, entries: Sequence[ChainedEntry], looked_into: dict[int, Examination]) -> None:
    if not entries:
        out.print("nothing was recorded")
    for entry in entries:
        found = looked_into.get(entry.seq)
        withheld = f", [yellow]{len(found.items)} withheld[/yellow]" if found is not None and found.items else ""
        shown = f"{len(entry.uris)} shown" if entry.outcome == "ok" else f"[red]{escape(entry.outcome)}[/red]"
        lead = f"[bold]{entry.seq}[/bold] {_second(entry.recorded_at)} {entry.operation}  "
        line(out, 0, lead, f"{shown}{withheld}")
        address(out, 2, "", entry.asker)
        if entry.agent:
            address(out, 4, "by ", entry.agent)
        if entry.interpreted_as:
            line(out, 4, "", escape(entry.interpreted_as))


def _show_one(out: Console, entry: ChainedEntry, found: Examination | None) -> None:
    head = f"[bold]entry {entry.seq}[/bold]: {entry.operation}, {escape(entry.outcome)}"
    out.print(f"{head}, {entry.latency_ms:.1f} ms", highlight=False)
    address(out, 2, "asker     ", entry.asker)
    if entry.agent:
        address(out, 2, "agent     ", entry.agent)
    line(out, 2, "recorded  ", f"{_second(entry.recorded_at)} (said at {_second(entry.at)})")
    line(out, 2, "read as   ", "[dim]erased[/dim]" if entry.interpreted_as is None else escape(entry.interpreted_as))
    for check in json.loads(entry.checks):
        line(out, 2, "check     ", escape(", ".join(f"{k} {v}" for k, v in check.items() if not k.endswith("digest"))))
    if entry.plane == "audit":
        line(out, 2, "did       ", escape(entry.detail))
    for uri in entry.uris:
        address(out, 2, "shown     ", uri)
    _show_withheld(out, entry, found)
    address(out, 2, "bundle    ", entry.bundle_digest or "none")
    address(out, 2, "hash      ", entry.hash)


def _show_withheld(out: Console, entry: ChainedEntry, found: Examination | None) -> None:
    if found is None:
        if entry.operation == "context" and entry.outcome == "ok":
            line(out, 2, "withheld  ", "nobody has looked yet, or no question was kept for it")
        return
    if found.outcome != "examined":
        line(out, 2, "withheld  ", f"not known: {escape(found.outcome)}")
        return
    when = "access is still what it was" if found.same_epoch else "access has changed since the question"
    line(out, 2, "withheld  ", f"{len(found.items)} of the best {found.looked_at}; {when}")
    for item in found.items:
        address(out, 4, f"{item.rank}. ", item.uri)
        for bar in item.bars:
            line(out, 7, "", escape(_BARS.get(bar, bar)))
        for gate in item.gates:
            line(out, 7, "", escape(gate))


def _entry_json(entry: ChainedEntry, found: Examination | None) -> dict[str, Any]:
    told = as_json(entry) | {"checks": json.loads(entry.checks), "detail": json.loads(entry.detail)}
    return told | {"withheld": asdict(found) | {"at": found.at.isoformat()} if found is not None else None}


def _second(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _entries(n: int) -> str:
    return f"{n} {'entry' if n == 1 else 'entries'}"
