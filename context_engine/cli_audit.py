"""The command line's group `audit`: what was recorded, whether it is whole, and what was withheld."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

audit = typer.Typer(help="What was asked and answered: read, check, export and prune the record.", no_args_is_help=True)

World = Annotated[Path | None, typer.Option("--world", help="Folder of a world.", metavar="DIR")]
Data = Annotated[Path | None, typer.Option("--data", help="Where the embedded stores live.", metavar="DIR")]
Config = Annotated[Path | None, typer.Option("--config", help="Settings file (TOML).", metavar="FILE")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else on standard output.")]
Asker = Annotated[
    str | None, typer.Option("--asker", help="Of this person alone: a principal (user:TENANT/OID).", metavar="WHO")
]
Since = Annotated[
    str | None, typer.Option("--from", help="Recorded at or after: a date, or a time with a zone.", metavar="TIME")
]
Until = Annotated[str | None, typer.Option("--to", help="Recorded before.", metavar="TIME")]


@audit.command()
def show(
    entry: Annotated[int | None, typer.Argument(help="One entry in full, by its number.", metavar="ENTRY")] = None,
    last: Annotated[int, typer.Option("--last", min=1, help="How many of the newest.", metavar="N")] = 20,
    withheld: Annotated[bool, typer.Option("--withheld", help="Those from whose answers something was.")] = False,
    asker: Asker = None,
    since: Since = None,
    until: Until = None,
    world: World = None,
    data: Data = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Show the newest entries, or one in full with what was withheld. Exit status 1 where there is no such entry."""
    from context_engine.commands import audit as commands

    target = commands.target(world=world, data=data, config=config)
    selection = commands.selection(since=since, until=until, asker=asker, entry=entry)
    raise typer.Exit(commands.show(target, selection, last=last, only_withheld=withheld, as_json=as_json))


@audit.command()
def verify(
    head: Annotated[
        str | None, typer.Option("--head", help="A head that was kept elsewhere: SEQ:HASH.", metavar="HEAD")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", help="An export (jsonl) instead of the database.", metavar="FILE")
    ] = None,
    world: World = None,
    data: Data = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Say whether the log is whole, and where not. Exit status 1 where it isn't. Keep the head that it prints."""
    from context_engine.commands import audit as commands

    if file is not None:
        raise typer.Exit(commands.verify_file(file, head, as_json=as_json))
    target = commands.target(world=world, data=data, config=config)
    raise typer.Exit(commands.verify_log(target, head, as_json=as_json))


@audit.command()
def export(
    since: Since = None,
    until: Until = None,
    asker: Asker = None,
    format_: Annotated[str, typer.Option("--format", help="`jsonl` (can be verified later) or `csv`.")] = "jsonl",
    output: Annotated[Path | None, typer.Option("--output", help="Write into this new file.", metavar="FILE")] = None,
    world: World = None,
    data: Data = None,
    config: Config = None,
) -> None:
    """Write entries to standard output or a file, the oldest first."""
    from context_engine.commands import audit as commands

    target = commands.target(world=world, data=data, config=config)
    selection = commands.selection(since=since, until=until, asker=asker)
    commands.export(target, selection, style=format_, output=output)


@audit.command()
def prune(
    days: Annotated[
        int | None, typer.Option("--days", min=1, help="Keep this many days (default: audit_keep_days).", metavar="N")
    ] = None,
    world: World = None,
    data: Data = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Remove entries that were kept for long enough; the log records it, and what is left still verifies."""
    from context_engine.commands import audit as commands

    commands.prune(commands.target(world=world, data=data, config=config), days, as_json=as_json)


@audit.command()
def work(config: Config = None) -> None:
    """Server mode: look into answers for what was withheld, and prune, until told to stop."""
    from context_engine.commands import processes

    processes.audit(config)
