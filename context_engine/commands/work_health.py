"""What `doctor` says of work that waits or was given up: jobs, hints of webhooks, subscriptions, erasures."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from context_engine.commands.finding import Finding, Health
from core.clock import SystemClock
from graph.db import Database
from graph.dead_letters import DeadLetters
from graph.deliveries import DeliveryCounts
from graph.erasures import ErasureStore
from graph.inbox import Inbox
from graph.jobs import JobStore
from graph.runs import RunStore
from graph.subscriptions import SubscriptionStore
from ingestion.teams.connector import NAME as TEAMS
from ingestion.teams.subscriptions import silent
from ingestion.webhooks.outcomes import Outcome

_LAST_RUNS = 50
_KEPT = {Outcome.ACCEPTED, Outcome.DOUBLED, Outcome.UNDECRYPTABLE}


def work_findings(database: Database, *, now: datetime | None = None) -> Iterator[Finding]:
    """Look at everything that should have been done by now. `now`: the machine's time where it is not given."""
    now = now or SystemClock().now()
    for state in sorted(JobStore(database).states().values(), key=lambda s: s.name):
        if state.failures:
            ago = _ago(now, state.succeeded_at)
            yield Finding(
                f"job {state.name}",
                Health.WARNING,
                f"failed {state.failures} times in a row, last succeeded {ago}: {state.reason or 'cut short'}",
                "it is tried again by itself",
            )
    for letter in DeadLetters(database).all():
        yield Finding(
            f"dead letter {letter.name}",
            Health.WARNING,
            f"given up after {letter.attempts} tries: {letter.reason}",
            "`sources retry` lets it be tried again",
        )
    yield from _inbox(database, now)
    yield from _subscriptions(database, now)
    unfinished = ErasureStore(database).all(unfinished=True)
    if unfinished:
        yield Finding(
            "erasures",
            Health.WARNING,
            f"{len(unfinished)} were cut short: nothing of theirs is stored any more, but what was may be there still",
            "run `erase --resume`",
        )


def _inbox(database: Database, now: datetime) -> Iterator[Finding]:
    state = Inbox(database, SystemClock()).state()
    refused = sum(
        c.n for c in DeliveryCounts(database, SystemClock()).all() if c.outcome not in ("accepted", "doubled")
    )
    if state.pending or state.dead or refused:
        waits = f", the oldest since {_ago(now, state.oldest)}" if state.pending else ""
        yield Finding(
            "webhooks",
            Health.WARNING if state.dead else Health.OK,
            f"{state.pending} hints wait{waits}, {state.failing} of them failed before, {state.dead} were given up; "
            f"{refused} deliveries were refused so far",
            "polling finds what they told; `sources retry` lets them be tried again" if state.dead else "",
        )


def _subscriptions(database: Database, now: datetime) -> Iterator[Finding]:
    known = SubscriptionStore(database).all()
    if not known:
        return
    lapsed = [s for s in known if s.expires_at <= now]
    failing = [s for s in known if s.reason]
    quiet = silent(known, RunStore(database).recent(_LAST_RUNS, TEAMS))
    soonest = min(s.expires_at for s in known)
    ends = f"{'ended' if lapsed else 'ends'} {soonest.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    told = [
        f"{len(known)} subscriptions, the first of them {ends}",
        *([f"{len(lapsed)} have lapsed"] if lapsed else []),
        *([f"{len(failing)} could not be made or renewed: {failing[0].reason}"] if failing else []),
        *([f"{len(quiet)} told nothing although something changed"] if quiet else []),
    ]
    wrong = bool(lapsed or failing or quiet)
    yield Finding(
        "subscriptions",
        Health.WARNING if wrong else Health.OK,
        "; ".join(told),
        "look at webhooks.public_url and at the receiver; polling finds meanwhile what changes" if wrong else "",
    )


def _ago(now: datetime, at: datetime | None) -> str:
    return "never" if at is None else f"{int((now - at).total_seconds())} s ago"
