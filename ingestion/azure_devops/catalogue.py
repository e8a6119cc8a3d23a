"""What the organization consists of: projects, area trees, repos and wikis, read afresh before each run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from core.access import ScopeId
from core.errors import SourceAuthError, SourceError, SourceNotFoundError, SourceThrottledError
from ingestion.azure_devops.client import AdoClient, listed
from ingestion.azure_devops.faults import shaped
from ingestion.azure_devops.sdk import Sdk
from ingestion.azure_devops.shapes import mapping

DEEPEST_TREE = 512


@dataclass(frozen=True, slots=True)
class Project:
    """A project; `visibility` is private, organization or public (an unknown one counts as private)."""

    id: str
    name: str
    visibility: str
    label: str | None


@dataclass(frozen=True, slots=True)
class Area:
    """A node of an area tree. `chain` are the identifiers from the root down to it."""

    id: int
    identifier: str
    path: str
    chain: tuple[str, ...]
    project: Project


@dataclass(frozen=True, slots=True)
class Repo:
    """A git repo; without `branch` it is empty."""

    id: str
    name: str
    project: Project
    branch: str | None
    disabled: bool
    label: str | None


@dataclass(frozen=True, slots=True)
class Wiki:
    """A wiki: a project wiki stands on a hidden repo of its own, a code wiki on a folder of a repo."""

    id: str
    name: str
    project: Project
    repo_id: str
    is_code: bool
    folder: str
    branch: str
    disabled: bool
    label: str | None


@dataclass(slots=True)
class Catalogue:
    """One reading of the structure. What could not be listed is not gone: `troubles` tells it for each part (`areas`,
    `repos`, `wikis`), so that a reader asks only whether what it stands on is whole."""

    organization: str
    projects: list[Project] = field(default_factory=list)
    areas: dict[int, Area] = field(default_factory=dict)
    repos: dict[str, Repo] = field(default_factory=dict)
    wikis: list[Wiki] = field(default_factory=list)
    troubles: dict[str, list[str]] = field(default_factory=dict)
    # Projects of which some list could not be read.
    partial: set[str] = field(default_factory=set)
    # Projects whose area tree could not be read.
    without_areas: set[str] = field(default_factory=set)
    # Parts that we may not see at all.
    closed: set[str] = field(default_factory=set)

    @property
    def problems(self) -> list[str]:
        """Everything that could not be listed, in words."""
        return [told for part in self.troubles.values() for told in part]

    def area_by_path(self, path: str) -> Area | None:
        """The area with this path (`Project\\A\\B`), in any case."""
        wanted = path.strip("\\").casefold()
        return next((a for a in self.areas.values() if a.path.casefold() == wanted), None)

    def project_named(self, name: str) -> Project | None:
        """The project with this name, in any case."""
        return next((p for p in self.projects if p.name.casefold() == name.casefold()), None)

    def code_wikis(self, repo_id: str) -> list[Wiki]:
        """The code wikis that show folders of a repo."""
        return [w for w in self.wikis if w.is_code and w.repo_id == repo_id]

    def area_scope(self, area: Area) -> ScopeId:
        """The scope of the work items of an area node."""
        return ScopeId(f"ado/{self.organization}/area/{area.identifier}")

    def repo_scope(self, repo_id: str) -> ScopeId:
        """The scope of a repo's files, commits and pull requests, and of its code wikis."""
        return ScopeId(f"ado/{self.organization}/repo/{repo_id}")

    def wiki_scope(self, wiki: Wiki) -> ScopeId:
        """The scope of a wiki's pages: a code wiki is exactly as readable as its repo."""
        return self.repo_scope(wiki.repo_id) if wiki.is_code else ScopeId(f"ado/{self.organization}/wiki/{wiki.id}")

    def whole(self, *parts: str) -> bool:
        """Whether these parts (all, if none is named) were listed to their end."""
        return not any(self.troubles.get(part) for part in parts or self.troubles)

    @property
    def code_parts(self) -> tuple[str, ...]:
        """What must be whole to tell which files of a repo are pages of a code wiki, and so no files of their own.

        Where we may not see any wiki there is no page that they could be."""
        return ("repos",) if "wikis" in self.closed else ("repos", "wikis")

    def require_whole(self, *parts: str) -> None:
        """Raise SourceError where one of these parts (any, if none is named) broke off: what is missing is not gone."""
        told = [t for part in parts or self.troubles for t in self.troubles.get(part, ())]
        if told:
            raise SourceError("; ".join(told[:5]), where=self.organization)


