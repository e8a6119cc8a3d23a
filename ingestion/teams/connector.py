"""The connector: directory and rosters in one access pass, threads as its one reader."""

from __future__ import annotations

from collections.abc import Sequence

from core.access import ScopeId
from core.errors import SourceError
from core.settings import GraphSettings
from ingestion.connector import AccessSnapshot, Admission, Reader
from ingestion.teams.channels import Channel, read_rosters
from ingestion.teams.client import GraphClient
from ingestion.teams.directory import read_directory
from ingestion.teams.messages import ThreadReader

NAME = "teams"


class TeamsConnector:
    """Teams and the directory behind it, through Microsoft Graph as an application."""

    name = NAME
    admission = Admission(
        acl_export="the readers of each channel, by channels/{id}/allMembers",
        change_and_deletion_feed="messages/delta per channel; deleted messages keep their id and say when",
        stable_ids_and_urls="tenant, channel id and root message id; webUrl",
        timestamps="createdDateTime, lastEditedDateTime, deletedDateTime",
        authors="from.user by object id of the directory",
        demo_question="what did we decide about retries, and who answered?",
    )

    def __init__(self, settings: GraphSettings) -> None:
        self._settings = settings
        self._tenant = settings.tenant.lower()
        self._client = GraphClient(settings)
        self._channels: tuple[Channel, ...] | None = None

    def access(self) -> AccessSnapshot:
        """Read the directory and who may read which channel. Raises SourceError where no list could be had."""
        directory = read_directory(self._client, self._tenant)
        rosters = read_rosters(
            self._client, self._tenant, self._settings.teams, public_teams_open=self._settings.public_teams_open
        )
        self._channels = tuple(sorted(rosters.channels, key=lambda c: c.id))
        return AccessSnapshot(
            source=NAME,
            people=tuple(directory.people),
            containers=(*directory.containers, *rosters.containers),
            scopes=tuple(rosters.scopes),
            complete=directory.complete and rosters.complete,
            unknown_principals=directory.unknown + rosters.unknown,
            notes=(*directory.notes, *rosters.notes),
        )

    def readers(self) -> tuple[Reader, ...]:
        """The thread reader."""
        return (ThreadReader(self._client, self._tenant, self._known_channels),)

    def scope_of(self, uri: str) -> ScopeId | None:
        """The channel's scope, which the address itself names."""
        for channel in self._channels or ():
            if f"/channels/{channel.id}/" in uri:
                return ScopeId(f"teams/{self._tenant}/channel/{channel.id}")
        return None

    def close(self) -> None:
        """Release connections."""
        self._client.close()

    def _known_channels(self) -> Sequence[Channel]:
        if self._channels is None:
            raise SourceError("content is read after permissions", where=NAME)
        return self._channels
