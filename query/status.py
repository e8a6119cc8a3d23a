"""How old what the engine knows is, for administrators: times of syncs, and nothing of what was synced."""

from __future__ import annotations

from datetime import datetime, timedelta

from core.clock import Clock
from core.views import SourceStatus, StatusView
from graph.runs import RunStore
from graph.scopes import ScopeStore


class StatusReader:
    """Reads ages. `limit` is how old permissions may be before they fail closed; content that was not read for
    `content_limit` counts as stale."""

    def __init__(
        self, runs: RunStore, scopes: ScopeStore, clock: Clock, *, limit: timedelta, content_limit: timedelta
    ) -> None:
        self._runs = runs
        self._scopes = scopes
        self._clock = clock
        self._limit = limit
        self._content_limit = content_limit

    def read(self) -> StatusView:
        """Return the ages. Raises StoreUnavailableError."""
        now = self._clock.now()
        content = {source.value: at for source, at in self._runs.synced_at().items()}
        return StatusView(
            sources=tuple(_status(n, content[n], now, self._content_limit) for n in sorted(content)),
            permissions=tuple(_status(n, at, now, self._limit) for n, at in sorted(self._scopes.ages().items())),
        )


def _status(name: str, at: datetime | None, now: datetime, limit: timedelta) -> SourceStatus:
    if at is None:
        return SourceStatus(name=name, age=None, fresh=False)
    age = now - at
    return SourceStatus(name=name, age=round(age.total_seconds(), 3), fresh=abs(age) <= limit)
