"""The receiver: an HTTP app of its own that checks deliveries, keeps their hints, and only then acknowledges them.

It reads no source and answers no question, and works with a database role that can do no more than that.

What it answers follows what the senders do with it. Azure DevOps puts a hook on probation, and loses events, for
whatever is neither 2xx nor temporary, so whoever has the password gets 200, and 503 where the inbox can't be written;
the outcome stands in the answer. Graph drops notifications of a slow endpoint and wants 202 for what is forged, too.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final, Protocol

import anyio
from anyio import to_thread
from fastapi import FastAPI
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from core.clock import Clock
from core.errors import ConfigError, ContextEngineError
from core.settings import Settings
from core.telemetry import NO_TELEMETRY
from graph.inbox import Arrival, Inbox
from graph.subscriptions import SubscriptionStore
from ingestion.webhooks.azure_devops import AzureDevOpsParser
from ingestion.webhooks.basic_auth import is_allowed
from ingestion.webhooks.certificates import load_keys
from ingestion.webhooks.graph import GraphParser
from ingestion.webhooks.ledger import Ledger
from ingestion.webhooks.limits import Held, read_body, read_json
from ingestion.webhooks.nudge import Nudges
from ingestion.webhooks.outcomes import Outcome, Refused
from ingestion.webhooks.paths import AZURE_DEVOPS_PATH as AZURE_DEVOPS_PATH
from ingestion.webhooks.paths import GRAPH_PATH as GRAPH_PATH
from ingestion.webhooks.paths import LIFECYCLE_PATH as LIFECYCLE_PATH
from ingestion.webhooks.validation_tokens import TokenChecker

log = logging.getLogger(__name__)

AZURE_DEVOPS: Final = "azure_devops"
GRAPH: Final = "graph"
# Graph counts an answer as slow from 2.9 seconds on; what is kept after that is told again, and known by its key.
ANSWER_SECONDS: Final = 2.5
LONGEST_TOKEN: Final = 1024
# Bytes of bodies that are held in memory at once.
MOST_HELD: Final = 64 * 1024 * 1024
_AUTHORITY: Final = "https://login.microsoftonline.com"
_HEADERS: Final = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}


class Parser(Protocol):
    """Reads the body of a checked request."""

    def __call__(self, body: bytes) -> Kept: ...


@dataclass(frozen=True, slots=True)
class Kept:
    """What of a request is to be kept, which subscriptions told it, and what was refused."""

    arrivals: tuple[Arrival, ...]
    subscriptions: frozenset[str] = frozenset()
    refused: tuple[Refused, ...] = ()


class Receiver:
    """Takes requests. See `create_receiver`."""

    def __init__(
        self,
        settings: Settings,
        inbox: Inbox,
        subscriptions: SubscriptionStore,
        nudge: Callable[[str], object],
        clock: Clock,
    ) -> None:
        self._hooks = settings.webhooks
        self._inbox, self._clock = inbox, clock
        self._nudges = Nudges(nudge)
        self.ledger = Ledger(inbox.counts, subscriptions, clock)
        self._ado = _azure_devops_parser(settings)
        self._graph = _graph_parser(settings, subscriptions)
        self.held = Held(MOST_HELD)
        self._pinged: tuple[float, bool] | None = None

    async def azure_devops(self, request: Request) -> Response:
        """A delivery of a service hook."""
        password = self._hooks.password
        if self._ado is None or password is None:
            return self._refuse(AZURE_DEVOPS, Refused(Outcome.FORGED, "no password is set, so nobody has it"), 401)
        header = request.headers.get("authorization")
        if not is_allowed(header, self._hooks.user, password.get_secret_value()):
            answer = self._refuse(AZURE_DEVOPS, Refused(Outcome.FORGED, "user or password is missing or wrong"), 401)
            answer.headers["WWW-Authenticate"] = 'Basic realm="hooks", charset="UTF-8"'
            return answer
        ado = self._ado

        def parse(body: bytes) -> Kept:
            return Kept((ado.read(read_json(body), self._clock.now()),))

        return await self._take(AZURE_DEVOPS, request, parse, done=200, useless=200)

    async def graph(self, request: Request) -> Response:
        """A notification, a lifecycle event, or the question whether we are there."""
        if self._graph is None:
            return self._refuse(GRAPH, Refused(Outcome.FORGED, "no client_state_key is set, so nobody has it"), 403)
        if "validationToken" in request.query_params:
            return _handshake(request.query_params.getlist("validationToken"))
        graph = self._graph

        def parse(body: bytes) -> Kept:
            found = graph.read(read_json(body), self._clock.now())
            return Kept(tuple(found.arrivals), frozenset(found.subscriptions), tuple(found.refused))

        return await self._take(GRAPH, request, parse, done=202, useless=400)

    async def health(self, _: Request) -> Response:
        """Whether deliveries can be kept now; looked at once a second at most."""
        now = anyio.current_time()
        if self._pinged is None or now - self._pinged[0] > 1.0:
            self._pinged = now, await self._answers()
        well = self._pinged[1]
        return JSONResponse({"status": "ok" if well else "unavailable"}, 200 if well else 503, headers=_HEADERS)

    async def _answers(self) -> bool:
        with anyio.move_on_after(ANSWER_SECONDS):
            try:
                await to_thread.run_sync(self._inbox.ping, abandon_on_cancel=True)
                return True
            except ContextEngineError as e:
                log.warning("the inbox can't be written: %s", e)
        return False

    async def _take(self, source: str, request: Request, parse: Parser, *, done: int, useless: int) -> Response:
        """Read, keep and acknowledge; `useless` is the answer to what nothing can be made of."""
        body = bytearray()
        try:
            await read_body(request, body, most=self._hooks.max_bytes, held=self.held)
            keep = partial(self._keep, source, parse, bytes(body))
            with anyio.fail_after(ANSWER_SECONDS):
                outcome, connectors = await to_thread.run_sync(keep, abandon_on_cancel=True)
        except Refused as refusal:
            status = {Outcome.OVERSIZED: 413, Outcome.SLOW: 408, Outcome.UNKEPT: 503}.get(refusal.outcome, useless)
            return self._refuse(source, refusal, status)
        except TimeoutError:
            return self._refuse(source, Refused(Outcome.UNKEPT, "the inbox takes too long"), 503)
        except ContextEngineError as e:
            return self._refuse(source, Refused(Outcome.UNKEPT, str(e)), 503)
        except Exception as e:
            # A defect of ours; by its kind only, since its words may hold what was sent. It is told again.
            return self._refuse(source, Refused(Outcome.UNKEPT, f"an error of ours ({type(e).__name__})"), 503)
        finally:
            self.held.free(len(body))
        nudge = BackgroundTask(self._nudges.send, connectors) if connectors else None
        if done == 202:  # whoever forged a part of it is not told which
            return Response(status_code=done, headers=_HEADERS, background=nudge)
        return JSONResponse({"outcome": outcome.value}, done, headers=_HEADERS, background=nudge)

    def _keep(self, source: str, parse: Parser, body: bytes) -> tuple[Outcome, Iterable[str]]:
        """Keep the hints of a request; what became of it, and for which connectors there is work now."""
        kept = parse(body)
        received = self._inbox.receive(source, kept.arrivals)
        idle = sum(not arrival.hints for arrival in kept.arrivals)
        self.ledger.count(source, Outcome.ACCEPTED, received.new + idle)
        self.ledger.count(source, Outcome.DOUBLED, received.doubled)
        for refusal in kept.refused:
            self.ledger.count(source, refusal.outcome, why=refusal.why)
        self.ledger.delivered(kept.subscriptions)
        connectors = {h.connector for a in kept.arrivals for h in a.hints} if received.new else set()
        outcome = Outcome.ACCEPTED if received.new + idle or not received.doubled else Outcome.DOUBLED
        return outcome, connectors

    def _refuse(self, source: str, refusal: Refused, status: int) -> Response:
        self.ledger.count(source, refusal.outcome, why=refusal.why)
        # Whose secret was not seen is not told what was wrong.
        told = {"outcome": "refused" if status in (401, 403) else refusal.outcome.value}
        # Of what was refused the rest may not have been read.
        return JSONResponse(told, status, headers={**_HEADERS, "Connection": "close"})


def create_receiver(
    settings: Settings,
    inbox: Inbox,
    subscriptions: SubscriptionStore,
    nudge: Callable[[str], object],
    clock: Clock,
) -> FastAPI:
    """The receiver's app. `nudge(connector)` is called after hints for a connector were kept; what it raises is logged.

    `app.state.receiver.ledger` has the counters; they are written when the app shuts down in good order, too. Raises
    ConfigError for settings that can't be.
    """
    if settings.webhooks.keep <= settings.webhooks.max_age:
        raise ConfigError(
            "doubles must be remembered for longer than a delivery may be old",
            where="webhooks.keep",
            mend="Set it above webhooks.max_age",
        )
    receiver = Receiver(settings, inbox, subscriptions, nudge, clock)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await to_thread.run_sync(receiver.ledger.close)

    app = FastAPI(
        telemetry=NO_TELEMETRY,
        title="Context engine: webhooks",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        lifespan=lifespan,
    )
    app.state.receiver = receiver
    app.add_route(AZURE_DEVOPS_PATH, receiver.azure_devops, methods=["POST"])
    app.add_route(GRAPH_PATH, receiver.graph, methods=["POST"])
    app.add_route(LIFECYCLE_PATH, receiver.graph, methods=["POST"])
    app.add_route("/healthz", receiver.health, methods=["GET"])
    return app


def _handshake(tokens: list[str]) -> Response:
    """Say the token back, as text that no browser takes for anything else. Nothing is fetched or logged."""
    if len(tokens) != 1 or not 0 < len(tokens[0].encode("utf-8", "replace")) <= LONGEST_TOKEN:
        return PlainTextResponse("no token", 400, headers=_HEADERS)
    return PlainTextResponse(tokens[0], headers=_HEADERS)


def _azure_devops_parser(settings: Settings) -> AzureDevOpsParser | None:
    hooks = settings.webhooks
    if hooks.password is None:
        return None
    organization = hooks.organization or (settings.azure_devops.organization if settings.azure_devops else None)
    return AzureDevOpsParser(
        _needed(organization, "organization", "whose deliveries are taken"), max_age=timedelta(seconds=hooks.max_age)
    )


def _graph_parser(settings: Settings, subscriptions: SubscriptionStore) -> GraphParser | None:
    hooks, graph = settings.webhooks, settings.graph
    if hooks.client_state_key is None:
        return None
    tenant = _needed(hooks.tenant or (graph.tenant if graph else None), "tenant", "whose notifications are taken")
    client_id = hooks.client_id or (graph.client_id if graph else None)
    keys = load_keys(hooks)
    tokens = None
    if client_id is not None:
        authority = _authority(settings)
        uri = hooks.token_keys_uri or f"{authority}/common/discovery/v2.0/keys"
        tokens = TokenChecker(uri, tenant=tenant.lower(), client_id=client_id, authority=authority)
    elif keys is not None:
        _needed(None, "client_id", "for which resource data is sent")
    return GraphParser(
        tenant=tenant,
        key=hooks.client_state_key.get_secret_value(),
        max_age=timedelta(seconds=hooks.max_age),
        resources_of=subscriptions.resources_of,
        tokens=tokens,
        keys=keys,
    )


def _authority(settings: Settings) -> str:
    if settings.graph is None:
        return _AUTHORITY
    from ingestion.teams.clouds import endpoints

    return endpoints(settings.graph).authority


def _needed(value: str | None, name: str, what: str) -> str:
    if not value:
        raise ConfigError(f"it is not known {what}", where=f"webhooks.{name}", mend="Set it")
    return value
