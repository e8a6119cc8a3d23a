"""The history of one path: who wrote it, who changed it when, and under which paths it was known before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from core.items import Contribution, PersonRef, Role
from ingestion.azure_devops.git import GitRepo
from ingestion.azure_devops.identities import Identities
from ingestion.azure_devops.shapes import mapping, when

# A path with more revisions than this has its oldest ones left out, and so no date of creation.
MAX_REVISIONS = 500
MAX_RENAMES = 10


@dataclass(frozen=True, slots=True)
class Revision:
    """One commit that touched the path."""

    sha: str
    author: PersonRef | None
    at: datetime | None


@dataclass(frozen=True, slots=True)
class History:
    """Revisions, newest first; `complete` False where the oldest are left out. `former` are earlier paths."""

    revisions: tuple[Revision, ...]
    former: tuple[str, ...]
    complete: bool

    @property
    def last(self) -> Revision | None:
        """The newest revision."""
        return self.revisions[0] if self.revisions else None

    @property
    def created_at(self) -> datetime | None:
        """When the path (or what it was called before) first appeared."""
        return self.revisions[-1].at if self.revisions and self.complete else None

    def contributions(self) -> tuple[Contribution, ...]:
        """Who wrote it first, and for each person who changed it since, their latest change."""
        found: list[Contribution] = []
        changes = list(self.revisions)
        if self.complete and changes and (first := changes.pop()).author:
            found.append(Contribution(person=first.author, role=Role.WROTE, at=first.at))
        seen: set[tuple[str, str | None]] = set()
        for revision in changes:
            person = revision.author
            if person is not None and (person.name, person.principal) not in seen:
                seen.add((person.name, person.principal))
                found.append(Contribution(person=person, role=Role.EDITED, at=revision.at))
        return tuple(found)

    def authors(self) -> tuple[PersonRef, ...]:
        """Everyone who touched it, each once, newest first."""
        return tuple(dict.fromkeys(r.author for r in self.revisions if r.author))


def history_of(repo: GitRepo, path: str, head: str, identities: Identities) -> History:
    """Follow a path back through its renames; raises SourceError where the repo does not answer."""
    revisions: list[Revision] = []
    former: list[str] = []
    at: str | None = head
    while at is not None and len(former) <= MAX_RENAMES:
        before = len(revisions)
        for revision in _of_path(repo, path, at, identities):
            if len(revisions) >= MAX_REVISIONS:
                return History(tuple(revisions), tuple(former), complete=False)
            revisions.append(revision)
        if len(revisions) == before:
            break
        oldest = revisions[-1].sha
        origin = next((c.former for c in repo.changes(oldest) if c.path == path and c.former), None)
        if origin is None or origin in former:
            break
        former.append(origin)
        path, at = origin, repo.parent(oldest)
    return History(tuple(revisions), tuple(former), complete=True)


def _of_path(repo: GitRepo, path: str, head: str, identities: Identities) -> Iterator[Revision]:
    for page in repo.commits(head, path):
        for row in page:
            author = mapping(row.get("author"))
            yield Revision(str(row["commitId"]).lower(), identities.author(author), when(author.get("date")))
