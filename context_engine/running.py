"""Finding the engine that already runs on a data folder, so that commands talk to it instead of fighting for it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

FILE = "running.json"


@dataclass(frozen=True, slots=True)
class Running:
    """A serving process: its API and, on a world, its sandbox."""

    pid: int
    api: str
    sandbox: str | None


def find(data: Path) -> Running | None:
    """The process that serves from `data`, if one is alive."""
    try:
        running = Running(**json.loads((data / FILE).read_text("utf-8")))
        if not (isinstance(running.pid, int) and running.pid > 0 and isinstance(running.api, str)):
            return None
        os.kill(running.pid, 0)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, ProcessLookupError):
        return None
    except (ValueError, TypeError, OverflowError):  # not what `announced` writes
        return None
    except PermissionError:
        return running  # alive, and somebody else's
    return running


@contextmanager
def announced(data: Path, running: Running) -> Iterator[None]:
    """Tell other commands where this process serves while the context is open."""
    path = data / FILE
    path.write_text(json.dumps(asdict(running)), "utf-8")
    try:
        yield
    finally:
        with suppress(FileNotFoundError):
            path.unlink()
