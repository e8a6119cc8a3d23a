"""A sandbox with subscriptions, and a present that is changed step by step."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from core.clock import FixedClock
from fixtures.sandbox.azure_devops import PAT
from fixtures.sandbox.azure_devops.hook_events import EVENT_TYPES
from fixtures.sandbox.event_models import Event
from fixtures.sandbox.hooks.delivery import Delivery
from fixtures.sandbox.hooks.subscriptions import GraphSubscription, HookSubscription
from fixtures.sandbox.server import SandboxServer
from fixtures.sandbox.state_events import apply_event
from tests.sandbox import small
from tests.sandbox.receiver import Receiver
from tests.sandbox.small import Data, item, message, page

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
TEAMS: Data = {
    "Web": {
        "members": ["ann", "ben"],
        "owners": ["ann"],
        "channels": {
            "General": {"messages": [message("m1", replies=[message("r1")])]},
            "Board": {"kind": "private", "members": ["ann"], "messages": []},
            "Partners": {"kind": "shared", "members": ["ann"], "shared_with": ["team:Ops"], "messages": []},
        },
    },
    "Ops": {"members": ["cat"], "channels": {"General": {"messages": []}}},
}
PROJECT: Data = {
    "acl": small.allow("group:everyone"),
    "areas": {"/A": {}, "/A/B": {}},
    "work_items": [item(1, "/A", comments=[small.stamp() | {"text": "first"}], state="Active"), item(2)],
    "wikis": {
        "W": {"pages": {"Home": page("home")}},
        "C": {"kind": "code", "repo": "docs", "path": "/docs", "pages": {"Guide": page("guide")}},
    },
    "repos": {
        "app": {
            "commits": [small.commit("c1", a_md="one"), small.commit("c2", b_md="two") | {"branch": "topic"}],
            "pull_requests": [{"id": 7, "title": "p", "created": small.stamp(), "commits": ["c2"], "source": "topic"}],
        },
        "docs": {"commits": [small.commit("d1", readme_md="docs")]},
    },
}
EVERYWHERE = (
    *("/teams/getAllMessages", "/teams/getAllChannels", "/teams", "/teams/getAllMembers", "/users", "/groups"),
    "/teams/{Web}/channels/getAllMembers",
)
_KEPT: dict[str, list[HookSubscription | GraphSubscription]] = {}


@dataclass
class Hooked:
    """A running sandbox, its receiver, and the clock of its subscriptions."""

    server: SandboxServer
    receiver: Receiver
    clock: FixedClock
    client: httpx.Client

    def change(self, **event: Any) -> None:
        """Apply an event of a kind, as if the world had listed it."""
        state = self.server.state
        data = {"id": f"e{len(state.journal)}", "after": "10m", **event}
        with state.lock:
            apply_event(state, Event.model_validate(data))

    # --- Azure DevOps

    def ado(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """Ask the organization."""
        url = f"{self.server.ado_url}/_apis/hooks/{path}"
        return self.client.request(method, url, params={"api-version": "7.1-preview.1"}, auth=("", PAT), json=body)

    def hook(self, event: str, *, filters: Data | None = None, **consumer: Any) -> Data:
        """Subscribe to an event, whole documents and no messages."""
        inputs = {"url": self.receiver.url + "/ado", "resourceDetailsToSend": "all", "messagesToSend": "none"}
        answer = self.ado("POST", "subscriptions", hook_body(event, filters or {}, inputs | consumer))
        assert answer.status_code == 200, answer.text
        made: Data = answer.json()
        return made

    def every_hook(self) -> None:
        """Subscribe to every event there is."""

        def subscribe() -> None:
            for event in EVENT_TYPES:
                self.hook(event)

        self._as_before("hooks", subscribe)

    # --- Graph

    def graph(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """Ask Graph as the connector."""
        headers = {"Authorization": f"Bearer {self.server.graph_token()}"}
        return self.client.request(method, f"{self.server.graph_url}{path}", headers=headers, json=body)

    def body(self, resource: str, **more: Any) -> Data:
        """What a subscription is asked for with: everything, for a day."""
        day = self.clock.now() + timedelta(days=1)
        return {
            "changeType": "created,updated,deleted",
            "notificationUrl": self.receiver.url + "/graph",
            "lifecycleNotificationUrl": self.receiver.url + "/life",
            "resource": resource,
            "expirationDateTime": day.isoformat(),
            "clientState": "a secret",
        } | more

    def subscribe(self, resource: str, **more: Any) -> Data:
        """Subscribe to a resource of Graph."""
        answer = self.graph("POST", "/subscriptions", self.body(resource, **more))
        assert answer.status_code == 201, answer.text
        made: Data = answer.json()
        return made

    def every_resource(self) -> None:
        """Subscribe to everything of Graph that can be watched everywhere, and to the channels of the team Web."""

        def subscribe() -> None:
            for resource in EVERYWHERE:
                self.subscribe(resource.format(Web=self.server.state.ids.team("Web")))

        self._as_before("graph", subscribe)

    def _as_before(self, what: str, subscribe: Callable[[], None]) -> None:
        """Subscribe once for all tests: writing the same subscriptions down again takes no requests."""
        book, key = self.server.hooks.book, f"{what} {self.receiver.url}"
        if key not in _KEPT:
            subscribe()
            _KEPT[key] = [*book.hooks(), *book.graph()]
        with self.server.state.lock:
            for one in _KEPT[key]:
                book.keep(copy(one))

    def take(self) -> list[Delivery]:
        """Take what is waiting."""
        return self.server.hooks.take()

    def told(self) -> list[str]:
        """Take what is waiting, in short words."""
        return [delivery.about for delivery in self.take()]


def hook_body(event: str, filters: Data, consumer: Data) -> Data:
    """What a service hook is asked for with."""
    return {
        "publisherId": "tfs",
        "eventType": event,
        "resourceVersion": "1.0",
        "consumerId": "webHooks",
        "consumerActionId": "httpRequest",
        "publisherInputs": filters,
        "consumerInputs": consumer,
    }
