"""Small worlds for the connector's tests, with changes made to them one by one."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from fixtures.sandbox.server import SandboxServer
from fixtures.sandbox.state_events import apply_event
from fixtures.sandbox.world_models import Event
from tests.ingestion.azure_devops.support import Store, connect

Serve = Callable[..., SandboxServer]
ORG = "ctx://ado/small"


def raw(data: bytes) -> dict[str, str]:
    """Bytes as a world writes them."""
    return {"base64": base64.b64encode(data).decode()}


def happen(server: SandboxServer, after: str = "1d", **change: Any) -> None:
    """Make one change, so long after the world's beginning."""
    data = {"id": f"e{len(server.state.journal)}", "after": after, **change}
    apply_event(server.state, Event.model_validate(data))


def edit(server: SandboxServer, number: int, after: str, by: str = "ann", **fields: Any) -> None:
    """Set fields of a work item."""
    happen(server, after, edit={"item": f"work_item:{number}", "by": by, "fields": fields})


def read(server: SandboxServer, *readers: str, **settings: Any) -> Store:
    """What a first run of these readers (all, if none is named) reads now."""
    store, connector = Store(), connect(server, **settings)
    store.sync(connector, readers or None)
    connector.close()
    return store
