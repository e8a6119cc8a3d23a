"""Metrics for Prometheus, read at each scrape, on a port of their own.

Labels name connectors, readers, jobs and outcomes; never people, items, titles or addresses.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from core.clock import Clock, SystemClock
from core.errors import ConfigError, ContextEngineError
from core.settings import Settings
from graph.access_health import TABLES_OF_ACCESS, AccessAge, AccessHealth, AgeOf
from graph.db import Database
from graph.figures import Figure, Figures

PREFIX = "context_engine_"
_AGES = {
    AgeOf.PERMISSIONS: "Seconds since the permissions of a connector were read to their end; past the revocation limit "
    "its scopes are shut.",
    AgeOf.MEMBERSHIPS: "Seconds since accounts and groups were read; past the limit, where they are the directory's, "
    "every scope is shut.",
    AgeOf.UNREAD: "Seconds since the first container could not be read whose members are not fully known now.",
}

log = logging.getLogger(__name__)


class EngineCollector(Collector):
    """Answers a scrape from the record, as far as its role may read it. A record that does not answer is told by
    `context_engine_up`, not by an error."""

    def __init__(self, database: Database, settings: Settings, clock: Clock | None = None) -> None:
        self._health = AccessHealth(database)
        self._figures = Figures(database)
        self._limit = settings.revocation_limit
        self._clock = clock or SystemClock()

    def collect(self) -> Iterable[Metric]:
        """Every metric, as of now."""
        now = self._clock.now()
        limit = GaugeMetricFamily(
            f"{PREFIX}revocation_sla_seconds", "How old what is known of access may be.", self._limit.total_seconds()
        )
        try:
            ages = self._health.ages() if self._figures.readable() >= TABLES_OF_ACCESS else []
            found = [limit, *_ages(ages, now), *map(_family, self._figures.read(now))]
        except ContextEngineError as e:
            log.warning("metrics: %s", e)
            found = [limit]
        up = GaugeMetricFamily(f"{PREFIX}up", "Whether the record answers.", float(len(found) > 1))
        return [up, *found]

    def describe(self) -> Iterable[Metric]:
        """Nothing is asked of the record before the first scrape."""
        return ()


class RefusedCollector(Collector):
    """Answers a scrape with how many callers were refused for their token. They stand in no audit log: see
    `query.refused_callers`."""

    def __init__(self, refused: Callable[[], Mapping[str, int]]) -> None:
        self._refused = refused

    def collect(self) -> Iterable[Metric]:
        """The counts, as of now."""
        told = "Requests whose token gives no right to ask, by what was wrong with it."
        family = CounterMetricFamily(f"{PREFIX}refused_callers", told, labels=["reason"])
        for reason, n in sorted(self._refused().items()):
            family.add_metric([reason], n)
        return [family]

    def describe(self) -> Iterable[Metric]:
        """Nothing is counted before the first scrape."""
        return ()


def _ages(ages: Iterable[AccessAge], now: datetime) -> Iterator[Metric]:
    families = {
        what: GaugeMetricFamily(f"{PREFIX}{what}_age_seconds", told, labels=["connector"])
        for what, told in _AGES.items()
    }
    unread = GaugeMetricFamily(
        f"{PREFIX}unread_containers", "Containers whose members are not fully known.", labels=["connector"]
    )
    for age in ages:
        old = age.at(now)
        families[age.what].add_metric([age.connector], math.inf if old is None else old.total_seconds())
        if age.what is AgeOf.UNREAD:
            unread.add_metric([age.connector], age.count)
    yield from families.values()
    yield unread


def _family(figure: Figure) -> Metric:
    kind = CounterMetricFamily if figure.kind == "counter" else GaugeMetricFamily
    family = kind(f"{PREFIX}{figure.name}", figure.help, labels=figure.labels)
    for labels, value in figure.samples:
        family.add_metric(labels, math.inf if value is None else value)
    return family


@contextmanager
def serve_metrics(
    settings: Settings,
    database: Database,
    clock: Clock | None = None,
    *,
    refused: Callable[[], Mapping[str, int]] | None = None,
) -> Iterator[int | None]:
    """Serve them on `metrics_host` and `metrics_port` while the context is open; the port, None where it is 0 (off).
    `refused` counts callers of this process that were refused for their token, by reason.

    Raises ConfigError where the port can't be had.
    """
    if settings.metrics_port == 0:
        yield None
        return
    registry = CollectorRegistry()
    registry.register(EngineCollector(database, settings, clock))
    if refused is not None:
        registry.register(RefusedCollector(refused))
    try:
        server, thread = start_http_server(settings.metrics_port, addr=settings.metrics_host, registry=registry)
    except OSError as e:
        raise ConfigError(
            f"{settings.metrics_host}:{settings.metrics_port} can't be listened on: {e.strerror}",
            where="metrics_port",
            mend="Give another port, or 0 for none",
        ) from e
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
