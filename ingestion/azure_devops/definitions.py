"""What a definition kept as code (a dashboard, a model with its measures) is told as, whichever product wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Told:
    """One thing that a person would ask about: a panel, a measure, a table. `text` is Markdown."""

    heading: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Definition:
    """A file told thing by thing.

    `aliases` are names under which links and questions find it; `sql_names` the tables and views that it reads.
    """

    told: tuple[Told, ...]
    aliases: tuple[str, ...] = ()
    sql_names: tuple[str, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)


def fenced(language: str, text: str) -> str:
    """Text as a code block whose marker does not occur in it."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text.strip()}\n{fence}"
