"""An engine's ingestion side whose schedule, deliveries and stores live by a clock that is turned by hand."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from context_engine.http_server import LoopbackServer
from context_engine.scheduling import build_runner
from context_engine.wiring import build_synchronizer
from context_engine.worlds import subscribe_to_azure_devops, world_settings
from core import principals
from core.clock import Clock, FixedClock
from core.embedding.port import Embedder
from core.errors import IdentityError, UnresolvedIdentityError
from core.principals import issue_asker
from core.settings import Settings
from fixtures.sandbox.server import SandboxServer
from graph.directory import DirectoryStore
from graph.inbox import Inbox
from graph.jobs import JobStore
from graph.scopes import ScopeStore
from graph.subscriptions import SubscriptionStore
from ingestion.schedule.agenda import Agenda
from ingestion.schedule.runner import JobResult
from ingestion.webhooks.app import create_receiver
from query.principals import PrincipalResolver
from tests.support.ingest_side import IngestSide
from tests.support.postgres import FreshDatabase

START: Final = datetime(2031, 3, 10, 9, 0, tzinfo=UTC)
PROMISED: Final = timedelta(seconds=300)
# Seconds: each comes round at least twice within what was promised.
INTERVALS: Final[Mapping[str, int]] = {
    "permission_interval": 60,
    "membership_interval": 60,
    "content_interval": 120,
    "reconcile_interval": 120,
    "subscription_interval": 600,
}
SECRETS: Final = {"password": "hooks-password", "client_state_key": "hooks-key"}


class TurnedClock:
    """The clock of whichever side is driven now."""

    def __init__(self) -> None:
        self._clock: Clock = FixedClock(START)

    def follow(self, clock: Clock) -> None:
        """Show what `clock` shows from now on."""
        self._clock = clock

    def now(self) -> datetime:
        """The time on it."""
        return self._clock.now()


class VirtualSide(IngestSide):
    """One that is driven by `wait`: due jobs run in the order of time, and nothing else does."""

    def __init__(
        self, sandbox: SandboxServer, database: FreshDatabase, folder: Path, embedder: Embedder | None = None
    ) -> None:
        self.clock = FixedClock(START)
        self._stack = ExitStack()
        super().__init__(sandbox, database, folder, embedder)

    def open(self) -> None:
        """Start: stores, sources, the receiver of deliveries, and the schedule."""
        self.settings = self._settings(None)
        super().open()
        db, clock = self.database, self.clock
        self.synchronizer = build_synchronizer(self.settings, db, self.make_index(), self.embedder, wall_clock=clock)
        receiver = create_receiver(
            self.settings, Inbox(db, clock), SubscriptionStore(db), nudge=lambda _: None, clock=clock
        )
        self.receiver = self._stack.enter_context(LoopbackServer(receiver))
        self.settings = self._settings(self.receiver.url)
        runner = build_runner(self.settings, db, self.synchronizer, self.connectors, holder="this test", clock=clock)
        self.agenda = Agenda(runner, JobStore(db, clock), clock)
        self.scopes = ScopeStore(db, revocation_limit=PROMISED, wall_clock=clock)
        self.resolver = PrincipalResolver(DirectoryStore(db, required=("teams", "azure_devops")), self.scopes)

    def close(self) -> None:
        """The process ends in good order."""
        self._stack.close()
        super().close()

    def _settings(self, public_url: str | None) -> Settings:
        webhooks: dict[str, Any] = {**SECRETS, "public_url": public_url}
        given = {**INTERVALS, "revocation_sla": int(PROMISED.total_seconds()), "webhooks": webhooks}
        return world_settings(self.sandbox, self.folder, given)

    def subscribe_to_azure_devops(self) -> None:
        """Set up a service hook for every event there is, as an administrator would."""
        address = f"{self.receiver.url}/hooks/azure-devops"
        subscribe_to_azure_devops(self.sandbox, address, self.settings.webhooks.user, SECRETS["password"])

    def wait(self, how_long: timedelta) -> list[JobResult]:
        """Let time pass, and everything run that becomes due meanwhile."""
        until, results = self.clock.now() + how_long, list[JobResult]()
        while (due := self.agenda.next_due()) <= until:
            self.clock.move_to(max(due, self.clock.now()))
            results += self.agenda.run_due(self.clock.now())
        self.clock.move_to(until)
        return results

    def shown(self) -> dict[str, set[str]]:
        """The addresses of items, comments and replies that each person may be given at this moment, by their key."""
        state = self.sandbox.state
        with self.database.connection() as connection:
            rows = connection.execute(
                "SELECT i.uri, i.scope, array_agg(DISTINCT p) AS parts FROM items i JOIN chunks c USING (uri), "
                "unnest(c.part_uris || i.uri) AS p WHERE i.shown GROUP BY i.uri, i.scope"
            ).fetchall()
        found: dict[str, set[str]] = {}
        for key in state.world.people:
            who = principals.user(state.tenant_id, state.oid(key))
            asker = issue_asker(principal=who, tenant=state.tenant_id, agent=None, scopes=frozenset())
            try:
                readable = set(self.scopes.trim_for(self.resolver.resolve(asker)).readable)
            except (IdentityError, UnresolvedIdentityError):
                readable = set()
            found[key] = {part for row in rows if row["scope"] in readable for part in row["parts"]}
        return found
