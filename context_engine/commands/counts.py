"""What a run counted, in words: each word once, with its reasons in brackets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# In the order of an item's way; whatever else is counted follows.
_ORDER = (
    *("scopes", "seen", "new", "changed", "unchanged", "moved", "restored", "outdated", "deleted", "missed"),
    *("withheld", "embedded", "retried", "skipped", "failed"),
)


def in_words(counts: Mapping[str, Any]) -> str:
    """As in "seen 45, new 45, skipped 6 (read as a wiki page)"; nothing that is 0. A name in `_s` counts seconds."""
    totals: dict[str, float] = {}
    reasons: dict[str, dict[str, float]] = {}
    for name, n in counts.items():
        word, colon, why = name.partition(":")
        if not n:
            continue
        if colon:
            reasons.setdefault(word, {})[why] = n
        else:
            totals[word] = n
    for word, of in reasons.items():
        totals.setdefault(word, sum(of.values()))
    ranks = {word: rank for rank, word in enumerate(_ORDER)}
    words = sorted(totals, key=lambda word: (ranks.get(word, len(ranks)), word))
    return ", ".join(_counted(word, totals[word]) + _why(reasons.get(word), totals[word]) for word in words)


def _counted(word: str, n: float) -> str:
    return f"{word.removesuffix('_s').replace('_', ' ')} {n}{' s' if word.endswith('_s') else ''}"


def _why(reasons: Mapping[str, float] | None, total: float) -> str:
    if not reasons:
        return ""
    if len(reasons) == 1 and total in reasons.values():
        return f" ({next(iter(reasons))})"
    told = sorted(reasons.items(), key=lambda x: (-x[1], x[0]))
    return f" ({', '.join(f'{why} {n}' for why, n in told)})"
