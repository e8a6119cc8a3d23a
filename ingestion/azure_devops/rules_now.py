"""The rule of a single scope as the service has it at this moment, worked out as every rule is, from fewer requests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from core.access import ScopeAcl, ScopeId
from ingestion.azure_devops.catalogue import Area, Catalogue, Project, Repo, Wiki
from ingestion.azure_devops.faults import shaped
from ingestion.azure_devops.identities import Identities
from ingestion.azure_devops.organization import Organization
from ingestion.azure_devops.permissions import Permissions

# The structure and the people change seldom; what hangs on permissions is read each time.
STRUCTURE_SECONDS: Final = 300.0


class RulesNow:
    """Reads rules of single scopes. `now` is a monotonic clock. Thread-safe."""

    def __init__(self, organization: Organization, now: Callable[[], float] = time.monotonic) -> None:
        self._org = organization
        self._now = now
        self._known: tuple[float, Catalogue, Identities] | None = None
        self._lock = threading.Lock()

    def of(self, scope: ScopeId) -> ScopeAcl | None:
        """The scope's rule; None where there is no such scope, or not all of its rule could be read. Raises
        SourceError. A request that fails is not sent again."""
        with self._org.client.run_apart(), self._org.client.trying(once=True), shaped("permissions"):
            catalogue, identities = self._structure()
            part = part_of(catalogue, scope)
            if part is None:
                return None
            permissions = Permissions(self._org.client, self._org.sdk, identities, part)
            permissions.read()
            rules = {s.id: s.acl for s in permissions.scopes()}
            return rules.get(scope) if not permissions.problems else None

    def close(self) -> None:
        """Let go of the connections."""
        self._org.client.close()

    def _structure(self) -> tuple[Catalogue, Identities]:
        with self._lock:
            if self._known is None or self._now() - self._known[0] > STRUCTURE_SECONDS:
                began = self._now()
                self._known = (began, self._org.refresh(), self._org.refresh_identities())
            return self._known[1], self._known[2]


def part_of(catalogue: Catalogue, scope: ScopeId) -> Catalogue | None:
    """The structure round one scope: its project, and of it nothing but the area (and its root), repo or wiki; None
    where there is no such scope."""
    areas = [a for a in catalogue.areas.values() if catalogue.area_scope(a) == scope]
    repos = [r for r in catalogue.repos.values() if catalogue.repo_scope(r.id) == scope]
    wikis = [w for w in catalogue.wikis if catalogue.wiki_scope(w) == scope and not w.is_code]
    found: list[Area | Repo | Wiki] = [*areas, *repos, *wikis]
    if not found:
        return None
    projects: dict[str, Project] = {one.project.id: one.project for one in found}
    roots = [a for a in catalogue.areas.values() if areas and len(a.chain) == 1 and a.project.id in projects]
    return Catalogue(
        organization=catalogue.organization,
        projects=list(projects.values()),
        areas={a.id: a for a in (*areas, *roots)},
        repos={r.id: r for r in repos},
        wikis=wikis,
    )
