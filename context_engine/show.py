"""A bundle for a person at a terminal, 80 columns wide."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from core.bundle import Bundle, Evidence
from core.times import ago

SNIPPET_LINES = 3


def show_bundle(bundle: Bundle, console: Console | None = None, *, most: int | None = None) -> None:
    """Print the whole bundle, or its first `most` pieces of evidence and a line for the rest."""
    out = console or Console(width=80)
    out.print(f"[bold]{escape(bundle.question)}[/bold]  [dim]as {escape(bundle.asker.name)}[/dim]")
    out.print(f"[dim]read as: {escape(bundle.interpreted_as.summary)}[/dim]")
    for g in bundle.glossary:
        own = "[green]your team's meaning[/green]" if g.yours else "elsewhere"
        out.print(
            f"  [cyan]{g.ref}[/cyan] [bold]{escape(g.term)}[/bold] = {escape(g.meaning)}  ({own}: {escape(g.context)})"
        )
    evidence = bundle.evidence if most is None else bundle.evidence[:most]
    for e in evidence:
        _evidence(out, e, bundle)
    hidden = len(bundle.evidence) - len(evidence)
    if hidden or bundle.more.dropped:
        out.print(f"  [dim]… and {hidden + bundle.more.dropped} more[/dim]")
    for p in bundle.people:
        state = "" if p.active else " [red](has left)[/red]"
        out.print(
            f"  [magenta]{p.ref}[/magenta] ask [bold]{escape(p.name)}[/bold]{state}, {escape(p.title or '')}: "
            f"{escape(p.recency)}"
        )
        for receipt in p.why[:2]:
            out.print(
                f"       because {escape(receipt.text)}{f' [{receipt.ref}]' if receipt.ref else ''}", highlight=False
            )
        for starter in p.starters[:1]:
            out.print(f"       start with: {escape(starter)}")
        if p.fallback is not None:
            out.print(f"       else [bold]{escape(p.fallback.name)}[/bold]: {escape(p.fallback.why)}")
    for c in bundle.conflicts:
        out.print(f"  [yellow]! {c.a} and {c.b} may disagree[/yellow]: {escape(c.why)}")
    if bundle.gaps:
        out.print(f"  [dim]nothing from: {', '.join(g.source.value for g in bundle.gaps)}[/dim]")
    for note in bundle.unresolved:
        out.print(f"  [dim]unresolved: {escape(note)}[/dim]")
    out.print(f"[dim]digest {bundle.digest[:12]}, {bundle.budget.used} of {bundle.budget.max_tokens} tokens[/dim]")


def _evidence(out: Console, e: Evidence, bundle: Bundle) -> None:
    author = e.author.name if e.author else "unknown"
    when = ago(e.modified_at, bundle.now) if e.modified_at else "undated"
    number = f"#{e.number} " if e.number and e.source.value in {"work_items", "pull_requests"} else ""
    head = Text.assemble(
        ("  " + e.ref.ljust(4), "cyan"),
        (e.source.value.ljust(14), "dim"),
        (number + e.title, "bold"),
        overflow="ellipsis",
    )
    head.no_wrap = True
    out.print(head)
    facts = [author, when, e.authority, *([e.state] if e.state else []), *([f"via {e.via}"] if e.via else [])]
    out.print(Padding(Text(" · ".join(facts), style="dim"), (0, 0, 0, 6)))
    if e.superseded_by:
        out.print(Padding(Text(f"superseded ({e.supersession}) by {e.superseded_by}", style="yellow"), (0, 0, 0, 6)))
    if e.staleness:
        out.print(Padding(Text(e.staleness, style="yellow"), (0, 0, 0, 6)))
    lines = [line for line in e.snippet.splitlines() if line.strip()][:SNIPPET_LINES]
    for line in lines:
        text = Text(line.strip(), overflow="ellipsis", no_wrap=True)
        out.print(Padding(text, (0, 0, 0, 6)))
