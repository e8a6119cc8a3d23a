"""Flags pairs of evidence that may disagree: both are shown, and the engine does not choose.

A first form, by proxy: two readable items, both relevant, that state different values for the same subject; or a
standing page and a younger text of lesser standing that decides otherwise. A pair that one side's owner has settled
(declared superseded) is no conflict.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from core.items import ItemKind
from core.text.tokens import keyword_tokens
from core.tuning import Tuning
from query.decisions import Decision, Side, lesser
from query.differ import differing, short
from query.statements import statements


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """Two items that may disagree (`a` stands before `b` in the ranking), and why."""

    a: str
    b: str
    why: str


def disagreements(
    sides: Sequence[Side],
    *,
    question: str,
    settled: Collection[tuple[str, str]],
    decisions: Sequence[Decision],
    tuning: Tuning,
) -> tuple[Disagreement, ...]:
    """Return the pairs that may disagree, each once, in the order of their better placed side.

    `settled` holds (old, new) of declared supersessions.
    """
    asked = frozenset(keyword_tokens(question))
    stated = [statements(s.text, f"{s.row.title} {s.context}") for s in sides]
    decided = {frozenset((d.old, d.new)): d for d in decisions}
    rows = {s.row.uri: s.row for s in sides}
    found: list[Disagreement] = []
    for i, a in enumerate(sides):
        for j in range(i + 1, len(sides)):
            b = sides[j]
            if (a.row.uri, b.row.uri) in settled or (b.row.uri, a.row.uri) in settled:
                continue
            if ItemKind.COMMIT in (a.row.kind, b.row.kind):
                continue  # a commit says what was changed then, not what holds
            why = differing(stated[i], stated[j], asked, tuning)
            decision = decided.get(frozenset((a.row.uri, b.row.uri)))
            if why is None and decision is not None and lesser(rows[decision.new], rows[decision.old], tuning):
                why = f"a younger text of lesser standing decides otherwise: “{short(decision.words)}”"
            if why is not None:
                found.append(Disagreement(a=a.row.uri, b=b.row.uri, why=why))
    return tuple(found[: tuning.most_conflicts])
