"""A file that a process touches while it works, for whoever checks its health from outside."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

# Seconds between two beats, and after which a process without one counts as stuck.
EVERY: Final = 5.0
_OLDEST: Final = 60.0


def beat(data: Path, process: str) -> None:
    """Say that the process works."""
    data.mkdir(parents=True, exist_ok=True)
    _file(data, process).touch()


def age(data: Path, process: str) -> float | None:
    """Seconds since the process last said so; None: never."""
    try:
        return max(0.0, time.time() - _file(data, process).stat().st_mtime)
    except FileNotFoundError:
        return None


def is_alive(data: Path, process: str) -> bool:
    """Whether it said so lately."""
    found = age(data, process)
    return found is not None and found < _OLDEST


def _file(data: Path, process: str) -> Path:
    return data / f"{process}.heartbeat"
