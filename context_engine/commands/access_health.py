"""What `doctor` says of permissions: how old they are, and everything that is shut because it is not fully known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

from context_engine.commands.finding import Finding, Health
from core.clock import SystemClock
from graph.access_health import AccessHealth
from graph.db import Database
from graph.runs import Run, RunStore
from graph.scopes import ScopeStore
from ingestion.sync import ACCESS

_UNKNOWN = "unknown_principal_kind:"
# Identities of services of Azure DevOps itself. They stand in most lists, and none of them ever asks.
_SERVICES = frozenset(
    {"Microsoft.TeamFoundation.ServiceIdentity", "member svc", "member s2s", "member acs"},
)


def access_findings(database: Database, connectors: Sequence[str], limit: timedelta) -> Iterator[Finding]:
    """Look at the permissions of each connector. `limit` is the age beyond which its scopes are shut."""
    ages = ScopeStore(database, revocation_limit=limit).ages()
    runs = {run.source: run for run in RunStore(database).last() if run.reader == ACCESS}
    health = AccessHealth(database)
    now = SystemClock().now()
    read = health.directory_seen_at()
    if read is not None and now - read > limit:
        yield Finding(
            "directory",
            Health.WARNING,
            f"read {int((now - read).total_seconds())} s ago: memberships count no more, so nobody is shown anything",
            "run `serve` or `sync`",
        )
    for name in connectors:
        last = ages.get(name)
        what = f"permissions of {name}"
        if last is None:
            yield Finding(what, Health.WARNING, "never read to their end: nothing of it is shown", "run `sync`")
        else:
            age = now - last
            late = age > limit
            shut = f"; {health.scopes(name)} scopes are shut by age" if late else ""
            yield Finding(
                what,
                Health.WARNING if late else Health.OK,
                f"read {int(age.total_seconds())} s ago (promise: {int(limit.total_seconds())} s){shut}",
                "nothing of it is shown until they are read again: run `serve` or `sync`" if late else "",
            )
        yield from _shut(name, health, runs.get(name))
        yield from _unknown(name, runs.get(name))


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
    half = health.half_known(name)
    if half.count:
        yield Finding(
            f"groups of {name}",
            Health.WARNING,
            f"{half} are not fully known; {health.behind_half_known(name)} scopes that deny them stay shut",
            "give the connector the right to read their members, or take who is unknown out of them",
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
