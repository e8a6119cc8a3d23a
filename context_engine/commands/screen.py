"""What commands show while they work: progress bars on a terminal, plain lines elsewhere; always on standard error."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TaskID, TextColumn
from rich.progress import Progress as Bars

from ingestion.sync import Progress, RunReport

STEPS = {
    "sandbox": "serving the world from the sandbox",
    "postgres": "starting Postgres",
    "model": "preparing the embedding model",
    "index": "opening the vector index",
}
LABELS = {
    "access": "permissions",
    "work_items": "work items",
    "wikis": "wikis",
    "code": "code and commits",
    "pull_requests": "pull requests",
    "teams": "Teams threads",
}


class Screen(AbstractContextManager["Screen"]):
    """Shows steps and per-reader progress. Quiet: nothing at all."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.console = Console(stderr=True, width=None if sys.stderr.isatty() else 80, quiet=quiet)
        self._bars: Bars | None = None
        self._tasks: dict[tuple[str, str], TaskID] = {}
        self._told: dict[tuple[str, str], int] = {}
        self._quiet = quiet

    def __enter__(self) -> Screen:
        if self.console.is_terminal and not self._quiet:
            self._bars = Bars(
                SpinnerColumn(),
                TextColumn("{task.description:<18}"),
                BarColumn(bar_width=28),
                MofNCompleteColumn(),
                console=self.console,
            )
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def step(self, name: str) -> None:
        """A step of opening the engine."""
        self.console.print(
            f"[dim]{STEPS.get(name, name)} …[/dim]" if self.console.is_terminal else STEPS.get(name, name)
        )

    def progress(self, p: Progress) -> None:
        """How far a reader is."""
        key = (p.connector, p.reader)
        name = LABELS.get(p.reader, p.reader)
        if p.reader == "access":
            name = f"{LABELS['access']} ({'Teams' if p.connector == 'teams' else 'DevOps'})"
        if self._bars is not None:
            if key not in self._tasks:
                self._tasks[key] = self._bars.add_task(name, total=p.total)
            total = p.total if p.total is not None else p.done
            if p.finished:
                done = max(self._told.get(key, 1), 1)
                self._bars.update(self._tasks[key], completed=done, total=done)
            else:
                self._bars.update(self._tasks[key], completed=p.done, total=total)
        elif p.finished:
            self.console.print(f"synced {name}")
        self._told[key] = p.done if not p.finished else self._told.get(key, 1)

    def reports(self, reports: list[RunReport]) -> None:
        """What is not complete, in words."""
        for r in reports:
            if r.state != "complete":
                self.console.print(f"[yellow]{r.connector}/{r.reader} is {r.state}[/yellow]: {r.reason}")
