"""The receiver of deliveries in this process: for an organization whose settings ask for it, and for every world."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pydantic import SecretStr

from context_engine.embedded import EmbeddedEngine
from context_engine.http_server import LoopbackServer
from context_engine.worlds import send_deliveries
from core.clock import SystemClock
from core.settings import WebhookSettings
from graph.inbox import Inbox
from graph.subscriptions import SubscriptionStore
from ingestion.webhooks.app import create_receiver
from ingestion.webhooks.paths import AZURE_DEVOPS_PATH


@contextmanager
def receiving(engine: EmbeddedEngine, nudge: Callable[[str], object]) -> Iterator[WebhookSettings | None]:
    """Receive deliveries while the context is open; the settings under which, None where none are asked for.

    On a world the secrets are made up for this time, and the sandbox sends what the services would.
    """
    hooks = engine.settings.webhooks
    sandbox = engine.sandbox
    if sandbox is not None:
        password, key = (SecretStr(secrets.token_urlsafe(24)) for _ in range(2))
        hooks = WebhookSettings(port=0, password=password, client_state_key=key)
    elif hooks.password is None and hooks.client_state_key is None:
        yield None
        return
    clock = SystemClock()
    app = create_receiver(
        engine.settings.model_copy(update={"webhooks": hooks}),
        inbox=Inbox(engine.hooks_database, clock),
        subscriptions=SubscriptionStore(engine.hooks_database),
        nudge=nudge,
        clock=clock,
    )
    with LoopbackServer(app, host=hooks.host, port=hooks.port, lifespan=True, setting="webhooks.port") as server:
        if sandbox is None:
            yield hooks
            return
        assert hooks.password is not None
        with send_deliveries(sandbox, server.url + AZURE_DEVOPS_PATH, hooks.user, hooks.password.get_secret_value()):
            yield hooks.model_copy(update={"public_url": server.url})
