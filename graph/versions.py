"""Which of two states of an item is the newer: sources deliver late and out of order."""

from __future__ import annotations

from datetime import datetime


def order(version: str, modified_at: datetime | None, than: str, than_modified_at: datetime | None) -> int | None:
    """1 newer, 0 the same age, -1 older; None where it can't be told.

    Versions that are whole numbers are compared as numbers; hashes and tags say nothing of order, so then the times
    decide.
    """
    if is_number(version) and is_number(than):
        a, b = int(version), int(than)
        return (a > b) - (a < b)
    if modified_at is not None and than_modified_at is not None:
        return (modified_at > than_modified_at) - (modified_at < than_modified_at)
    return None


def is_number(version: str) -> bool:
    """Whether a version is a whole number: a revision, a sequence, a time in milliseconds."""
    return version.isascii() and version.isdigit()
