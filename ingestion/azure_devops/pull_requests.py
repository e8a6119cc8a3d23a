"""Reads pull requests: the whole description, votes, and what was said on which file and line."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from core import uris
from core.errors import SourceError, SourceNotFoundError
from core.items import Contribution, Item, ItemKind, Link, Part, PersonRef, Role, Source
from core.text.markdown import clean_markdown
from ingestion.azure_devops import authority
from ingestion.azure_devops.addresses import grouped
from ingestion.azure_devops.catalogue import Catalogue, Repo
from ingestion.azure_devops.client import rows_of, segment
from ingestion.azure_devops.guard import Guard, Troubles
from ingestion.azure_devops.links import merged, stated_links
from ingestion.azure_devops.organization import Organization, fingerprint
from ingestion.azure_devops.shapes import mapping, text_of, web, when
from ingestion.connector import Batch, Change, Failure, ItemMissing, ItemUpserted, Unlisted, Unreadable

BATCH = 10
_MAX_COMMITS = 100


class PullRequestsReader:
    """Checkpoint: for each repo `names` and `seen`, the digest of each pull request as the list last gave it.

    There is no feed of changes: the list is read each time, and what differs in it is read whole; so are all that
    are still open, since a comment changes nothing in the list.
    """

    name = "pull_requests"
    source = Source.PULL_REQUESTS

    def __init__(self, organization: Organization) -> None:
        self._org = organization

    def read(self, checkpoint: Mapping[str, Any] | None) -> Iterator[Batch]:
        """Yield batches; see `ingestion.connector.Reader`."""
        catalogue = self._org.refresh()
        state: dict[str, Any] = {"repos": {}, "done": 0}
        state.update(copy.deepcopy(dict(checkpoint or {})))
        if catalogue.whole("repos"):
            state["repos"] = {key: own for key, own in state["repos"].items() if key in catalogue.repos}
        guard, troubles = Guard(), Troubles()
        for repo in sorted(catalogue.repos.values(), key=lambda r: r.id):
            if repo.disabled:
                state["repos"].pop(repo.id, None)
                continue
            try:
                yield from self._repo(repo, state, catalogue, guard)
            except SourceNotFoundError:
                state["repos"].pop(repo.id, None)
                yield self._batch([Unreadable(f"pull requests of {repo.name}")], state)
            except SourceError as e:
                troubles.note(f"pull requests of {repo.name}", e)
        yield self._batch([], state)
        troubles.raise_any()

    def fetch(self, uris: Sequence[str]) -> Iterator[Change]:
        """Read single pull requests again; see `ingestion.connector.Reader`."""
        wanted = list(grouped(uris, self._org.name, "repos", "pull-requests"))
        if not wanted:
            return
        catalogue, guard = self._org.refresh(), Guard()
        catalogue.require_whole("repos")
        for repo_id, addresses in wanted:
            repo = catalogue.repos.get(repo_id)
            for uri, (number, *_) in addresses:
                if repo is None:
                    yield ItemMissing(uri)
                elif repo.disabled:
                    yield Failure(uri, f"the repo {repo.name} is disabled", hide=True)
                else:
                    yield from guard.run(uri, partial(self._pull_request, repo, int(number), catalogue))

    def present(self) -> Iterator[str | Unlisted]:
        """Addresses of all pull requests of all repos that can be read; what is disabled or refused is withheld."""
        catalogue = self._org.catalogue
        catalogue.require_whole("repos")
        for repo in catalogue.repos.values():
            if repo.disabled:
                yield Unlisted(uris.repo_items(self._org.name, repo.id), f"{repo.name} is disabled", withhold=True)
                continue
            try:
                for row in self._list(repo):
                    yield uris.pull_request(self._org.name, repo.id, int(row["pullRequestId"]))
            except SourceNotFoundError as e:
                yield Unlisted(uris.repo_items(self._org.name, repo.id), f"{repo.name}: {e}", withhold=True)

    def _base(self, repo: Repo) -> str:
        return f"{segment(repo.project.id)}/_apis/git/repositories/{segment(repo.id)}/pullrequests"

    def _list(self, repo: Repo) -> Iterator[Mapping[str, Any]]:
        seen: set[int] = set()
        for page in self._org.client.skipping(self._base(repo), {"searchCriteria.status": "all"}):
            fresh = [row for row in page if int(row["pullRequestId"]) not in seen]
            if not fresh:
                return
            seen |= {int(row["pullRequestId"]) for row in fresh}
            yield from fresh

    def _repo(self, repo: Repo, state: dict[str, Any], catalogue: Catalogue, guard: Guard) -> Iterator[Batch]:
        own = state["repos"].setdefault(repo.id, {"seen": {}})
        names = fingerprint(repo.name, repo.project.name, repo.label)
        rows = {str(row["pullRequestId"]): row for row in self._list(repo)}
        # The names are in each digest, so that a rename that is cut short goes on where it stopped.
        digests = {number: f"{names} {_digest(row)}" for number, row in rows.items()}
        todo = sorted(
            (n for n, row in rows.items() if own["seen"].get(n) != digests[n] or row.get("status") == "active"), key=int
        )
        for start in range(0, len(todo), BATCH):
            changes: list[Change] = []
            for number in todo[start : start + BATCH]:
                uri = uris.pull_request(self._org.name, repo.id, int(number))
                changes += guard.run(uri, partial(self._pull_request, repo, int(number), catalogue))
                own["seen"][number] = digests[number]
            yield self._batch(changes, state)
        # A pull request can't be deleted by itself: a list that lacks it is to be seen twice.
        gone = sorted(set(own["seen"]) - set(rows), key=int)
        for number in gone:
            del own["seen"][number]
        if gone:
            missing = [ItemMissing(uris.pull_request(self._org.name, repo.id, int(n))) for n in gone]
            yield self._batch([*missing], state)

    def _pull_request(self, repo: Repo, number: int, catalogue: Catalogue) -> Iterable[Change]:
        base = f"{self._base(repo)}/{number}"
        # Lists cut the description.
        data = mapping(self._org.client.get(base))
        threads = rows_of(self._org.client.get(f"{base}/threads"))
        work_items = rows_of(self._org.client.get(f"{base}/workitems"))
        commits: list[str] = []
        for page in self._org.client.pages(f"{base}/commits", {"$top": _MAX_COMMITS}):
            commits += [str(row["commitId"]).lower() for row in page]
            if len(commits) >= _MAX_COMMITS:
                break
        uri = uris.pull_request(self._org.name, repo.id, number)
        people = self._org.identities
        status = str(data.get("status") or "").lower()
        author = people.person(data.get("createdBy"))
        created, closed = when(data.get("creationDate")), when(data.get("closedDate"))
        said = [part for thread in threads if thread for part in self._thread(thread, uri)]
        said.sort(key=lambda p: p.at.timestamp() if p.at else 0.0)
        modified = max((t for t in (created, closed, *(p.at for p in said)) if t is not None), default=None)
        description = clean_markdown(text_of(data.get("description"))).strip()
        opening = (Part(uri=uri, text=description, author=author, at=created),) if description else ()
        links = merged(
            tuple(Link(to=uris.work_item(self._org.name, int(w["id"])), rel="work_item") for w in work_items if w),
            tuple(Link(to=uris.commit(self._org.name, repo.id, sha), rel="commit") for sha in commits[:_MAX_COMMITS]),
            stated_links("\n".join([description, *(p.text for p in said)]), catalogue),
            own=uri,
        )
        item = Item(
            uri=uri,
            source=Source.PULL_REQUESTS,
            kind=ItemKind.PULL_REQUEST,
            scope=catalogue.repo_scope(repo.id),
            title=text_of(data.get("title")).strip(),
            url=web(self._org.settings.organization, repo.project.name, "_git", repo.name, "pullrequest", str(number)),
            parts=(*opening, *said),
            version=modified.isoformat() if modified else status,
            created_at=created,
            modified_at=modified,
            author=author,
            authority=authority.of_pull_request(status),
            state=status or None,
            container=repo.name,
            number=str(number),
            label=data.get("sensitivityLabel") or repo.label,
            contributions=self._contributions(data, said, author, created, closed),
            links=links,
            aliases=(f"!{number}",),
            attributes={
                key: value
                for key, value in {
                    "project": repo.project.name,
                    "repo": repo.name,
                    "source_branch": str(data.get("sourceRefName") or "").removeprefix("refs/heads/"),
                    "target_branch": str(data.get("targetRefName") or "").removeprefix("refs/heads/"),
                }.items()
                if value
            },
        )
        return [ItemUpserted(item)]

    def _thread(self, thread: Mapping[str, Any], uri: str) -> Iterator[Part]:
        """What people said in a thread, in order, under the file and line that it is about."""
        if thread.get("isDeleted"):
            return
        context = mapping(thread.get("threadContext"))
        where = str(context.get("filePath") or "")
        line = mapping(context.get("rightFileStart") or context.get("leftFileStart")).get("line")
        if where and line:
            where = f"{where}:{line}"
        status = str(thread.get("status") or "")
        heading = " ".join(x for x in (where or "Discussion", f"({status})" if status else "") if x)
        for comment in thread.get("comments") or []:
            text = clean_markdown(text_of(comment.get("content"))).strip()
            kind = str(comment.get("commentType") or "text").lower()
            if comment.get("isDeleted") or kind in ("system", "codechange") or not text:
                continue
            yield Part(
                uri=uri,
                text=text,
                heading=(heading,),
                author=self._org.identities.person(comment.get("author")),
                at=when(comment.get("publishedDate")),
            )

    def _contributions(
        self,
        data: Mapping[str, Any],
        said: list[Part],
        author: PersonRef | None,
        created: datetime | None,
        closed: datetime | None,
    ) -> tuple[Contribution, ...]:
        people = self._org.identities
        found = [Contribution(person=author, role=Role.WROTE, at=created)] if author else []
        merger = people.person(data.get("closedBy"))
        if merger is not None and str(data.get("status")).lower() == "completed":
            found.append(Contribution(person=merger, role=Role.MERGED, at=closed))
        for reviewer in data.get("reviewers") or []:
            vote = int(reviewer.get("vote") or 0)
            person = None if reviewer.get("isContainer") or vote == 0 else people.person(reviewer)
            if person is not None:
                role = Role.APPROVED if vote > 0 else Role.REVIEWED
                found.append(Contribution(person=person, role=role, at=closed or created, note=f"vote {vote}"))
        latest = {(p.author.name, p.author.principal): p for p in said if p.author is not None}
        found += [
            Contribution(person=p.author, role=Role.COMMENTED, at=p.at) for p in latest.values() if p.author is not None
        ]
        return tuple(found)

    def _batch(self, changes: list[Change], state: dict[str, Any]) -> Batch:
        state["done"] += sum(isinstance(c, ItemUpserted) for c in changes)
        return Batch(changes=tuple(changes), checkpoint=copy.deepcopy(state), progress=(state["done"], None))


def _digest(row: Mapping[str, Any]) -> str:
    votes = sorted((str(r.get("id")), int(r.get("vote") or 0)) for r in row.get("reviewers") or [])
    merge = mapping(row.get("lastMergeSourceCommit")).get("commitId")
    facts = [row.get(k) for k in ("title", "description", "status", "closedDate", "targetRefName", "sensitivityLabel")]
    return fingerprint(facts, votes, merge)