def read_catalogue(client: AdoClient, sdk: Sdk, *, areas: bool = True) -> Catalogue:
    """Read the structure. Raises SourceError where not even the projects could be listed.

    Each project's area tree is a request of its own, so whoever reads no work items goes without `areas`.
    """
    found = Catalogue(client.organization)
    with shaped("projects"):
        found.projects.extend(_projects(client))
    everywhere = {p.id for p in found.projects}
    for project in found.projects if areas else ():
        if not _try(found, "areas", f"areas of {project.name}", {project.id}, partial(_areas, found, sdk, project)):
            found.without_areas.add(project.id)
    _try(found, "repos", "repos", everywhere, partial(_repos, found, client))
    _try(found, "wikis", "wikis", everywhere, partial(_wikis, found, client))
    return found


def _try(found: Catalogue, part: str, what: str, projects: set[str], read: Callable[[], None]) -> bool:
    try:
        with shaped(what):
            read()
    except (SourceAuthError, SourceThrottledError):
        raise
    except SourceError as e:
        found.troubles.setdefault(part, []).append(f"{what}: {e.message}")
        found.partial |= projects
        if isinstance(e, SourceNotFoundError):
            found.closed.add(part)
        return False
    return True


def _projects(client: AdoClient) -> Iterator[Project]:
    allowed = {name.casefold() for name in client.settings.projects}
    for page in client.pages("_apis/projects", {"$top": 100}):
        for row in page:
            name, key = str(row["name"]), str(row["id"]).lower()
            wanted = "*" in allowed or name.casefold() in allowed or key in allowed
            if wanted and row.get("state", "wellFormed") == "wellFormed":
                yield Project(key, name, str(row.get("visibility") or "private").lower(), _label(row))


def _areas(found: Catalogue, sdk: Sdk, project: Project) -> None:
    tracking = sdk.work_item_tracking()
    depth = 16
    while True:
        roots = sdk.call("classification nodes", tracking.get_root_nodes, project.id, depth=depth)
        root = next((r for r in roots or [] if str(r.structure_type).lower() == "area"), None)
        if root is None:
            raise SourceError("there is no area tree", where=project.name)
        if not _cut_off(root):
            break
        if depth > DEEPEST_TREE:
            raise SourceError("the area tree does not end", where=project.name)
        depth *= 4
    _add_area(found, root, project, project.name, ())


def _cut_off(node: Any) -> bool:
    children = node.children or []
    return bool(node.has_children and not children) or any(_cut_off(c) for c in children)


def _add_area(found: Catalogue, node: Any, project: Project, path: str, above: tuple[str, ...]) -> None:
    # Paths are built from names: a node's own `path` has an extra \Area\ in it.
    chain = (*above, str(node.identifier).lower())
    found.areas[int(node.id)] = Area(int(node.id), chain[-1], path, chain, project)
    for child in node.children or []:
        _add_area(found, child, project, f"{path}\\{child.name}", chain)


def _repos(found: Catalogue, client: AdoClient) -> None:
    projects = {p.id: p for p in found.projects}
    for row in listed(client.get("_apis/git/repositories")):
        project = projects.get(str(mapping(row.get("project")).get("id")).lower())
        if project is None:
            continue
        key = str(row["id"]).lower()
        branch = row.get("defaultBranch")
        found.repos[key] = Repo(
            id=key,
            name=str(row["name"]),
            project=project,
            branch=str(branch).removeprefix("refs/heads/") if branch else None,
            disabled=bool(row.get("isDisabled")),
            label=_label(row) or project.label,
        )


def _wikis(found: Catalogue, client: AdoClient) -> None:
    projects = {p.id: p for p in found.projects}
    for row in listed(client.get("_apis/wiki/wikis")):
        project = projects.get(str(row.get("projectId")).lower())
        if project is None:
            continue
        is_code = str(row.get("type", "")).lower() == "codewiki"
        repo_id = str(row.get("repositoryId") or row["id"]).lower()
        versions = row.get("versions") or []
        repo = found.repos.get(repo_id) if is_code else None
        found.wikis.append(
            Wiki(
                id=str(row["id"]).lower(),
                name=str(row["name"]),
                project=project,
                repo_id=repo_id,
                is_code=is_code,
                folder="/" + str(row.get("mappedPath") or "/").strip("/"),
                branch=str(versions[0]["version"]) if versions else (repo.branch if repo else None) or "wikiMaster",
                disabled=bool(row.get("isDisabled")) or bool(repo and repo.disabled),
                label=_label(row) or (repo.label if repo else None) or project.label,
            )
        )


def _label(row: Any) -> str | None:
    return row.get("sensitivityLabel") or None
