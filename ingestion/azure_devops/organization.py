"""What all readers share: the client, the structure and the people of one organization."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from typing import Any

from core.clock import Clock, SystemClock
from core.settings import AzureDevOpsSettings
from ingestion.azure_devops.catalogue import Catalogue, read_catalogue
from ingestion.azure_devops.client import AdoClient
from ingestion.azure_devops.identities import Identities
from ingestion.azure_devops.sdk import Sdk


class Organization:
    """One organization as it was when it was last refreshed."""

    def __init__(
        self, settings: AzureDevOpsSettings, client: AdoClient | None = None, clock: Clock | None = None
    ) -> None:
        self.settings = settings
        self.clock = clock or SystemClock()
        self.client = client or AdoClient(settings)
        self.sdk = Sdk(self.client)
        self.name = self.client.organization
        # What pull requests' heads changed, by address and commit: asked once, not in every run.
        self.pushed_files: OrderedDict[str, list[str]] = OrderedDict()
        self._catalogue: Catalogue | None = None
        self._identities: Identities | None = None

    @property
    def catalogue(self) -> Catalogue:
        """The structure; read at first use."""
        return self._catalogue or self.refresh()

    @property
    def known(self) -> Catalogue | None:
        """The structure if it has been read, without asking."""
        return self._catalogue

    @property
    def identities(self) -> Identities:
        """The people and groups; read at first use."""
        return self._identities or self.refresh_identities()

    def refresh(self, *, areas: bool = True) -> Catalogue:
        """Read the structure again: projects, areas, repos, wikis. Every run begins with it, and so does its budget.

        Without `areas` their trees, a request for each project, are left out.
        """
        self.client.begin_run()
        self._catalogue = read_catalogue(self.client, self.sdk, areas=areas)
        return self._catalogue

    def refresh_identities(self) -> Identities:
        """Read people and groups again; the old reading stays valid for whoever holds it."""
        fresh = Identities(self.client, self.sdk)
        fresh.load()
        self._identities = fresh
        return fresh


def fingerprint(*facts: Any) -> str:
    """A short digest of names and labels: it changes when what items inherit from their container does."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:16]
