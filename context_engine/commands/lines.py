"""Lines for a terminal 80 columns wide: what does not fit goes on below its own beginning, and addresses stay whole."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

WIDTH = 80


def line(out: Console, indent: int, lead: str, text: str) -> None:
    """Print `text` behind `lead` (it may be empty), both as markup; more lines of `text` stand below its first."""
    if not lead:
        out.print(Padding(Text.from_markup(text), (0, 0, 0, indent)), highlight=False)
        return
    grid = Table.grid()
    grid.add_column(no_wrap=True)
    grid.add_column()
    grid.add_row(Text.from_markup(lead), Text.from_markup(text))
    out.print(Padding(grid, (0, 0, 0, indent)), highlight=False)


def address(out: Console, indent: int, lead: str, uri: str) -> None:
    """Print an address behind `lead`, however long: it is copied into other commands."""
    out.print(Text(" " * indent + lead + uri, style="dim"), soft_wrap=True, highlight=False)
