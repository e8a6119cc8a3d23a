"""Commits of a repo's default branch: what was done, by whom, to which files, for which work item."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from core import uris
from core.errors import SourceNotFoundError
from core.items import Contribution, Item, ItemKind, Link, Part, Role, Source, TextFormat
from ingestion.azure_devops import authority
from ingestion.azure_devops.catalogue import Catalogue, Repo
from ingestion.azure_devops.git import GitRepo
from ingestion.azure_devops.identities import Identities
from ingestion.azure_devops.links import merged, stated_links
from ingestion.azure_devops.shapes import mapping, web, when

MAX_FILES = 100
# How the service words the commit by which it completes a pull request.
_MERGED = re.compile(r"^Merged PR (\d+)\b")
# A merge brings commits in between older ones. After this many known pages in a row there are no more new ones.
_KNOWN_PAGES = 5
_MOST_COMPARED = 200


def commit_item(
    row: Mapping[str, Any], repo: Repo, git: GitRepo, catalogue: Catalogue, identities: Identities, organization: str
) -> Item:
    """An item of a commit as a list gives it; asks for its changes, and for its whole message where it was cut."""
    sha = str(row["commitId"]).lower()
    uri = uris.commit(catalogue.organization, repo.id, sha)
    message = git.message(row).strip()
    changes = git.changes(sha)
    author = identities.author(row.get("author"))
    written = when(mapping(row.get("author")).get("date"))
    at = when(mapping(row.get("committer")).get("date")) or written
    shown = [c.path.lstrip("/") + (" (deleted)" if c.deleted else "") for c in changes[:MAX_FILES]]
    if len(changes) > MAX_FILES:
        shown.append(f"and {len(changes) - MAX_FILES} more")
    files = "Files touched:\n" + "\n".join(f"- {name}" for name in shown) if shown else ""
    touched = tuple(
        Link(to=uris.file(catalogue.organization, repo.id, c.path), rel="touches")
        for c in changes[:MAX_FILES]
        if not c.deleted
    )
    merged_by = _MERGED.match(message)
    completed = (
        (Link(to=uris.pull_request(catalogue.organization, repo.id, int(merged_by.group(1))), rel="pull_request"),)
        if merged_by
        else ()
    )
    return Item(
        uri=uri,
        source=Source.CODE,
        kind=ItemKind.COMMIT,
        scope=catalogue.repo_scope(repo.id),
        title=message.partition("\n")[0].strip() or sha[:8],
        url=web(organization, repo.project.name, "_git", repo.name, "commit", sha),
        parts=(
            Part(
                uri=uri,
                text="\n\n".join(x for x in (message, files) if x),
                format=TextFormat.PLAIN,
                author=author,
                at=written,
            ),
        ),
        version=sha,
        created_at=written,
        modified_at=at,
        author=author,
        authority=authority.of_commit(),
        container=repo.name,
        number=sha[:8],
        label=repo.label,
        contributions=(Contribution(person=author, role=Role.WROTE, at=written),) if author else (),
        links=merged(completed, stated_links(message, catalogue), touched, own=uri),
        aliases=(sha,),
        attributes={"project": repo.project.name, "repo": repo.name},
    )


def new_commits(
    git: GitRepo, old: str | None, new: str, *, skip: int = 0
) -> Iterator[list[tuple[int, Mapping[str, Any]]]]:
    """Yield, page by page, (place in `new`'s history, row) of the commits that are not in `old`'s history.

    Both histories are in one order and the old one lies within the new one, so a commit of the n-th page that is old
    is in the first n pages of the old history: both are read side by side, and no commit is missed or read twice.
    """
    known: set[str] = set()
    before = _known(git, old)
    quiet, place, compared = 0, skip, 0
    for page in git.commits(new, skip=skip):
        while compared < place + len(page) and (more := next(before, None)) is not None:
            known |= more
            compared += len(more)
        fresh = [(n, row) for n, row in enumerate(page, start=place) if str(row["commitId"]).lower() not in known]
        place += len(page)
        yield fresh
        quiet = 0 if fresh else quiet + 1
        if quiet >= _KNOWN_PAGES:
            return


def touched_since(git: GitRepo, old: str | None, new: str) -> set[str]:
    """Paths that commits since `old` touched, though they may be again what they were; those of the newest commits.

    Comparing trees finds what is different; this finds what has a newer author and date all the same.
    """
    if old is None or old == new:
        return set()
    found: set[str] = set()
    seen = 0
    for rows in new_commits(git, old, new):
        for _, row in rows:
            seen += 1
            if seen > _MOST_COMPARED:
                return found
            found |= {c.path for c in git.changes(str(row["commitId"]).lower())}
        if not rows:
            return found
    return found


def _known(git: GitRepo, old: str | None) -> Iterator[set[str]]:
    if old is None:
        return
    try:
        for page in git.commits(old):
            yield {str(row["commitId"]).lower() for row in page}
    except SourceNotFoundError:
        # A forced push threw the old head away: everything counts as new.
        return
