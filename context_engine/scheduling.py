"""Puts a runner of jobs together, for a worker's process or for the schedule of this one."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable, Sequence
from datetime import timedelta

from core.clock import Clock, SystemClock
from core.settings import Settings
from graph.audit_withheld import forget_expired
from graph.db import Database
from graph.dead_letters import DeadLetters
from graph.inbox import Inbox
from graph.jobs import JobStore
from graph.leases import LeaseStore
from graph.scopes import ScopeStore
from graph.subscriptions import SubscriptionStore
from ingestion.connector import Connector
from ingestion.hint_processing import HintProcessor
from ingestion.schedule import JobRunner, RunnerParts
from ingestion.sync import Synchronizer
from ingestion.teams.connector import TeamsConnector
from ingestion.teams.subscriptions import SubscriptionKeeper


def build_runner(
    settings: Settings,
    database: Database,
    synchronizer: Synchronizer,
    connectors: Sequence[Connector],
    *,
    holder: str,
    clock: Clock | None = None,
    stopping: Callable[[], bool] = lambda: False,
) -> JobRunner:
    """A runner over the stores. `holder` is who its leases name; `clock` is what leases and jobs go by, where None the
    database's own."""
    wall = clock or SystemClock()
    inbox = Inbox(database, wall)
    keeper = next(
        (
            SubscriptionKeeper(c.client, SubscriptionStore(database), inbox, settings, wall)
            for c in connectors
            if isinstance(c, TeamsConnector)
        ),
        None,
    )
    keep = timedelta(seconds=settings.webhooks.keep)
    return JobRunner(
        RunnerParts(
            synchronizer=synchronizer,
            connectors=connectors,
            hints=HintProcessor(inbox, synchronizer, keeper),
            leases=LeaseStore(database, clock),
            jobs=JobStore(database, clock),
            dead=DeadLetters(database, wall),
            scopes=ScopeStore(database, revocation_limit=settings.revocation_limit, wall_clock=wall),
            settings=settings,
            clock=wall,
            holder=holder,
            subscriptions=keeper,
            upkeep=(lambda: inbox.purge(keep), lambda: forget_expired(database)),
            stopping=stopping,
        )
    )


def holder_of_this_process() -> str:
    """A name that no other process has, nor had."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
