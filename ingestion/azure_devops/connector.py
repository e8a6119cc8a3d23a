"""The Azure DevOps connector: one organization's access and content behind the port of connectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from core.access import ScopeId
from core.clock import Clock
from core.principals import Principal
from core.settings import AzureDevOpsSettings
from ingestion.azure_devops.client import AdoClient
from ingestion.azure_devops.code import CodeReader
from ingestion.azure_devops.directory import Directory
from ingestion.azure_devops.faults import shaped
from ingestion.azure_devops.guard import Sound
from ingestion.azure_devops.identities import Identities
from ingestion.azure_devops.organization import Organization
from ingestion.azure_devops.permissions import Permissions, WorkedOut
from ingestion.azure_devops.pull_requests import PullRequestsReader
from ingestion.azure_devops.throttle import Traffic
from ingestion.azure_devops.wikis import WikisReader
from ingestion.azure_devops.work_items import WorkItemsReader
from ingestion.connector import AccessSnapshot, Admission, Reader

ADMISSION = Admission(
    acl_export=(
        "ACLs of the namespaces Project, CSS (areas) and Git Repositories are dumped whole, with project visibility "
        "and access levels; every item has the rule of its area node, repo or wiki."
    ),
    change_and_deletion_feed=(
        "Work items by the reporting feed's continuation token and the recycle bin; wikis and code by comparing the "
        "head commit's tree with the last one read; pull requests by comparing the whole list."
    ),
    stable_ids_and_urls=(
        "Work item, page, pull request and commit ids survive renames and moves, as do the GUIDs of repos, wikis and "
        "areas; web addresses are made from the names of the day."
    ),
    timestamps="Work items and pull requests carry their own; files and pages have those of their commits.",
    authors=(
        "Identities carry a subject descriptor that Graph maps to an Entra object id; commits carry an address, which "
        "counts where exactly one account has it."
    ),
    demo_question='"I need to do an integration with a new partner, where do I do this?"',
)


# Another process may have met a group that this one has not: a reading of memberships takes no kind of them as gone.
_TAKEN_AS_GONE = frozenset[str]()


class AzureDevOpsConnector:
    """Reads one organization. `clock` says what is long ago; the machine's, unless a world has one of its own."""

    def __init__(
        self, settings: AzureDevOpsSettings, *, client: AdoClient | None = None, clock: Clock | None = None
    ) -> None:
        self._org = Organization(settings, client, clock)
        # Of the last reading of permissions: the rules, and whom they name.
        self._rules: WorkedOut | None = None
        self._mentioned: frozenset[Principal] | None = None

    @property
    def name(self) -> str:
        """`azure_devops`, the key of the access snapshot."""
        return "azure_devops"

    @property
    def admission(self) -> Admission:
        """The answers to the six admission questions."""
        return ADMISSION

    def access(self) -> AccessSnapshot:
        """Read ACLs, groups and access levels. People are Microsoft Graph's to tell.

        Raises SourceError where the projects, the people or the namespaces can't be listed: without them no rule can
        be written down, and what was known before stays until its time limit.
        """
        with self._org.client.run_apart(), shaped("permissions"):
            return self._access()

    def _access(self) -> AccessSnapshot:
        catalogue = self._org.refresh()
        identities = self._org.refresh_identities()
        permissions = Permissions(self._org.client, self._org.sdk, identities, catalogue)
        permissions.read()
        rules = permissions.work_out(self._rules)
        mentioned = self._mentioned
        if self._rules is not rules or mentioned is None:
            mentioned = frozenset(p for scope in rules.scopes for p in scope.acl.mentioned())
            # Where lists broke off, what they named before counts on.
            broken = catalogue.problems or permissions.problems
            self._mentioned = mentioned | (self._mentioned or frozenset()) if broken else mentioned
            self._rules = rules
        snapshot = self._belonging(identities, mentioned)
        problems = [*catalogue.problems, *permissions.problems, *snapshot.notes]
        return replace(
            snapshot,
            scopes=rules.scopes,
            complete=not problems,
            every_scope=problems == permissions.refused,
            notes=tuple(problems),
            memberships_only=False,
            whole=None,
        )

    def memberships(self) -> AccessSnapshot:
        """Read groups and access levels: the groups that mattered to the rules when this process last read these.

        Which groups do is known by reading the permissions, so the first time that is done. What a group no longer
        matters to, or when it is deleted, is told by `access` alone. Raises SourceError as `access` does.
        """
        with self._org.client.run_apart(), shaped("groups and access levels"):
            if self._mentioned is None:
                whole = self._access()
                return replace(whole, scopes=(), every_scope=False, memberships_only=True, whole=_TAKEN_AS_GONE)
            return self._belonging(self._org.refresh_identities(), self._mentioned)

    def _belonging(self, identities: Identities, mentioned: frozenset[Principal]) -> AccessSnapshot:
        """Members of these groups, and of those inside them, and holders of each access level."""
        directory = Directory(self._org.client, identities)
        containers = (*directory.groups(mentioned), *directory.licences())
        problems = (*identities.problems, *directory.problems)
        return AccessSnapshot(
            source=self.name,
            containers=containers,
            complete=not problems,
            memberships_only=True,
            whole=_TAKEN_AS_GONE,
            unknown_principals=dict(sorted((identities.unknown + directory.unknown).items())),
            notes=problems,
        )

    def access_of(self, places: Sequence[str]) -> None:
        """Always None: the service tells of no place whose permissions changed, and reads them whole anyway."""

    def readers(self) -> tuple[Reader, ...]:
        """Wikis before code, because a code wiki's pages are not read as files."""
        found: tuple[Reader, ...] = (
            WorkItemsReader(self._org),
            WikisReader(self._org),
            CodeReader(self._org),
            PullRequestsReader(self._org),
        )
        return tuple(Sound(reader) for reader in found)

    @property
    def traffic(self) -> Traffic:
        """Requests by area, waits and retries since the connector was made; `since` gives those of one run."""
        return self._org.client.stats

    def asked(self) -> Mapping[str, int]:
        """Requests, retries, throttled answers and seconds waited since the connector was made."""
        return {word: n for word, n in self.traffic.counts().items() if ":" not in word}

    def scope_of(self, uri: str) -> ScopeId | None:
        """The scope of a page, file, commit or pull request by its address; a work item's stands in its area."""
        known = self._org.known
        parts = uri.removeprefix("ctx://").split("/")
        if known is None or len(parts) < 5 or parts[:2] != ["ado", self._org.name]:
            return None
        if parts[2] == "repos":
            return known.repo_scope(parts[3]) if parts[3] in known.repos else None
        if parts[2] == "wikis":
            wiki = next((w for w in known.wikis if w.id == parts[3]), None)
            return known.wiki_scope(wiki) if wiki is not None else None
        return None

    def close(self) -> None:
        """Release the connections."""
        self._org.client.close()
