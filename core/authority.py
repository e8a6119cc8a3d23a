"""Authority: how much an item's kind and owner make it binding. Never derived from rank, recency or its own claims."""

from __future__ import annotations

from enum import StrEnum


class Authority(StrEnum):
    """Six levels, most binding first."""

    CANONICAL = "canonical"
    APPROVED = "approved"
    REFERENCE = "reference"
    OBSERVED = "observed"
    INFERRED = "inferred"
    HISTORICAL = "historical"


DEFAULT_ORDER: tuple[Authority, ...] = tuple(Authority)


def position(level: str, order: tuple[Authority, ...] = DEFAULT_ORDER) -> int:
    """Place of `level` in `order`, 0 first; an unknown level sorts last."""
    return next((i for i, known in enumerate(order) if known.value == level), len(order))
