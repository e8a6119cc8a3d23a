"""Reads pull requests: the whole description, votes, and what was said on which file and line."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from core import uris
from core.errors import SourceError, SourceNotFoundError
from core.items import Source
from ingestion.azure_devops.addresses import grouped
from ingestion.azure_devops.catalogue import Catalogue, Repo
from ingestion.azure_devops.client import rows_of, segment
from ingestion.azure_devops.faults import shaped
from ingestion.azure_devops.guard import Guard, Troubles
from ingestion.azure_devops.organization import Organization, fingerprint
from ingestion.azure_devops.pull_request_item import MAX_COMMITS, MAX_FILES, labels_of, pull_request_item, touched
from ingestion.azure_devops.shapes import mapping, when
from ingestion.connector import Batch, Change, Failure, ItemMissing, ItemUpserted, Unlisted, Unreadable

BATCH = 10
_AGING = 0.1
_MOST_BATCHES = 200
_MOST_KNOWN = 2_000


class PullRequestsReader:
    """Checkpoint: for each repo `names` and `seen`, the digest of each pull request as the list last gave it.

    There is no feed of changes: the list is read each time, and what differs in it is read whole; so are all that
    are still open, since a comment changes nothing in the list. What was closed not long ago (a setting) is `looked` at
    again from time to time; a still later comment is found by the next full read.
    """

    name = "pull_requests"
    source = Source.PULL_REQUESTS

    def __init__(self, organization: Organization) -> None:
        self._org = organization

    def read(self, checkpoint: Mapping[str, Any] | None) -> Iterator[Batch]:
        """Yield batches; see `ingestion.connector.Reader`."""
        catalogue = self._org.refresh(areas=False)
        state: dict[str, Any] = {"repos": {}, "done": 0}
        state.update(copy.deepcopy(dict(checkpoint or {})))
        if catalogue.whole("repos"):
            state["repos"] = {key: own for key, own in state["repos"].items() if key in catalogue.repos}
        guard, troubles = Guard(self._org.client), Troubles()
        for repo in sorted(catalogue.repos.values(), key=lambda r: r.id):
            if repo.disabled:
                state["repos"].pop(repo.id, None)
                continue
            try:
                with shaped(f"pull requests of {repo.name}"):
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
        catalogue, guard = self._org.refresh(areas=False), Guard(self._org.client)
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
        digests = {number: _digest(row, names) for number, row in rows.items()}
        looked, now = own.setdefault("looked", {}), self._org.clock.now()
        # When each was closed that may still be talked about, and when each of these was last looked at.
        ages = {n: at for n, row in rows.items() if (at := self._watched_since(row, now)) is not None}
        own["looked"] = looked = {n: at for n, at in looked.items() if n in ages}
        todo = sorted(
            (
                n
                for n, row in rows.items()
                if own["seen"].get(n) != digests[n]
                or row.get("status") == "active"
                or (n in ages and _due(ages[n], looked.get(n), now))
            ),
            key=int,
        )
        # Each batch writes the whole checkpoint: where that is long, they are larger, so that there are not too many.
        size = max(BATCH, sum(len(mine["seen"]) for mine in state["repos"].values()) // _MOST_BATCHES)
        for start in range(0, len(todo), size):
            changes: list[Change] = []
            for number in todo[start : start + size]:
                uri = uris.pull_request(self._org.name, repo.id, int(number))
                changes += guard.run(uri, partial(self._pull_request, repo, int(number), catalogue))
                own["seen"][number] = digests[number]
                if number in ages:
                    looked[number] = int(now.timestamp())
            yield self._batch(changes, state)
        # A pull request can't be deleted by itself: a list that lacks it is to be seen twice.
        gone = sorted(set(own["seen"]) - set(rows), key=int)
        for number in gone:
            del own["seen"][number]
        if gone:
            missing = [ItemMissing(uris.pull_request(self._org.name, repo.id, int(n))) for n in gone]
            yield self._batch([*missing], state)

    def _pull_request(self, repo: Repo, number: int, catalogue: Catalogue) -> Iterable[Change]:
        client, base = self._org.client, f"{self._base(repo)}/{number}"
        # Lists cut the description.
        data = mapping(client.get(base, {"includeWorkItemRefs": True, "includeCommits": True}))
        return [
            ItemUpserted(
                pull_request_item(
                    data,
                    threads=rows_of(client.get(f"{base}/threads")),
                    work_items=self._work_items(data, base),
                    commits=self._commits(data, base),
                    files=self._files(data, base),
                    repo=repo,
                    catalogue=catalogue,
                    identities=self._org.identities,
                    organization=self._org.settings.organization,
                )
            )
        ]

    def _work_items(self, data: Mapping[str, Any], base: str) -> list[int]:
        rows = data.get("workItemRefs")
        if rows is None:
            rows = rows_of(self._org.client.get(f"{base}/workitems"))
        return [int(row["id"]) for row in rows if row]

    def _commits(self, data: Mapping[str, Any], base: str) -> list[str]:
        """The newest commits; some answers have them already."""
        found = [str(row["commitId"]).lower() for row in data.get("commits") or [] if row]
        if data.get("commits") is None:
            for page in self._org.client.pages(f"{base}/commits", {"$top": MAX_COMMITS}):
                found += [str(row["commitId"]).lower() for row in page]
                if len(found) >= MAX_COMMITS:
                    break
        return found[:MAX_COMMITS]

    def _files(self, data: Mapping[str, Any], base: str) -> list[str]:
        """Paths that the last push left changed, without those that it deletes; none where there is no iteration.

        They change with a push only, so what a run before this one was told still holds while the head is the same.
        """
        if data.get("supportsIterations") is False:
            return []
        head = mapping(data.get("lastMergeSourceCommit")).get("commitId")
        key = f"{base} {head} {data.get('targetRefName')}"
        known = self._org.pushed_files
        found = known.get(key) if head is not None else None
        if found is None:
            iterations = rows_of(self._org.client.get(f"{base}/iterations", lenient=True))
            last = max((int(row["id"]) for row in iterations), default=None)
            where, most = f"{base}/iterations/{last}/changes", {"$top": MAX_FILES}
            told = mapping(self._org.client.get(where, most, lenient=True)) if last is not None else {}
            found = known[key] = touched(told.get("changeEntries") or [])
            while len(known) > _MOST_KNOWN:
                known.popitem(last=False)
        return found

    def _watched_since(self, row: Mapping[str, Any], now: datetime) -> datetime | None:
        """When a pull request was closed, as long as its discussion is watched; None where it is not (any more)."""
        closed = None if row.get("status") == "active" else when(row.get("closedDate"))
        window = timedelta(days=self._org.settings.reread_closed_pull_requests_days)
        return closed if closed is not None and now - closed <= window else None

    def _batch(self, changes: list[Change], state: dict[str, Any]) -> Batch:
        state["done"] += sum(isinstance(c, ItemUpserted) for c in changes)
        return Batch(changes=tuple(changes), checkpoint=copy.deepcopy(state), progress=(state["done"], None))


def _due(closed: datetime, looked: int | None, now: datetime) -> bool:
    """Whether a closed pull request is to be looked at again: when a tenth of the time from its closing to the last
    look (seconds since 1970) has passed since. A late comment is found soon after a closing, and old ones cost little.
    """
    if looked is None:
        return True
    return now.timestamp() - looked >= (looked - closed.timestamp()) * _AGING


def _digest(row: Mapping[str, Any], names: str) -> str:
    votes = sorted((str(r.get("id")), int(r.get("vote") or 0)) for r in row.get("reviewers") or [])
    merge = mapping(row.get("lastMergeSourceCommit")).get("commitId")
    labels = sorted(labels_of(row))
    facts = [row.get(k) for k in ("title", "description", "status", "closedDate", "targetRefName", "sensitivityLabel")]
    return fingerprint(names, facts, bool(row.get("isDraft")), labels, votes, merge)
