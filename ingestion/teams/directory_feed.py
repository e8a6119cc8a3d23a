"""The directory, kept in memory and brought up to date by delta: what changes most often costs three requests to see.

A fresh process begins with the whole; so does one whose link was lost, and every process once in a while, since a delta
does not tell of managers and nobody promises that it misses nothing.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from core.clock import Clock
from core.errors import SourceError, SourceNotFoundError
from core.principals import Principal
from ingestion.connector import DirectoryPerson
from ingestion.teams.account_feed import SERVICES, USERS, AccountFeed
from ingestion.teams.client import GraphClient
from ingestion.teams.directory import Directory, audiences, container_of
from ingestion.teams.group_feed import GroupFeed

WHOLE_EVERY: Final = timedelta(hours=1)
# Names are no access: those that were read some minutes ago will do.
NAMES_FOR: Final = timedelta(minutes=5)


class DirectoryFeed:
    """Accounts and groups of one tenant. Thread-safe."""

    def __init__(self, client: GraphClient, tenant: str, clock: Clock, *, whole_every: timedelta = WHOLE_EVERY) -> None:
        self._tenant, self._clock, self._whole_every = tenant, clock, whole_every
        self._users = AccountFeed(client, USERS, tenant)
        self._services = AccountFeed(client, SERVICES, tenant)
        self._groups = GroupFeed(client)
        self._lock = threading.Lock()
        self._whole_at: datetime | None = None
        self._named_at: datetime | None = None
        # Somebody is back from the deleted accounts, and no group says that they are in it again.
        self._somebody_back = False

    def read(self) -> Directory:
        """Bring everything up to date and return it. Raises SourceError where the list of accounts or of groups breaks
        off; what is known stays as it was."""
        with self._lock:
            now = self._clock.now()
            whole = self._whole_at is None or now - self._whole_at >= self._whole_every
            self._refresh_users(now, whole=whole)
            notes = []
            try:
                self._somebody_back |= self._services.refresh(whole=whole)
            except SourceNotFoundError as e:
                notes.append(f"service principals are not readable: {e}")
            self._groups.refresh(whole=whole or self._somebody_back)
            self._somebody_back = False
            if whole:
                self._whole_at = now
            return self._directory(notes)

    def names(self) -> Mapping[Principal, str]:
        """The names of people, renewed after some minutes where they can be. Raises SourceError where none were ever
        read."""
        with self._lock:
            now = self._clock.now()
            if self._named_at is None or now - self._named_at >= NAMES_FOR:
                try:
                    self._refresh_users(now, whole=self._named_at is None)
                except SourceError:
                    if self._named_at is None:
                        raise
                    self._named_at = now  # the old ones will do, and are not asked for again at once
            return {person.principal: person.name for person in self._users.found.values()}

    def _refresh_users(self, now: datetime, *, whole: bool) -> None:
        self._somebody_back |= self._users.refresh(whole=whole)
        self._named_at = now

    def _directory(self, notes: list[str]) -> Directory:
        users, services, groups = self._users, self._services, self._groups
        gone = users.gone | services.gone | groups.gone
        unknown: Counter[str] = Counter()
        people = [self._with_known_manager(person) for person in users.found.values()]
        people += services.found.values()
        containers = [
            container_of(key, group, self._tenant, gone, unknown) for key, group in sorted(groups.found.items())
        ]
        containers += audiences(self._tenant, people)
        return Directory(
            people=people,
            containers=containers,
            unknown=unknown + users.unknown + services.unknown + groups.unknown,
            complete=groups.complete,
            notes=[*notes, *groups.notes],
        )

    def _with_known_manager(self, person: DirectoryPerson) -> DirectoryPerson:
        """A manager who has left since is none."""
        key = (person.manager or "").rpartition("/")[2]
        return person if key in self._users.found else replace(person, manager=None)
