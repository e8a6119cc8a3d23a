"""One thing that `doctor` looked at."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Health(StrEnum):
    """`unknown` is not trouble, and not a promise either."""

    OK = "ok"
    WARNING = "warning"
    TROUBLE = "trouble"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was looked at, how it is, and what to do where it isn't well."""

    what: str
    health: Health
    found: str
    do: str = ""
