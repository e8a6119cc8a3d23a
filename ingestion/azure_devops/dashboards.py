"""A Grafana dashboard as a person would tell of it: panel by panel, with the queries behind each."""

from __future__ import annotations

from dataclasses import dataclass

from ingestion.azure_devops.definitions import Definition, Told, fenced
from ingestion.azure_devops.sql_names import used_names


@dataclass(frozen=True, slots=True)
class Query:
    """A query of a panel or variable; `language` is empty where it is not known, `source` names the data source."""

    language: str
    text: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel; `content` is what a panel of text says, `notes` are further sentences (thresholds, links…)."""

    id: str
    title: str
    description: str
    kind: str
    unit: str
    row: str
    queries: tuple[Query, ...]
    content: str = ""
    notes: tuple[str, ...] = ()

    def markdown(self) -> str:
        """The panel as a person would tell of it."""
        lines = [self.description] if self.description else []
        sources = list(dict.fromkeys(q.source for q in self.queries if q.source))
        # The number stands first in its line: a question about one panel finds it by that.
        facts = [f"Panel {self.id}" if self.id else "Panel", self.kind, f"unit {self.unit}" if self.unit else ""]
        facts.append(f"data source {' and '.join(sources)}" if sources else "")
        lines += [", ".join(x for x in facts if x) + ".", self.content, *self.notes]
        lines += [fenced(q.language, q.text) for q in self.queries]
        return "\n\n".join(x for x in lines if x)


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A dashboard with its panels, those inside rows too. `variables` are (name, query)."""

    uid: str
    title: str
    description: str
    tags: tuple[str, ...]
    variables: tuple[tuple[str, Query], ...]
    panels: tuple[Panel, ...]
    notes: tuple[str, ...] = ()

    @property
    def aliases(self) -> tuple[str, ...]:
        """Names under which a link to the dashboard or a panel of it finds the file."""
        if not self.uid:
            return ()
        return (f"grafana:{self.uid}", *(f"grafana:{self.uid}/{p.id}" for p in self.panels if p.id))

    @property
    def queries(self) -> tuple[Query, ...]:
        """All SQL and other queries, panel by panel, then those of variables."""
        return (*(q for p in self.panels for q in p.queries), *(q for _, q in self.variables))

    def overview(self) -> str:
        """The dashboard as a whole."""
        lines = [self.description] if self.description else []
        if self.tags:
            lines.append(f"Tags: {', '.join(self.tags)}.")
        if any(p.title for p in self.panels):
            lines.append("Panels: " + "; ".join(p.title for p in self.panels if p.title) + ".")
        lines += self.notes
        lines += [f"Variable `{name}`:\n\n{fenced(q.language, q.text)}" for name, q in self.variables]
        return "\n\n".join(lines)

    def definition(self) -> Definition:
        """The dashboard as what an item is made of."""
        overview = self.overview()
        told = [Told((self.title,), overview)] if overview else []
        for panel in self.panels:
            heading = (self.title, panel.row, panel.title or f"Panel {panel.id}".strip())
            told.append(Told(tuple(x for x in heading if x), panel.markdown()))
        names = dict.fromkeys(n for q in self.queries for n in used_names(q.text))
        return Definition(tuple(told), self.aliases, tuple(names), {"dashboard": self.title})
