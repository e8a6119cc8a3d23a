"""Tells where two texts state different values for the same thing."""

from __future__ import annotations

from collections.abc import Sequence

from core.tuning import Tuning
from query.statements import Statement


def differing(
    ours: Sequence[Statement], theirs: Sequence[Statement], asked: frozenset[str], tuning: Tuning
) -> str | None:
    """Return the best such pair in words, about something that is `asked`; None where there is none."""
    best: tuple[float, int] | None = None
    why = None
    for x in ours:
        for y in theirs:
            if x.denied or y.denied or x.dimension != y.dimension or x.value == y.value:
                continue
            common = x.words & y.words
            if len(common) < tuning.same_subject_words or not common & asked:
                continue
            share = len(common) / min(len(x.words), len(y.words))
            if share < tuning.same_subject:
                continue
            # A side that also states the other's value for the subject agrees in part ("was 20, is 30 now").
            if states(ours, y, tuning) or states(theirs, x, tuning):
                continue
            if best is None or (share, len(common)) > best:
                best = (share, len(common))
                why = f"different values for the same thing: “{short(x.sentence)}” and “{short(y.sentence)}”"
    return why


def states(side: Sequence[Statement], value: Statement, tuning: Tuning) -> bool:
    """Whether this side states the same value for the same thing."""
    return any(
        not s.denied
        and s.dimension == value.dimension
        and s.value == value.value
        and len(s.words & value.words) >= tuning.same_subject_words
        for s in side
    )


def short(sentence: str) -> str:
    """A sentence on one line, cut at a word where it is long."""
    text = " ".join(sentence.split())
    return text if len(text) <= 160 else text[:157].rsplit(" ", 1)[0] + " …"
