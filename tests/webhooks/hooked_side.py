"""An engine's ingestion side that learns of changes by deliveries alone: real receiver, stores and connectors."""

from __future__ import annotations

import itertools
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import httpx
from pydantic import SecretStr

from context_engine.http_server import LoopbackServer
from context_engine.wiring import build_synchronizer
from context_engine.worlds import subscribe_to_azure_devops, world_settings
from core.clock import FixedClock
from core.embedding.port import Embedder
from core.hints import HintKind
from core.settings import Settings, WebhookSettings
from fixtures.sandbox.hooks.delivery import Delivery
from fixtures.sandbox.server import SandboxServer
from graph.hinted import Hinted
from graph.inbox import Inbox
from graph.subscriptions import SubscriptionStore
from ingestion.connector import Connector
from ingestion.hint_processing import HintProcessor
from ingestion.teams.connector import TeamsConnector
from ingestion.teams.subscriptions import SubscriptionKeeper
from ingestion.webhooks.app import create_receiver
from tests.support.ingest_side import IngestSide
from tests.support.postgres import FreshDatabase
from tests.webhooks.envelopes import SUBSCRIPTION, Row

START: Final = datetime(2031, 3, 10, 9, tzinfo=UTC)
PASSWORD: Final = "hooks-password"


class HookedSide(IngestSide):
    """Subscribed to everything. `tell` delivers, `work` does what hints ask for, as the schedule's job does."""

    def __init__(
        self, sandbox: SandboxServer, database: FreshDatabase, folder: Path, embedder: Embedder | None = None
    ) -> None:
        self.clock = FixedClock(START)
        self._stack = ExitStack()
        self._numbers = itertools.count(1)
        self._port = 0
        super().__init__(sandbox, database, folder, embedder)

    def open(self) -> None:
        """Start, as a process does: nothing is known but what the stores hold."""
        super().open()
        self.synchronizer = build_synchronizer(
            self.settings, self.database, self.make_index(), self.embedder, wall_clock=self.clock
        )
        self.inbox, self.store = Inbox(self.database, self.clock), SubscriptionStore(self.database)
        receiver = create_receiver(self._hooked(None), self.inbox, self.store, lambda _: None, self.clock)
        # Whoever delivers knows one address, which outlives the process.
        self.receiver = self._stack.enter_context(LoopbackServer(receiver, port=self._port))
        self._port = int(self.receiver.url.rpartition(":")[2])
        self._stack.callback(receiver.state.receiver.ledger.close)
        teams = self.connectors[0]
        assert isinstance(teams, TeamsConnector)
        self.keeper = SubscriptionKeeper(
            teams.client, self.store, self.inbox, self._hooked(self.receiver.url), self.clock
        )
        self.hints = HintProcessor(self.inbox, self.synchronizer, self.keeper)

    def close(self) -> None:
        """End, in good order or killed: what is not in the stores is gone."""
        self._stack.close()
        super().close()

    def _hooked(self, url: str | None) -> Settings:
        hooks = WebhookSettings(password=SecretStr(PASSWORD), client_state_key=SecretStr("k"), public_url=url)
        return world_settings(self.sandbox, self.folder, {"webhooks": hooks})

    @property
    def devops(self) -> Connector:
        """Azure DevOps."""
        return self.connectors[1]

    # --- deliveries

    def subscribe(self) -> None:
        """To everything that either service can tell."""
        self.keeper.keep()
        address = f"{self.receiver.url}/hooks/azure-devops"
        subscribe_to_azure_devops(self.sandbox, address, "context-engine", PASSWORD, details="all")

    def tell(self, *deliveries: Delivery) -> None:
        """Deliver what the sandbox has to tell, or these."""
        for delivery in deliveries or self.sandbox.hooks.take():
            answer = self.sandbox.hooks.deliver(delivery)
            assert answer.status_code in (200, 202), answer.text

    def say(self, event: str, resource: Row) -> None:
        """Deliver an event of Azure DevOps that the sandbox did not send; each is another one."""
        body: dict[str, Any] = {
            "subscriptionId": SUBSCRIPTION,
            "notificationId": next(self._numbers),
            "eventType": event,
            "publisherId": "tfs",
            "resource": resource,
            "createdDate": self.clock.now().isoformat(),
        }
        url = f"{self.receiver.url}/hooks/azure-devops"
        answer = httpx.post(url, json=body, auth=("context-engine", PASSWORD))
        assert answer.json() == {"outcome": "accepted"}

    # --- what is made of them

    def work(self) -> bool:
        """Do what hints ask for that is due; whether all of it ended well."""
        well = True
        for connector in self.connectors:
            self.hints.withhold_gone(connector)
            waiting = self.hints.waiting(connector)
            if "access" in waiting:
                well = self.hints.access(connector) and well
                self.synchronizer.write_access()
            if "subscriptions" in waiting:
                well = self.hints.subscriptions(connector) and well
            for reader in connector.readers():
                if reader.name in waiting:
                    well = self.hints.items(connector, reader) and well
        return well

    def record(self, uri: str) -> Hinted:
        """What the record says of an item."""
        return self.inbox.known.of([uri])[uri]

    def pending(self, kind: HintKind = HintKind.ITEM) -> int:
        """How many hints of a kind wait, due or not."""
        with self.database.connection() as connection:
            row = connection.execute(
                "SELECT count(*) AS n FROM inbox WHERE state = 'pending' AND hint->>'kind' = %s", [kind.value]
            ).fetchone()
        assert row is not None
        return int(row["n"])

    def runs(self, reader: str) -> int:
        """How many runs of that name there were."""
        with self.database.connection() as connection:
            row = connection.execute("SELECT count(*) AS n FROM runs WHERE reader = %s", [reader]).fetchone()
        assert row is not None
        return int(row["n"])
