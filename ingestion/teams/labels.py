"""Which of several sensitivity labels counts for a thread: the most sensitive one."""

from __future__ import annotations

from collections.abc import Iterable


def most_sensitive(labels: Iterable[str | None], order: tuple[str, ...]) -> str | None:
    """Return the most sensitive of `labels`, given all labels least sensitive first; None where there is none.

    A label that `order` does not know is taken as the most sensitive, since nobody can judge it.
    """
    rank = {label: i for i, label in enumerate(order)}
    return max((x for x in labels if x), key=lambda x: (rank.get(x, len(order)), x), default=None)
