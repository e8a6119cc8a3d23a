"""How the programs tell what they measured: on which machine, and as Markdown or JSON."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def machine() -> str:
    """Processor, cores, Python."""
    cpu = next(
        (x.split(":", 1)[1].strip() for x in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in x),
        platform.machine(),
    )
    return f"{cpu}, {os.cpu_count()} cores, Python {platform.python_version()}"


def tell(result: dict[str, Any], show: Callable[[dict[str, Any]], None], *, as_json: bool) -> None:
    """Print a result: as it is, or by `show`."""
    if as_json:
        json.dump(result, sys.stdout)
    else:
        show(result)
