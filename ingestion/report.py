"""How a run went, as it is told and as the record keeps it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from graph.runs import RunStore
from ingestion.connector import Connector
from ingestion.pipeline import Tally


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a reader is: `total` None where the source does not tell."""

    connector: str
    reader: str
    done: int
    total: int | None
    finished: bool = False


@dataclass(frozen=True, slots=True)
class RunReport:
    """How one reader's run ended: `complete`, `partial` (something failed and is told), `failed` (it broke off, or
    the checks did not pass) or `blocked` (it waits for something else). `checks` is what the gate found."""

    connector: str
    reader: str
    state: str
    counts: Mapping[str, int]
    reason: str | None = None
    checks: Mapping[str, Any] = field(default_factory=dict)


class RunWriter:
    """Ends runs: in the record, and for whoever watches."""

    def __init__(self, runs: RunStore, on_progress: Callable[[Progress], None]) -> None:
        self._runs = runs
        self._on_progress = on_progress

    def end(
        self,
        run: int,
        connector: str,
        reader: str,
        state: str,
        tally: Tally,
        reason: str | None,
        checks: Mapping[str, Any] | None = None,
    ) -> RunReport:
        """Write down how the run ended, and return it."""
        counts = {word: n for word, n in sorted(tally.counts.items()) if n}
        self._runs.finish(run, state, reason, counts, checks)
        self._on_progress(Progress(connector, reader, 1, 1, finished=True))
        return RunReport(connector, reader, state, counts, reason, checks or {})


def count_asked(connector: Connector, before: Mapping[str, int], tally: Tally) -> None:
    """Count what was asked of the source since `before` (permissions that were looked at meanwhile, too)."""
    for word, n in connector.asked().items():
        tally.add(word, n - before.get(word, 0))


def told(tally: Tally) -> str | None:
    """What kept a run from reading everything, in words."""
    counts, words = tally.counts, []
    if counts["failed"]:
        words.append(f"{counts['failed']} items failed and will be retried")
    if counts["unreadable"]:
        names = sorted(k.removeprefix("unreadable:") for k in counts if k.startswith("unreadable:"))
        words.append(f"not readable for the connector, so withheld: {', '.join(names[:10])}")
    if counts["unlisted"]:
        words.append(f"{counts['unlisted']} parts could not be listed, so nothing there was taken as gone")
    return "; ".join(words) or None
