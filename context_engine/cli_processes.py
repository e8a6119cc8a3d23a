"""The command line's processes of server mode. Each takes its settings from the environment, or from --config."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ingestion.lanes import Lane

Config = Annotated[Path | None, typer.Option("--config", help="Settings file (TOML).", metavar="FILE")]


def add_to(app: typer.Typer) -> None:
    """Add the commands to a command line."""
    for command in (api, worker, beat, webhooks):
        app.command()(command)


def api(config: Config = None) -> None:
    """Server mode: answer questions, with the query plane's credentials alone, until told to stop."""
    from context_engine.commands import processes

    processes.api(config)


def worker(
    lane: Annotated[Lane, typer.Argument(help="What decides access, or crawls.")],
    concurrency: Annotated[int, typer.Option("--concurrency", min=1, help="Jobs at once.")] = 2,
    config: Config = None,
) -> None:
    """Server mode: run jobs of one lane as the broker offers them, until told to stop."""
    from context_engine.commands import processes

    raise typer.Exit(processes.worker(config, lane, concurrency))


def beat(config: Config = None) -> None:
    """Server mode: offer every job to the workers, again and again, until told to stop."""
    from context_engine.commands import processes

    processes.beat(config)


def webhooks(config: Config = None) -> None:
    """Server mode: receive deliveries of Azure DevOps and Graph, until told to stop."""
    from context_engine.commands import processes

    processes.webhooks(config)
