"""One question under way: who asks, how it was read, and what is in focus."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from core.access import Trim
from core.bundle import Intent
from core.directory import Account
from core.principals import Principal
from graph.edges import Edge
from query.focus import Found as FocusFound
from query.interpret import Reading
from query.rank import Asker


@dataclass(slots=True, kw_only=True)
class Asking:
    """One question under way: who asks, how it was read, what is in focus, and edges of people as they are loaded."""

    trim: Trim
    reading: Reading
    focus: tuple[FocusFound, ...]
    now: datetime
    asker: Asker
    containers: Mapping[Principal, str]
    account: Account | None
    edges: dict[str, list[Edge]] = field(default_factory=dict)

    @property
    def focus_words(self) -> str:
        """What is in focus, in words, to be searched with the question."""
        return " ".join(f.words or (f.row.title if f.row is not None else "") for f in self.focus).strip()

    @property
    def focus_uris(self) -> frozenset[str]:
        """Items in focus."""
        return frozenset(f.row.uri for f in self.focus if f.row is not None)

    @property
    def channels(self) -> frozenset[str]:
        """Channels in focus."""
        return frozenset(f.container for f in self.focus if f.container is not None)

    @property
    def focus_containers(self) -> frozenset[str]:
        """Containers of what is in focus."""
        return frozenset(f.row.container for f in self.focus if f.row is not None and f.row.container)

    @property
    def wants_meaning(self) -> bool:
        """Whether a definition is asked for."""
        return self.reading.intent is Intent.DEFINITION
