"""explain-access: why a person may or may not read an item, gate by gate, for an administrator at a terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.markup import escape

from context_engine.commands.lines import WIDTH, address, line
from context_engine.commands.record import record_of, terms_of
from context_engine.commands.target import Target
from context_engine.explain import Entry, Explainer, Explanation, GateTold
from context_engine.explain_targets import Unknown
from core import principals
from core.access import LICENCE_GATE, Outcome
from core.clock import SystemClock
from core.principals import Principal
from fixtures.sandbox.state import SandboxState
from fixtures.sandbox.world import load_world
from graph.db import Database
from graph.directory import DirectoryStore
from graph.scopes import ScopeStore

_SHOWN = 4


def explain_access(target: Target, item: str, person: str, *, as_json: bool) -> int:
    """Print why; 0 where the person may read the item, 1 where not."""
    terms, keys = terms_of(target), world_keys(target)
    with record_of(target) as database:
        explain = explainer(
            database,
            keys=keys,
            required=terms.connectors,
            limit=terms.limit,
            free_labels=terms.free_labels,
            policies=terms.policies,
        )
        explanation = explain.explain(item, person)
    if as_json:
        print(json.dumps(explanation_json(explanation)))
    else:
        show(explanation)
    return 0 if explanation.may_read else 1


def explainer(
    database: Database,
    *,
    limit: timedelta,
    required: tuple[str, ...] = (),
    keys: Mapping[str, Principal] | None = None,
    free_labels: tuple[str, ...] | None = None,
    policies: Mapping[Principal, frozenset[str]] | None = None,
) -> Explainer:
    """An explainer over a record. `limit`, `required`, `free_labels` (labels that need no word of their source) and
    `policies` (the spaces of applications that ask on their own) must be those that questions are answered with."""
    return Explainer(
        database,
        scopes=ScopeStore(database, revocation_limit=limit),
        directory=DirectoryStore(database, required=required),
        clock=SystemClock(),
        keys=keys,
        free_labels=free_labels,
        policies=policies,
    )


def world_keys(target: Target) -> dict[str, Principal]:
    """People by their keys in the world; none for an organization."""
    if target.world is None:
        return {}
    world = load_world(target.world)
    state = SandboxState(world)
    return {key: principals.user(str(world.tenant_id), state.oid(key)) for key in world.people}


def explanation_json(e: Explanation) -> dict[str, Any]:
    """An explanation as `explain-access --json` prints it."""
    item: dict[str, Any] = {"uri": e.item.uri}
    if not isinstance(e.item, Unknown):
        item |= {
            "kind": e.item.kind,
            "title": e.item.title,
            "url": e.item.url,
            "lifecycle": e.item.lifecycle,
            "label": e.item.label,
        }
    return {
        "may_read": e.may_read,
        "person": {
            "principal": e.person.principal,
            "name": e.person.name,
            "kind": e.account.kind.value if e.account else None,
            "enabled": e.account.enabled if e.account else None,
        },
        "item": item,
        "scope": _scope_json(e),
        "gates": [_gate_json(g) for g in e.gates],
        "obstacles": [{"kind": o.kind, "says": o.says, "do": o.do} for o in e.obstacles],
        "notes": list(e.notes),
    }


def _scope_json(e: Explanation) -> dict[str, Any] | None:
    if e.standing is None:
        return None
    return {
        "id": e.standing.scope.id,
        "kind": e.standing.scope.kind,
        "name": e.standing.scope.name,
        "connector": e.standing.origin,
        "read_at": e.standing.read_at.isoformat() if e.standing.read_at else None,
        "opens": e.standing.opens,
    }


def _gate_json(g: GateTold) -> dict[str, Any]:
    return {
        "gate": g.gate,
        "outcome": g.outcome.value,
        "node": g.node,
        "looked_at": list(g.looked_at),
        "entries": [
            {
                "effect": entry.effect,
                "principal": entry.principal,
                "name": entry.name,
                "path": [{"principal": s.principal, "name": s.name} for s in entry.path],
            }
            for entry in g.entries
        ],
        "would_admit": [{"principal": s.principal, "name": s.name} for s in g.would_admit],
    }


def show(e: Explanation, console: Console | None = None) -> None:
    """Print it, 80 columns wide but for the item's address, which is not broken."""
    out = console or Console(width=WIDTH)
    title = f"“{e.item.title}”" if not isinstance(e.item, Unknown) and e.item.title else "that item"
    verdict = "[bold green]YES[/]" if e.may_read else "[bold red]NO[/]"
    can = "may read" if e.may_read else "may not read"
    line(out, 0, f"{verdict}  ", f"[bold]{escape(e.person.name)}[/bold] {can} [bold]{escape(title)}[/bold]")
    address(out, 2, "item    ", e.item.uri)
    line(out, 2, "[dim]person  [/dim]", f"[dim]{escape(_account(e))}[/dim]")
    if e.standing is not None:
        scope = e.standing.scope
        read = f"{e.standing.read_at:%Y-%m-%d %H:%M:%S} UTC" if e.standing.read_at else "never"
        says = f"{escape(scope.kind)} {escape(scope.name)}; permissions read {read}"
        line(out, 2, "[dim]scope   [/dim]", f"[dim]{says}[/dim]")
    for gate in e.gates:
        _gate(out, gate)
    for obstacle in e.obstacles:
        line(out, 2, "[red]✗[/red] ", escape(obstacle.says))
        if obstacle.do:
            line(out, 4, "→ ", escape(obstacle.do))
    for note in e.notes:
        line(out, 2, "[yellow]note[/yellow] ", escape(note))


def _account(e: Explanation) -> str:
    """Object id and kind of an account; the whole principal where the directory has none."""
    if e.account is None:
        return e.person.principal
    return f"{e.person.principal.rpartition('/')[2]} ({e.account.kind.value})"


def _gate(out: Console, gate: GateTold) -> None:
    opens = gate.outcome is Outcome.ALLOWED
    mark = "[green]✓[/green] " if opens else "[red]✗[/red] "
    word = {Outcome.ALLOWED: "allows", Outcome.DENIED: "denies"}.get(gate.outcome)
    if word is None:
        line(out, 2, mark, f"[bold]{escape(gate.gate)}[/bold]: {escape(_nobody(gate))}")
        if gate.would_admit:
            line(out, 6, "", f"it would let in {escape(_some([s.name for s in gate.would_admit]))}")
        return
    for number, entry in enumerate(gate.entries[:_SHOWN]):
        says = f"{escape(gate.node or '')} {word} [bold]{escape(entry.name)}[/bold]"
        if number == 0:
            line(out, 2, mark, f"[bold]{escape(gate.gate)}[/bold]: {says}")
        else:
            line(out, 4, "", f"and {says}")
        line(out, 6, "", _path(entry))
    if len(gate.entries) > _SHOWN:
        line(out, 4, "", f"and {len(gate.entries) - _SHOWN} more entries that name them")


def _nobody(gate: GateTold) -> str:
    if gate.gate == LICENCE_GATE:
        return "they hold no access level that opens it"
    return f"no entry for them on {_some(gate.looked_at)}" if gate.looked_at else "it has no entries"


def _some(names: Sequence[str]) -> str:
    rest = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def _path(entry: Entry) -> str:
    if len(entry.path) == 1:
        return "named directly"
    return " → ".join(escape(s.name) for s in entry.path)
