"""Whether a process of server mode on this machine is well, for whoever restarts it: `python -m context_engine.health`.

It is asked every few seconds, so it reads settings and looks; it loads nothing of what the processes work with.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

from context_engine import heartbeats
from core.errors import ConfigError
from core.settings import load_settings

PROCESSES: Final = ("api", "webhooks", "beat", "worker-access", "worker-content", "metrics", "audit")
_PATIENCE: Final = 5


def main(arguments: Sequence[str]) -> int:
    """`PROCESS [SETTINGS FILE]`: 0 where it is well, 1 where not, 64 where that can't be looked at."""
    try:
        process, file = arguments[0], Path(arguments[1]) if len(arguments) > 1 else None
        trouble = trouble_of(process, file)
    except (IndexError, ConfigError) as e:
        print(e if isinstance(e, ConfigError) else f"Name a process: {', '.join(PROCESSES)}", file=sys.stderr)
        return 64
    print(trouble or "ok")
    return 1 if trouble else 0


def trouble_of(process: str, file: Path | None) -> str | None:
    """What is wrong with a process; None: nothing. Raises ConfigError for one that does not exist."""
    if process not in PROCESSES:
        raise ConfigError(f"there is no process {process!r}", mend=f"Known: {', '.join(PROCESSES)}")
    settings = load_settings(file=file)
    if process == "api":
        return _no_answer(settings.host, settings.port)
    if process == "webhooks":
        return _no_answer(settings.webhooks.host, settings.webhooks.port)
    if process == "metrics":
        return _no_answer(settings.metrics_host, settings.metrics_port, "/metrics")
    return None if heartbeats.is_alive(settings.data, process) else f"{process} has not worked for a while"


def _no_answer(host: str, port: int, path: str = "/healthz") -> str | None:
    # Whoever listens on every address is asked on this machine's own.
    url = f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}{path}"  # noqa: S104
    try:
        build_opener(ProxyHandler({})).open(url, timeout=_PATIENCE).close()
    except URLError as e:
        return f"it does not answer as it should: {e.reason}"
    except OSError as e:
        return f"it does not answer: {type(e).__name__}"
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
