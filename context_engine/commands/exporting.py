"""metrics: a process that exports how the engine is doing, beside workers that fork and can't."""

from __future__ import annotations

import signal
import threading
from contextlib import closing
from pathlib import Path

from context_engine.metrics import serve_metrics
from core.errors import ConfigError
from core.settings import load_settings
from graph.db import Database


def metrics(config: Path | None) -> None:
    """Serve metrics until SIGINT or SIGTERM: as the ingestion plane's role where that is configured, which may read all
    of them, else as the query plane's. Raises ConfigError without a Postgres or a port."""
    settings = load_settings(file=config)
    url = settings.postgres_url or settings.postgres_query_url
    if url is None:
        raise ConfigError(
            "no Postgres is configured", where="postgres_url", mend="In embedded mode `serve` exports metrics itself"
        )
    if settings.metrics_port == 0:
        raise ConfigError("metrics are switched off", where="metrics_port", mend="Give it a port")
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with closing(Database(url.get_secret_value(), max_size=2)) as database, serve_metrics(settings, database) as port:
        print(f"metrics are at http://{settings.metrics_host}:{port}/metrics", flush=True)
        stop.wait()
