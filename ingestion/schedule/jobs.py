"""What there is to do, how often, and under which lease."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final, NamedTuple

from core.errors import InputError
from core.settings import Settings
from ingestion.connector import Connector
from ingestion.lanes import Lane

# How often deliveries are looked for that nobody was nudged about, and payloads that follow a rule.
_HINTS: Final = timedelta(seconds=5)
_PAYLOADS: Final = timedelta(seconds=10)
_UPKEEP: Final = timedelta(hours=1)


class JobKind(StrEnum):
    """What a job does."""

    PERMISSIONS = "permissions"
    MEMBERSHIPS = "memberships"
    HINTS = "hints"
    PAYLOADS = "payloads"
    SUBSCRIPTIONS = "subscriptions"
    CONTENT = "content"
    RECONCILIATION = "reconciliation"
    UPKEEP = "upkeep"

    @property
    def lane(self) -> Lane:
        """Where it runs."""
        crawls = (JobKind.CONTENT, JobKind.RECONCILIATION, JobKind.UPKEEP)
        return Lane.CONTENT if self in crawls else Lane.ACCESS


_OF_A_READER: Final = (JobKind.CONTENT, JobKind.RECONCILIATION)
_OF_NO_CONNECTOR: Final = (JobKind.PAYLOADS, JobKind.UPKEEP)


@dataclass(frozen=True, slots=True)
class Job:
    """One thing that is done again and again: of a connector and, for content, of one of its readers."""

    connector: str | None
    kind: JobKind
    reader: str | None = None

    @property
    def name(self) -> str:
        """Unique: `teams/content/teams`, `azure_devops/permissions`, `payloads`."""
        return "/".join(part for part in (self.connector, self.kind.value, self.reader) if part is not None)

    @property
    def lease(self) -> str:
        """The lease that is held while it runs. Whoever writes a reader's items holds that reader's; whoever writes
        rules or memberships holds the connector's `access`."""
        match self.kind:
            case JobKind.PERMISSIONS | JobKind.MEMBERSHIPS:
                return f"{self.connector}/access"
            case JobKind.CONTENT | JobKind.RECONCILIATION:
                return f"{self.connector}/{self.reader}"
            case JobKind.HINTS | JobKind.SUBSCRIPTIONS:
                return f"{self.connector}/{self.kind.value}"
            case JobKind.PAYLOADS | JobKind.UPKEEP:
                return self.kind.value

    @staticmethod
    def named(name: str) -> Job:
        """Read what `name` wrote. Raises InputError for anything else."""
        match name.split("/"):
            case [kind] if kind in _OF_NO_CONNECTOR:
                return Job(None, JobKind(kind))
            case [connector, kind, reader] if connector and reader and kind in _OF_A_READER:
                return Job(connector, JobKind(kind), reader)
            case [connector, kind] if connector and kind in set(JobKind) - {*_OF_A_READER, *_OF_NO_CONNECTOR}:
                return Job(connector, JobKind(kind))
        raise InputError("there is no such job", where="job")


class Planned(NamedTuple):
    """A job, and how long after one start the next is due."""

    job: Job
    every: timedelta

    @property
    def slack(self) -> timedelta:
        """How much too early it may start: schedulers are not exact, and a period must not be lost to that."""
        return self.every / 10


def jobs_of(connectors: Iterable[Connector], settings: Settings) -> list[Planned]:
    """Every job of these connectors, in the order in which they should run where several are due."""
    return jobs_for({c.name: [r.name for r in c.readers()] for c in connectors}, settings)


def jobs_for(readers: Mapping[str, Sequence[str]], settings: Settings) -> list[Planned]:
    """As `jobs_of`, for one that knows connectors and their readers by name only."""

    def seconds(n: float) -> timedelta:
        return timedelta(seconds=n)

    # Two readings must fit into what was promised, whatever somebody has set.
    promised = settings.revocation_limit / 2
    permissions = min(seconds(settings.permission_interval), promised)
    memberships = min(seconds(settings.membership_interval), promised)
    plan = [Planned(Job(c, JobKind.PERMISSIONS), permissions) for c in readers]
    plan += [Planned(Job(c, JobKind.MEMBERSHIPS), memberships) for c in readers]
    plan += [Planned(Job(c, JobKind.HINTS), _HINTS) for c in readers]
    plan += [Planned(Job(None, JobKind.PAYLOADS), _PAYLOADS)]
    if settings.webhooks.public_url is not None and "teams" in readers:
        plan += [Planned(Job("teams", JobKind.SUBSCRIPTIONS), seconds(settings.subscription_interval))]
    for connector, names in readers.items():
        plan += [Planned(Job(connector, JobKind.CONTENT, n), seconds(settings.content_interval)) for n in names]
    if settings.reconcile_interval:
        every = seconds(settings.reconcile_interval)
        for connector, names in readers.items():
            plan += [Planned(Job(connector, JobKind.RECONCILIATION, n), every) for n in names]
    return [*plan, Planned(Job(None, JobKind.UPKEEP), _UPKEEP)]
