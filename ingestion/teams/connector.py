"""The connector: the directory by delta, rosters of channels, threads as its one reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from core import uris
from core.access import ScopeId
from core.clock import Clock, SystemClock
from core.settings import GraphSettings
from ingestion.connector import AccessSnapshot, Admission, Reader
from ingestion.teams.channels import ChannelLister
from ingestion.teams.client import GraphClient
from ingestion.teams.directory import Directory
from ingestion.teams.directory_feed import DirectoryFeed
from ingestion.teams.known import Known
from ingestion.teams.messages import Messages
from ingestion.teams.people import People
from ingestion.teams.places import Places
from ingestion.teams.reader import ThreadReader
from ingestion.teams.rosters import read_rosters, scope_id
from ingestion.teams.threads import ThreadWriter

NAME = "teams"


class TeamsConnector:
    """Teams and the directory behind it, through Microsoft Graph as an application.

    `labels` are all sensitivity labels, least sensitive first. `clock` says how old what is known here is; the
    machine's where none is given. Thread-safe.
    """

    name = NAME
    admission = Admission(
        acl_export="the readers of each channel, by channels/{id}/allMembers",
        change_and_deletion_feed="messages/delta per channel, and the list of what is there; deleted messages say so",
        stable_ids_and_urls="tenant, channel id and root message id; webUrl",
        timestamps="createdDateTime, lastEditedDateTime, deletedDateTime",
        authors="from.user by object id and tenant of the directory",
        demo_question="what did we decide about retries, and who answered?",
    )

    def __init__(
        self,
        settings: GraphSettings,
        *,
        labels: tuple[str, ...] = (),
        client: GraphClient | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._settings = settings
        self._tenant = settings.tenant.lower()
        self._client = client or GraphClient(settings)
        self._clock = clock or SystemClock()
        lister = ChannelLister(self._client, self._tenant, settings.teams, incoming=settings.cloud != "china")
        self._directory = DirectoryFeed(self._client, self._tenant, self._clock)
        self._known = Known(lister.list_all, self._clock)
        self._places = Places(
            self._client, self._tenant, lister, self._known, public_teams_open=settings.public_teams_open
        )
        self._writer = ThreadWriter(self._tenant, People(self._tenant, self._directory.names), labels)

    def access(self) -> AccessSnapshot:
        """Read the directory and who may read which channel. Raises SourceError where no list could be had."""
        directory = self._directory.read()
        listing = self._known.renew()
        every = [*listing.channels.values(), *listing.hidden.values()]
        rosters = read_rosters(self._client, self._tenant, every, public_teams_open=self._settings.public_teams_open)
        complete = directory.complete and not listing.broken and rosters.complete
        return AccessSnapshot(
            source=NAME,
            people=tuple(directory.people),
            containers=(*directory.containers, *rosters.containers),
            scopes=tuple(rosters.scopes),
            complete=complete,
            every_scope=not listing.broken,
            whole=None if complete else directory.whole,
            unknown_principals=directory.unknown + listing.unknown + rosters.unknown,
            notes=(*directory.notes, *listing.notes, *rosters.notes),
        )

    def memberships(self) -> AccessSnapshot:
        """Read accounts and groups only: by delta, three requests where nothing changed. Raises SourceError where a
        list could not be had."""
        directory = self._directory.read()
        return AccessSnapshot(
            source=NAME,
            people=tuple(directory.people),
            containers=tuple(directory.containers),
            complete=directory.complete,
            memberships_only=True,
            unknown_principals=directory.unknown,
            notes=tuple(directory.notes),
        )

    def access_of(self, places: Sequence[str]) -> AccessSnapshot | None:
        """Read again who may read these channels and teams (`uris.channel`, `uris.team`), and the directory where it is
        among them (`uris.directory`). None where a place is none of these, or can't be told from here. Raises
        SourceError."""
        wanted = set(places)
        directory_place = uris.directory(self._tenant)
        if wanted == {directory_place}:
            return self.memberships()
        rosters = self._places.read(sorted(wanted - {directory_place}))
        if rosters is None:
            return None
        directory = self._directory.read() if directory_place in wanted else None
        told = directory or Directory()
        return AccessSnapshot(
            source=NAME,
            people=tuple(told.people),
            containers=(*told.containers, *rosters.containers),
            scopes=tuple(rosters.scopes),
            complete=False,
            whole=directory.whole if directory else None,
            unknown_principals=rosters.unknown + told.unknown,
            notes=(*told.notes, *rosters.notes),
        )

    def readers(self) -> tuple[Reader, ...]:
        """The thread reader."""
        every = self._settings.sweep_interval
        return (
            ThreadReader(
                Messages(self._client),
                self._known,
                self._writer,
                self._tenant,
                self._clock,
                sweep_every=timedelta(seconds=every) if every else None,
            ),
        )

    def asked(self) -> Mapping[str, int]:
        """What was asked since the connector was made: requests, retries, throttled answers, seconds waited."""
        return self._client.asked()

    def scope_of(self, uri: str) -> ScopeId | None:
        """The channel's scope, which the address itself names."""
        listing = self._known.peek()
        for channel_id in listing.channels if listing else ():
            if uri.startswith(uris.thread(self._tenant, channel_id, "")):
                return scope_id(self._tenant, channel_id)
        return None

    @property
    def client(self) -> GraphClient:
        """The way to Graph, for what is not read through readers: subscriptions."""
        return self._client

    def close(self) -> None:
        """Release connections."""
        self._client.close()
