"""What `doctor` says of permissions: how old they are, and everything that is shut because it is not fully known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from context_engine.commands.finding import Finding, Health
from core.clock import SystemClock
from graph.access_health import AccessAge, AccessHealth, AgeOf
from graph.db import Database
from graph.runs import Run, RunStore
from ingestion.sync import ACCESS

_UNKNOWN = "unknown_principal_kind:"
# Identities of services of Azure DevOps itself. They stand in most lists, and none of them ever asks.
_SERVICES = frozenset(
    {"Microsoft.TeamFoundation.ServiceIdentity", "member svc", "member s2s", "member acs"},
)


def access_findings(
    database: Database, connectors: Sequence[str], limit: timedelta, *, now: datetime | None = None
) -> Iterator[Finding]:
    """Look at the age of everything that access stands on, and at what is shut. `limit` is the age beyond which nothing
    is shown any more that stands on it; `now` the machine's time where it is not given."""
    runs = {run.source: run for run in RunStore(database).last() if run.reader == ACCESS}
    health = AccessHealth(database)
    now = now or SystemClock().now()
    ages = health.ages()
    known = {(age.what, age.connector): age for age in ages}
    for age in ages:
        if age.what is AgeOf.MEMBERSHIPS:
            yield _memberships(age, now, limit)
    for name in connectors:
        if (AgeOf.MEMBERSHIPS, name) not in known:
            yield Finding(
                f"memberships of {name}", Health.WARNING, "never read: nobody is answered", "run `serve` or `sync`"
            )
        yield _permissions(name, known.get((AgeOf.PERMISSIONS, name)), health, now, limit)
        yield from _half_known(name, known.get((AgeOf.UNREAD, name)), health, now, limit)
        yield from _shut(name, health, runs.get(name))
        yield from _unknown(name, runs.get(name))


def _memberships(age: AccessAge, now: datetime, limit: timedelta) -> Finding:
    late = _is_late(age, now, limit)
    if late and age.shuts_all:
        return Finding(
            "directory",
            Health.WARNING,
            f"{_read(age, now, limit)}: memberships count no more, so nobody is shown anything",
            "run `serve` or `sync`",
        )
    return Finding(
        f"memberships of {age.connector}",
        Health.WARNING if late else Health.OK,
        _read(age, now, limit),
        "run `serve` or `sync`" if late else "",
    )


def _permissions(name: str, age: AccessAge | None, health: AccessHealth, now: datetime, limit: timedelta) -> Finding:
    what = f"permissions of {name}"
    if age is None or age.since is None:
        return Finding(what, Health.WARNING, "never read to their end: nothing of it is shown", "run `sync`")
    late = _is_late(age, now, limit)
    shut = f"; {health.scopes(name)} scopes are shut by age" if late else ""
    return Finding(
        what,
        Health.WARNING if late else Health.OK,
        f"{_read(age, now, limit)}{shut}",
        "nothing of it is shown until they are read again: run `serve` or `sync`" if late else "",
    )


def _half_known(
    name: str, age: AccessAge | None, health: AccessHealth, now: datetime, limit: timedelta
) -> Iterator[Finding]:
    if age is None or (old := age.at(now)) is None:
        return
    since = f"the first for {int(old.total_seconds())} s"
    beyond = f"; past the promise of {int(limit.total_seconds())} s they let nobody in" if old > limit else ""
    yield Finding(
        f"groups of {name}",
        Health.WARNING,
        f"{health.half_known(name)} are not fully known, {since}; {health.behind_half_known(name)} scopes that deny "
        f"them stay shut{beyond}",
        "give the connector the right to read their members, or take who is unknown out of them",
    )


def _read(age: AccessAge, now: datetime, limit: timedelta) -> str:
    old = age.at(now)
    return f"read {int(old.total_seconds()) if old else 0} s ago (promise: {int(limit.total_seconds())} s)"


def _is_late(age: AccessAge, now: datetime, limit: timedelta) -> bool:
    """Whether nothing may be shown any more that stands on it. A time too far ahead is a wrong clock's, and proves
    nothing."""
    old = age.at(now)
    return old is None or not -limit <= old <= limit


def _shut(name: str, health: AccessHealth, run: Run | None) -> Iterator[Finding]:
    without = health.without_rule(name)
    if without.count:
        whole = run is not None and run.state == "complete"
        yield Finding(
            f"scopes of {name}",
            Health.OK if whole else Health.WARNING,
            f"{without} have no rule and let nobody in: switched off, gone"
            + ("" if whole else ", or with permissions that could not be read"),
            "" if whole else "give the connector the right to read their permissions",
        )


def _unknown(name: str, run: Run | None) -> Iterator[Finding]:
    counts = run.counts if run is not None else {}
    kinds = {k.removeprefix(_UNKNOWN): int(n) for k, n in sorted(counts.items()) if k.startswith(_UNKNOWN)}
    if kinds:
        harmless = kinds.keys() <= _SERVICES
        yield Finding(
            f"principals of {name}",
            Health.OK if harmless else Health.WARNING,
            f"name nobody: {', '.join(f'{n} × {kind}' for kind, n in kinds.items())}",
            "" if harmless else "a node that denies one of them stays shut: see docs/access.md, What fails closed",
        )
