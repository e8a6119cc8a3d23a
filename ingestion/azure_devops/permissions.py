"""The exact rule of every area node, repo and wiki, from ACLs, visibility and access levels."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from core import principals
from core.access import LICENCE_GATE, NOBODY, Gate, Layer, Scope, ScopeAcl, ScopeId
from core.errors import SourceAuthError, SourceError, SourceNotFoundError
from core.principals import Licence, Principal
from ingestion.azure_devops.acls import (
    GIT_ROOT,
    PROJECT_ROOT,
    AclTable,
    Namespace,
    area_token,
    project_token,
    read_acls,
    read_bits,
    repo_token,
)
from ingestion.azure_devops.catalogue import Area, Catalogue, Project
from ingestion.azure_devops.client import AdoClient
from ingestion.azure_devops.identities import Identities
from ingestion.azure_devops.sdk import Sdk

# The node whose layer stands for a project's visibility.
_VISIBILITY = {"organization": principals.everyone, "public": principals.anyone}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkedOut:
    """The rules of a reading, with what was found on the way: `problems`, and entries that name nobody, by kind.
    `facts` is a digest of everything that they follow from."""

    facts: str
    scopes: tuple[Scope, ...]
    problems: tuple[str, ...]
    unknown: Counter[str]


class Permissions:
    """One reading of all ACLs. `problems` names what could not be read; its scopes are closed or left out. `refused`
    are those of which the source says no: their scopes are closed, and nothing else hangs on it.

    Where the source says "missing or unreadable" the scopes concerned are closed (NOBODY). Where it just fails, they
    are left out and the reading is incomplete, so that what was known before stays until its time limit.
    """

    def __init__(self, client: AdoClient, sdk: Sdk, identities: Identities, catalogue: Catalogue) -> None:
        self._client, self._sdk = client, sdk
        self._identities, self._catalogue = identities, catalogue
        self._tables: dict[Namespace, AclTable] = {}
        # Tokens at which reading failed for a reason that may pass.
        self._failed: set[tuple[Namespace, str]] = set()
        self.problems: list[str] = []
        self.refused: list[str] = []

    def read(self) -> None:
        """Ask for bits, ACLs and the identities they name; raises SourceError where none could be had."""
        bits = read_bits(self._sdk)
        self._tables = {n: AclTable(n, bits[n]) for n in Namespace}
        self._dump(Namespace.PROJECT, PROJECT_ROOT, recurse=False)
        self._dump(Namespace.GIT, GIT_ROOT, recurse=False)
        roots = {a.project.id: a for a in self._catalogue.areas.values() if len(a.chain) == 1}
        for project in self._catalogue.projects:
            self._dump(Namespace.PROJECT, project_token(project.id), recurse=False)
            self._dump(Namespace.GIT, repo_token(project.id), recurse=True)
            if project.id in roots:
                self._dump(Namespace.AREA, area_token(roots[project.id].chain), recurse=True)
        self._identities.translate(d for table in self._tables.values() for d in table.descriptors())
        # Reading by branch is not offered, and what an entry on one would do is not known: a repo is one scope.
        by_branch = [acl.deny for token, acl in self._tables[Namespace.GIT].by_token.items() if "/refs/" in token]
        if any(by_branch):
            self._identities.unknown["deny on a branch"] = sum(map(len, by_branch))

    def _dump(self, namespace: Namespace, token: str, *, recurse: bool) -> None:
        table = self._tables[namespace]
        try:
            read_acls(self._client, table, token, recurse=recurse)
        except SourceAuthError:
            raise
        except SourceNotFoundError as e:
            table.unreadable.add(token)
            self.refused.append(f"the permissions of {namespace.name.lower()} {token} are unreadable: {e.message}")
            self.problems.append(self.refused[-1])
        except SourceError as e:
            self._failed.add((namespace, token))
            self.problems.append(f"the permissions of {namespace.name.lower()} {token} could not be read: {e.message}")

    def work_out(self, last: WorkedOut | None) -> WorkedOut:
        """The rules. Where they follow from what `last` followed from, they are its very own."""
        facts = self._facts()
        if last is not None and last.facts == facts:
            self.problems += last.problems
            self._identities.unknown.update(last.unknown)
            return last
        problems, unknown = len(self.problems), Counter(self._identities.unknown)
        return WorkedOut(
            facts=facts,
            scopes=self.scopes(),
            problems=tuple(self.problems[problems:]),
            unknown=self._identities.unknown - unknown,
        )

    def _facts(self) -> str:
        """A digest of all that `scopes` reads: the structure, every list, whom the entries name, the settings."""
        settings, catalogue = self._client.settings, self._catalogue
        digest = hashlib.sha256()
        tables = [
            (
                namespace.value,
                sorted(table.unreadable),
                [(token, sorted(a.allow), sorted(a.deny), a.inherit) for token, a in sorted(table.by_token.items())],
            )
            for namespace, table in sorted(self._tables.items())
        ]
        named = sorted({d for table in self._tables.values() for d in table.descriptors()})
        for facts in (
            (settings.tenant, settings.deny_reaches_down, settings.project_acl_reaches_objects),
            (catalogue.organization, catalogue.projects, catalogue.areas, catalogue.repos, catalogue.wikis),
            (sorted(catalogue.partial), sorted(catalogue.without_areas), sorted(catalogue.closed)),
            tables,
            sorted((n.value, token) for n, token in self._failed),
            [(d, self._identities.translated(d)) for d in named],
        ):
            digest.update(repr(facts).encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    def scopes(self) -> tuple[Scope, ...]:
        """One scope an area node, a repo and a project wiki, in a fixed order."""
        found: dict[ScopeId, Scope] = {}
        for scope in (*self._area_scopes(), *self._repo_scopes(), *self._wiki_scopes()):
            known = found.setdefault(scope.id, scope)
            if known.acl != scope.acl:
                # One id for two things: whose rule holds can't be told.
                self.problems.append(f"{known.name} and {scope.name} have one id and two rules")
                found[scope.id] = replace(known, acl=NOBODY)
        return tuple(sorted(found.values(), key=lambda s: s.id))

    def _area_scopes(self) -> Iterable[Scope]:
        for area in self._catalogue.areas.values():
            root = area_token(area.chain[:1])
            acl = self._rule(area.project, Namespace.AREA, _area_chain(area), root, licences=tuple(Licence))
            if acl is not None:
                yield self._scope(self._catalogue.area_scope(area), "area", area.path, acl, area.project, None)

    def _repo_scopes(self) -> Iterable[Scope]:
        for repo in self._catalogue.repos.values():
            open_to_all = repo.project.visibility == "public"
            levels = tuple(Licence) if open_to_all else (Licence.BASIC,)
            acl = self._git_rule(repo.project, repo.id, repo.name, levels)
            if repo.disabled:
                acl = NOBODY
            if acl is not None:
                name = f"{repo.project.name}/{repo.name}"
                yield self._scope(self._catalogue.repo_scope(repo.id), "repo", name, acl, repo.project, repo.label)

    def _wiki_scopes(self) -> Iterable[Scope]:
        for wiki in self._catalogue.wikis:
            if wiki.is_code:
                if wiki.repo_id not in self._catalogue.repos and wiki.project.id not in self._catalogue.partial:
                    # A code wiki whose repo is not listed: nothing says who may read it.
                    scope = self._catalogue.wiki_scope(wiki)
                    yield self._scope(scope, "repo", wiki.name, NOBODY, wiki.project, wiki.label)
                continue
            acl = self._git_rule(wiki.project, wiki.repo_id, wiki.name, tuple(Licence))
            if wiki.disabled:
                acl = NOBODY
            if acl is not None:
                name = f"{wiki.project.name}/{wiki.name}"
                yield self._scope(self._catalogue.wiki_scope(wiki), "wiki", name, acl, wiki.project, wiki.label)

    def _git_rule(self, project: Project, repo_id: str, name: str, licences: tuple[Licence, ...]) -> ScopeAcl | None:
        chain = [
            (repo_token(project.id, repo_id), f"repo {name}"),
            (repo_token(project.id), f"all repos of {project.name}"),
            (GIT_ROOT, "all repos"),
        ]
        return self._rule(project, Namespace.GIT, chain, repo_token(project.id), licences=licences)

    def _rule(
        self,
        project: Project,
        namespace: Namespace,
        chain: list[tuple[str, str]],
        root: str,
        *,
        licences: tuple[Licence, ...],
    ) -> ScopeAcl | None:
        """The rule of one object; NOBODY where its ACLs are unreadable, None where reading them failed."""
        gate_token = project_token(project.id)
        needed = [(namespace, root), (Namespace.PROJECT, gate_token), (Namespace.PROJECT, PROJECT_ROOT)]
        if namespace is Namespace.GIT:
            needed.append((Namespace.GIT, GIT_ROOT))
        if any(token in self._tables[n].unreadable for n, token in needed):
            return NOBODY
        if any(key in self._failed for key in needed):
            return None
        project_chain = [(gate_token, f"project {project.name}"), (PROJECT_ROOT, "all projects")]
        project_layers, project_cut = self._layers(Namespace.PROJECT, project_chain)
        if not project_cut:
            project_layers = [*project_layers, *self._visibility(project)]
        object_layers, cut = self._layers(namespace, chain)
        # The real service has no way from an object's chain to the project's own ACL; the format of worlds has one.
        if not cut and self._client.settings.project_acl_reaches_objects:
            object_layers = [*object_layers, *project_layers]
        if self._client.settings.deny_reaches_down:
            project_layers, object_layers = _reaching_down(project_layers), _reaching_down(object_layers)
        held = frozenset(principals.licence(self._client.organization, level) for level in licences)
        return ScopeAcl(
            (
                Gate("project", tuple(project_layers)),
                Gate("object", tuple(object_layers)),
                Gate(LICENCE_GATE, (Layer("access level", allow=held),)),
            )
        )

    def _layers(self, namespace: Namespace, chain: list[tuple[str, str]]) -> tuple[list[Layer], bool]:
        """The layers of a chain, nearest first, and whether a node cut it from what lies behind."""
        layers: list[Layer] = []
        for token, name in chain:
            acl = self._tables[namespace].get(token)
            if acl is None:
                continue
            allow, deny = self._named(acl.allow), self._named(acl.deny)
            if any(self._identities.of_identity(d) is None for d in acl.deny):
                # A deny that names we don't know whom may name anybody: nobody passes by this node or what lies
                # behind it. (It is counted among the unknown principals.)
                return [] if self._client.settings.deny_reaches_down else layers, True
            if allow or deny:
                layers.append(Layer(name, allow=allow, deny=deny))
            if not acl.inherit:
                return layers, True
        return layers, False

    def _named(self, descriptors: frozenset[str]) -> frozenset[Principal]:
        found = (self._identities.of_identity(d) for d in descriptors)
        return frozenset(p for p in found if p is not None)

    def _visibility(self, project: Project) -> list[Layer]:
        audience = _VISIBILITY.get(project.visibility)
        if audience is None:
            return []
        tenant = self._client.settings.tenant
        return [Layer(f"visibility of {project.name}: {project.visibility}", allow=frozenset({audience(tenant)}))]

    def _scope(self, key: ScopeId, kind: str, name: str, acl: ScopeAcl, project: Project, label: str | None) -> Scope:
        return Scope(
            id=key,
            source="azure_devops",
            kind=kind,
            name=name,
            acl=acl,
            label=label or project.label,
            attributes={"project": project.name, "project_id": project.id},
        )


def _reaching_down(layers: list[Layer]) -> list[Layer]:
    """The same chain, in which whom a node denies is denied on every node before it as well."""
    found: list[Layer] = []
    denied = frozenset[Principal]()
    for layer in reversed(layers):
        denied |= layer.deny
        found.append(Layer(layer.node, allow=layer.allow, deny=denied))
    return found[::-1]


def _area_chain(area: Area) -> list[tuple[str, str]]:
    names = area.path.split("\\")
    return [
        (area_token(area.chain[:depth]), "area " + "\\".join(names[:depth])) for depth in range(len(area.chain), 0, -1)
    ]
