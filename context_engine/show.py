"""A bundle for a person at a terminal, 80 columns wide."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from core.bundle import Bundle, Evidence
from core.times import ago

SNIPPET_LINES = 3


def show_bundle(
    bundle: Bundle, console: Console | None = None, *, most: int | None = None, marked: Collection[str] = ()
) -> None:
    """Print the whole bundle, or its first `most` pieces of evidence and a line for the rest.

    `marked` are addresses that nobody else was given: they are marked, and half of what is shown is kept for them.
    """
    out = console or Console(width=80)
    out.print(f"[bold]{escape(bundle.question)}[/bold]  [dim]as {escape(bundle.asker.name)}[/dim]")
    out.print(f"[dim]read as: {escape(bundle.interpreted_as.summary)}[/dim]")
    for g in bundle.glossary:
        own = "[green]your team's meaning[/green]" if g.yours else "elsewhere"
        _line(
            out,
            2,
            f"[cyan]{g.ref}[/cyan] [bold]{escape(g.term)}[/bold] = {escape(g.meaning)}  ({own}: {escape(g.context)})",
        )
    evidence = bundle.evidence if most is None else _picked(bundle.evidence, most, marked)
    for e in evidence:
        _evidence(out, e, bundle, only=e.uri in marked)
    hidden = len(bundle.evidence) - len(evidence)
    if hidden or bundle.more.dropped:
        out.print(f"  [dim]… and {hidden + bundle.more.dropped} more[/dim]")
    for p in bundle.people:
        state = "" if p.active else " [red](has left)[/red]"
        title = f", {escape(p.title)}" if p.title else ""
        _line(
            out, 2, f"[magenta]{p.ref}[/magenta] ask [bold]{escape(p.name)}[/bold]{state}{title}: {escape(p.recency)}"
        )
        for receipt in p.why[:2]:
            _line(out, 7, f"because {escape(receipt.text)}{escape(f' [{receipt.ref}]') if receipt.ref else ''}")
        for starter in p.starters[:1]:
            _line(out, 7, f"start with: {escape(starter)}")
        if p.fallback is not None:
            _line(out, 7, f"else [bold]{escape(p.fallback.name)}[/bold]: {escape(p.fallback.why)}")
    for c in bundle.conflicts:
        _line(out, 2, f"[yellow]! {c.a} and {c.b} may disagree[/yellow]: {escape(c.why)}")
    if bundle.gaps:
        _line(out, 2, f"[dim]nothing from: {', '.join(g.source.value for g in bundle.gaps)}[/dim]")
    for note in bundle.unresolved:
        _line(out, 2, f"[dim]unresolved: {escape(note)}[/dim]")
    out.print(f"[dim]digest {bundle.digest[:12]}, {bundle.budget.used} of {bundle.budget.max_tokens} tokens[/dim]")


def _picked(evidence: Sequence[Evidence], most: int, marked: Collection[str]) -> list[Evidence]:
    """The first of all, and the first of the marked, in the bundle's own order."""
    special = [e.uri for e in evidence if e.uri in marked][: most // 2]
    others = [e.uri for e in evidence if e.uri not in special][: most - len(special)]
    chosen = {*special, *others}
    return [e for e in evidence if e.uri in chosen]


def _line(out: Console, indent: int, markup: str) -> None:
    """Print a line; where it wraps, what follows stands further in."""
    rows = Text.from_markup(markup).wrap(out, out.width - indent - 2)
    for n, row in enumerate(rows):
        row.rstrip()
        out.print(Text(" " * (indent + 2 * (n > 0))) + row)


def _evidence(out: Console, e: Evidence, bundle: Bundle, *, only: bool) -> None:
    author = e.author.name if e.author else "unknown"
    when = ago(e.modified_at, bundle.now) if e.modified_at else "undated"
    number = f"#{e.number} " if e.number and e.source.value in {"work_items", "pull_requests"} else ""
    head = Text.assemble(
        ("* " if only else "  ", "bold green"),
        (e.ref.ljust(4), "cyan"),
        (e.source.value.ljust(14), "dim"),
        (number + e.title, "bold"),
    )
    out.print(head, no_wrap=True, overflow="ellipsis")
    facts = [e.container, author, when, e.authority]
    facts += [e.state] if e.state else []
    facts += [f"via {e.via}"] if e.via else []
    _line(out, 6, f"[dim]{escape(' · '.join(facts))}[/dim]")
    if e.superseded_by:
        by = next((x.ref for x in bundle.evidence if x.uri == e.superseded_by), e.superseded_by)
        _line(out, 6, f"[yellow]superseded ({escape(str(e.supersession))}) by {escape(by)}[/yellow]")
    if e.staleness:
        _line(out, 6, f"[yellow]{escape(e.staleness)}[/yellow]")
    if e.factors is not None:
        f = e.factors
        _line(
            out,
            6,
            f"[dim]score {f.score:.3f} = relevance {f.relevance:.3f} (meaning {f.dense:.3f}, keywords {f.keyword:.3f}) "
            f"× time {f.time:.2f} × authority {f.authority:.2f} × proximity {f.proximity:.2f}[/dim]",
        )
    lines = [line for line in e.snippet.splitlines() if line.strip()][:SNIPPET_LINES]
    for line in lines:
        text = Text(line.strip(), overflow="ellipsis", no_wrap=True)
        out.print(Padding(text, (0, 0, 0, 6), expand=False))
