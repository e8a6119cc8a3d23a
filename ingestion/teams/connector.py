"""The connector: directory and rosters in one access pass, threads as its one reader."""

from __future__ import annotations

from collections.abc import Mapping

from core import uris
from core.access import ScopeId
from core.errors import SourceError
from core.settings import GraphSettings
from ingestion.connector import AccessSnapshot, Admission, Reader
from ingestion.teams.channels import Rosters, read_rosters, scope_id
from ingestion.teams.client import GraphClient
from ingestion.teams.directory import read_directory
from ingestion.teams.people import People
from ingestion.teams.reader import ThreadReader
from ingestion.teams.threads import ThreadWriter

NAME = "teams"


class TeamsConnector:
    """Teams and the directory behind it, through Microsoft Graph as an application.

    `labels` are all sensitivity labels, least sensitive first.
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
        self, settings: GraphSettings, *, labels: tuple[str, ...] = (), client: GraphClient | None = None
    ) -> None:
        self._settings = settings
        self._labels = labels
        self._tenant = settings.tenant.lower()
        self._client = client or GraphClient(settings)
        self._seen: tuple[Rosters, ThreadWriter] | None = None

    def access(self) -> AccessSnapshot:
        """Read the directory and who may read which channel. Raises SourceError where no list could be had."""
        directory = read_directory(self._client, self._tenant)
        rosters = read_rosters(
            self._client, self._tenant, self._settings.teams, public_teams_open=self._settings.public_teams_open
        )
        names = {person.principal: person.name for person in directory.people}
        self._seen = rosters, ThreadWriter(self._tenant, People(self._tenant, names), self._labels)
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
        return (ThreadReader(self._client, self._tenant, self._known),)

    def asked(self) -> Mapping[str, int]:
        """Requests and retries since the connector was made."""
        return {"requests": self._client.requests, "retries": self._client.retries}

    def scope_of(self, uri: str) -> ScopeId | None:
        """The channel's scope, which the address itself names."""
        for channel in self._seen[0].channels if self._seen else ():
            if uri.startswith(uris.thread(self._tenant, channel.id, "")):
                return scope_id(self._tenant, channel.id)
        return None

    def close(self) -> None:
        """Release connections."""
        self._client.close()

    def _known(self) -> tuple[Rosters, ThreadWriter]:
        if self._seen is None:
            raise SourceError("content is read after permissions", where=NAME)
        return self._seen
