"""serve: the HTTP API and the schedule, until interrupted."""

from __future__ import annotations

import logging
import os
import signal
import threading
from contextlib import ExitStack

from rich.console import Console

from context_engine.alone import alone, leases_of
from context_engine.auditing import AuditSchedule
from context_engine.commands.screen import Screen
from context_engine.commands.target import Target
from context_engine.embedded import EmbeddedEngine
from context_engine.http_server import LoopbackServer, check_free
from context_engine.metrics import serve_metrics
from context_engine.receiving import receiving
from context_engine.running import Running, announced
from context_engine.schedule import Schedule
from context_engine.worlds import AUDIENCE
from core.clock import SystemClock
from core.errors import ConfigError, StoreUnavailableError
from core.settings import load_settings

log = logging.getLogger(__name__)

TOKEN_SECONDS = 8 * 3600
_BESIDE = "Start it again when that has ended, or leave these stores to the workers"


def serve(target: Target, *, host: str | None, port: int | None) -> None:
    """Serve until SIGINT or SIGTERM; on a world, print a token for each person and a curl to try."""
    if target.running() is not None:
        raise ConfigError(
            "an engine already serves from this data folder",
            where=str(target.data),
            mend="Ask that one, stop it, or give another folder with --data",
        )
    _check_ports(target, host, port)
    out = Console(width=80)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with ExitStack() as stack:
        screen = Screen()
        with screen:
            engine = stack.enter_context(target.open(on_progress=screen.progress, on_step=screen.step))
            # Workers may run over the same stores, see `sync`.
            with alone(engine.database, leases_of(engine.connectors), engine.holder, engine.lease, mend=_BESIDE):
                screen.reports(engine.bring_up_to_date())
        refused = engine.services.service.refused.counts
        stack.enter_context(serve_metrics(engine.settings, engine.database, refused=refused))
        schedule = scheduled(engine, stack)
        if engine.audit_plane is not None:
            stack.enter_context(AuditSchedule(engine.audit_plane, every=engine.settings.audit_interval))
        if engine.sandbox is not None:
            remember = engine.sandbox.state.on_change

            def changed() -> None:
                remember()
                try:
                    schedule.nudge_all()
                except StoreUnavailableError as e:
                    log.warning("what changed is found by the next poll: %s", e)

            engine.sandbox.state.on_change = changed
        server = stack.enter_context(
            LoopbackServer(
                engine.app,
                host=host or engine.settings.host,
                port=engine.settings.port if port is None else port,
            )
        )
        sandbox = engine.sandbox.base_url if engine.sandbox else None
        stack.enter_context(announced(target.data, Running(os.getpid(), server.url, sandbox)))
        _how_to(out, engine, server.url)
        stop.wait()
        out.print("stopping")


def scheduled(engine: EmbeddedEngine, stack: ExitStack) -> Schedule:
    """The schedule of this process, and the receiver of deliveries that nudges it."""
    told: list[Schedule] = []

    def nudge(connector: str) -> None:
        for schedule in told:
            schedule.nudge(connector)

    hooks = stack.enter_context(receiving(engine, nudge))
    schedule = stack.enter_context(Schedule(engine.runner(hooks), engine.jobs(), SystemClock(), engine.stop))
    told.append(schedule)
    return schedule


def _check_ports(target: Target, host: str | None, port: int | None) -> None:
    """A first crawl may take hours: a port that can't be had is told before it."""
    s = target.settings or load_settings()
    check_free(host or s.host, s.port if port is None else port)
    if s.metrics_port:
        check_free(s.metrics_host, s.metrics_port, "metrics_port")
    if target.settings is not None and (s.webhooks.password or s.webhooks.client_state_key):
        check_free(s.webhooks.host, s.webhooks.port, "webhooks.port")


def _how_to(out: Console, engine: EmbeddedEngine, url: str) -> None:
    out.print(f"[bold]the API serves at {url}[/bold]  (docs: {url}/docs)", highlight=False)
    if engine.sandbox is None:
        return
    out.print("\ntokens (valid for 8 hours):")
    state = engine.sandbox.state
    for key, person in state.world.people.items():
        if person.kind == "service":
            continue
        token = engine.sandbox.token(key, audience=AUDIENCE, expires_in=TOKEN_SECONDS)
        print(f"\n# {person.name}{f', {person.title}' if person.title else ''}\nTOKEN_{_shell(key)}={token}")
    first = _shell(next(iter(state.world.people)))
    print(f"\nMCP clients: {url}/mcp with a token as bearer, or `context-engine mcp` (docs/mcp.md)")
    print(
        f'\ncurl -s {url}/v1/context -H "Authorization: Bearer $TOKEN_{first}" \\\n'
        "  -H 'Content-Type: application/json' -H 'Accept: text/markdown' \\\n"
        '  -d \'{"question": "what is CSR?"}\'\n',
        flush=True,
    )


def _shell(key: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in key).upper()
