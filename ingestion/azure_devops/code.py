"""Reads repos: files at the head of the default branch, then commits; only what changed since the head last read."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from core import uris
from core.errors import SourceError, SourceGoneError, SourceNotFoundError
from core.items import Source
from ingestion.azure_devops.addresses import grouped
from ingestion.azure_devops.catalogue import Catalogue, Repo
from ingestion.azure_devops.commits import commit_item, new_commits, touched_since
from ingestion.azure_devops.faults import shaped
from ingestion.azure_devops.file_item import file_item
from ingestion.azure_devops.git import GitRepo, old_tree
from ingestion.azure_devops.guard import Guard, Troubles
from ingestion.azure_devops.history import history_of
from ingestion.azure_devops.kinds import FileRules, LeftOut
from ingestion.azure_devops.organization import Organization, fingerprint
from ingestion.azure_devops.repo_rules import Refusal, RepoRules, attribute_files, text_in
from ingestion.azure_devops.shapes import mapping
from ingestion.connector import (
    Batch,
    Change,
    Failure,
    ItemDeleted,
    ItemMissing,
    ItemUpserted,
    Skipped,
    Unlisted,
    Unreadable,
)

BATCH = 20


class CodeReader:
    """Checkpoint: for each repo `head` (whose files are read), `names` (digest of what its items inherit), `todo`
    (the head it works towards and the last path done), `commits` (head and names whose history is read), `log` (the
    same for commits under way). Trees of old heads are asked for again, so that the checkpoint stays small.
    """

    name = "code"
    source = Source.CODE

    def __init__(self, organization: Organization) -> None:
        self._org = organization
        # Commits of each repo's head, kept between runs: a history only grows, so only what is new is listed again.
        self._histories: dict[str, tuple[str, set[str]]] = {}
        self._rules = RepoRules(organization.settings)

    def read(self, checkpoint: Mapping[str, Any] | None) -> Iterator[Batch]:
        """Yield batches; see `ingestion.connector.Reader`."""
        catalogue = self._org.refresh(areas=False)
        state: dict[str, Any] = {"repos": {}, "done": 0}
        state.update(copy.deepcopy(dict(checkpoint or {})))
        if catalogue.whole("repos"):
            # A repo that is gone is read anew if it comes back, since its items are not present meanwhile.
            state["repos"] = {key: own for key, own in state["repos"].items() if key in catalogue.repos}
        guard, troubles = Guard(self._org.client), Troubles()
        lost: list[str] = []
        for repo in sorted(catalogue.repos.values(), key=lambda r: r.id):
            if repo.disabled:
                # Read anew once it is switched on again; until then its scope lets nobody in.
                state["repos"].pop(repo.id, None)
                continue
            try:
                if not catalogue.whole(*catalogue.code_parts):
                    raise SourceError("it can't be told which of its files are wiki pages", where=repo.name)
                with shaped(f"repo {repo.name}"):
                    yield from self._repo(repo, state, catalogue, guard, lost)
            except SourceNotFoundError:
                # Not readable for us: what it held is no longer present, and is read anew once it can be.
                state["repos"].pop(repo.id, None)
                yield self._batch([Unreadable(f"repo {repo.name}")], state)
            except SourceError as e:
                troubles.note(f"repo {repo.name}", e)
        yield self._batch([], state)
        troubles.raise_any()
        if lost:
            # Their old tree is gone, so what was deleted from it can be told by reconciliation only.
            raise SourceGoneError(f"the head that was read last is no longer in {', '.join(lost)}")

    def fetch(self, uris: Sequence[str]) -> Iterator[Change]:
        """Read single files and commits again; see `ingestion.connector.Reader`."""
        files = list(grouped(uris, self._org.name, "repos", "files"))
        commits = list(grouped(uris, self._org.name, "repos", "commits"))
        if not files and not commits:
            return
        catalogue, guard = self._org.refresh(areas=False), Guard(self._org.client)
        catalogue.require_whole(*catalogue.code_parts)
        for repo_id, addresses in files:
            refused: str | None = None
            repo, git, head, tree = catalogue.repos.get(repo_id), None, None, dict[str, str]()
            rules = FileRules()
            try:
                repo, git, head = self._open(repo)
                if repo is not None and git is not None and head is not None:
                    tree = git.tree(head)
                    rules = self._rules.of(repo, git, tree)
            except SourceNotFoundError as e:
                refused = str(e)
            for uri, segments in addresses:
                path = "/" + "/".join(segments)
                if refused is not None:
                    yield Failure(uri, refused, hide=True)
                elif repo is None or git is None or head is None:
                    yield ItemMissing(uri)
                elif path not in tree:
                    yield ItemDeleted(uri, stated=False)
                else:
                    yield from guard.run(uri, partial(self._file, repo, git, path, tree[path], head, catalogue, rules))
        for repo_id, addresses in commits:
            repo = catalogue.repos.get(repo_id)
            git = self._git(repo) if repo is not None and not repo.disabled else None
            for uri, (sha, *_) in addresses:
                if repo is None or git is None:
                    yield ItemMissing(uri)
                else:
                    yield from guard.run(uri, partial(self._commit, {"commitId": sha}, repo, git, catalogue))

    def _open(self, repo: Repo | None) -> tuple[Repo | None, GitRepo | None, str | None]:
        git = self._git(repo) if repo is not None and not repo.disabled else None
        return repo, git, git.head() if git is not None else None

    def present(self) -> Iterator[str | Unlisted]:
        """Addresses of all files that may be read, and of all commits, at the present heads; a repo that is disabled
        or refused is told, so that its items are withheld and none of them is taken as gone."""
        catalogue = self._org.catalogue
        catalogue.require_whole(*catalogue.code_parts)
        for repo in catalogue.repos.values():
            try:
                if repo.disabled:
                    yield Unlisted(uris.repo_items(self._org.name, repo.id), f"{repo.name} is disabled", withhold=True)
                else:
                    yield from self._present_in(repo, catalogue)
            except SourceNotFoundError as e:
                yield Unlisted(uris.repo_items(self._org.name, repo.id), f"{repo.name}: {e}", withhold=True)

    def _present_in(self, repo: Repo, catalogue: Catalogue) -> Iterator[str]:
        _, git, head = self._open(repo)
        if git is None or head is None:
            return
        tree = git.tree(head)
        rules = self._rules.of(repo, git, tree)
        for path in tree:
            if not isinstance(rules.kind_of(path), LeftOut) and not _is_wiki_page(repo, path, catalogue):
                yield uris.file(self._org.name, repo.id, path)
        for sha in self._history(repo, git, head):
            yield uris.commit(self._org.name, repo.id, sha)

    def _history(self, repo: Repo, git: GitRepo, head: str) -> set[str]:
        """Every commit of the head's history."""
        before, known = self._histories.get(repo.id, ("", set()))
        if before != head:
            found: set[str] = set()
            for page in git.commits(head):
                shas = {str(row["commitId"]).lower() for row in page}
                found |= shas
                if before in found and shas <= known:
                    # The old head lies behind the new one, and so does all that it had.
                    found |= known
                    break
            known = found
            self._histories[repo.id] = (head, known)
        return known

    def _git(self, repo: Repo) -> GitRepo | None:
        return GitRepo(self._org.client, repo.project.id, repo.id, repo.branch) if repo.branch else None

    def _repo(
        self, repo: Repo, state: dict[str, Any], catalogue: Catalogue, guard: Guard, lost: list[str]
    ) -> Iterator[Batch]:
        _, git, head = self._open(repo)
        if git is None or head is None:
            return
        fresh: dict[str, Any] = {"head": None, "names": None, "todo": None, "commits": None, "log": None}
        own = state["repos"].setdefault(repo.id, fresh)
        wikis = sorted((w.id, w.folder, w.branch) for w in catalogue.code_wikis(repo.id))
        names = fingerprint(repo.name, repo.project.name, repo.label, repo.branch, wikis)
        told = fingerprint(names, self._rules.fingerprint)
        if (own["head"], own["names"]) != (head, told):
            yield from self._files(repo, git, head, told, own, state, catalogue, guard, lost)
        if own["commits"] != [head, names]:
            yield from self._commits(repo, git, head, names, own, state, catalogue, guard)

    # --- files

    def _files(
        self,
        repo: Repo,
        git: GitRepo,
        head: str,
        names: str,
        own: dict[str, Any],
        state: dict[str, Any],
        catalogue: Catalogue,
        guard: Guard,
        lost: list[str],
    ) -> Iterator[Batch]:
        listing = git.listing(head)
        tree = listing.files
        before = old_tree(git, own["head"])
        if before is None:
            lost.append(repo.name)
            before = {}
        rules = self._rules.of(repo, git, tree)
        # What a repo says of its files may concern any of them.
        again = own["names"] != names or attribute_files(before) != attribute_files(tree)
        touched = touched_since(git, own["head"], head)
        todo = sorted(p for p in tree if again or before.get(p) != tree[p] or p in touched)
        step = {"head": head, "names": names}
        if mapping(own["todo"]).get("to") == step:
            todo = [p for p in todo if p > own["todo"]["after"]]
        for start in range(0, len(todo), BATCH):
            changes: list[Change] = []
            for path in todo[start : start + BATCH]:
                uri = uris.file(self._org.name, repo.id, path)
                made = guard.run(uri, partial(self._file, repo, git, path, tree[path], head, catalogue, rules))
                changes += made
                if own["head"] is not None and made and isinstance(made[0], Skipped):
                    # It may have been read before it became too large, generated or a wiki page.
                    changes.append(ItemDeleted(uri, stated=False))
            own["todo"] = {"to": step, "after": todo[min(start + BATCH, len(todo)) - 1]}
            yield self._batch(changes, state)
        gone = sorted(set(before) - set(tree))
        own.update(head=head, names=names, todo=None)
        last: list[Change] = [Skipped(uris.file(self._org.name, repo.id, p), why) for p, why in listing.odd.items()]
        yield self._batch(
            [*last, *(ItemDeleted(uris.file(self._org.name, repo.id, p), stated=False) for p in gone)], state
        )

    def _file(
        self, repo: Repo, git: GitRepo, path: str, blob: str, head: str, catalogue: Catalogue, rules: FileRules
    ) -> Iterable[Change]:
        uri = uris.file(self._org.name, repo.id, path)
        if _is_wiki_page(repo, path, catalogue):
            return [Skipped(uri, LeftOut.WIKI_PAGE)]
        kind = rules.kind_of(path)
        if isinstance(kind, LeftOut):
            return [Skipped(uri, kind)]
        text = text_in(git.blob(blob, most=rules.max_bytes), path, kind, rules)
        if isinstance(text, Refusal):
            return [Skipped(uri, text.reason)]
        history = history_of(git, path, head, self._org.identities)
        return [ItemUpserted(file_item(repo, path, text, kind, history, catalogue, self._org.settings.organization))]

    # --- commits

    def _commits(
        self,
        repo: Repo,
        git: GitRepo,
        head: str,
        names: str,
        own: dict[str, Any],
        state: dict[str, Any],
        catalogue: Catalogue,
        guard: Guard,
    ) -> Iterator[Batch]:
        def read(rows: list[tuple[int, Mapping[str, Any]]]) -> list[Change]:
            changes: list[Change] = []
            for _, row in rows:
                sha = str(row["commitId"]).lower()
                uri = uris.commit(self._org.name, repo.id, sha)
                changes += guard.run(uri, partial(self._commit, row, repo, git, catalogue))
            return changes

        old = own["commits"][0] if own["commits"] and own["commits"][1] == names else None
        skip = own["log"]["skip"] if own["log"] and own["log"]["to"] == [head, names] else 0
        for rows in new_commits(git, old, head, skip=skip):
            for start in range(0, len(rows), BATCH):
                some = rows[start : start + BATCH]
                changes = read(some)
                own["log"] = {"to": [head, names], "skip": some[-1][0] + 1}
                yield self._batch(changes, state)
        own.update(commits=[head, names], log=None)
        yield self._batch([], state)

    def _commit(self, row: Mapping[str, Any], repo: Repo, git: GitRepo, catalogue: Catalogue) -> Iterable[Change]:
        if "author" not in row:
            row = git.commit(str(row["commitId"]))
        organization = self._org.settings.organization
        return [ItemUpserted(commit_item(row, repo, git, catalogue, self._org.identities, organization))]

    def _batch(self, changes: list[Change], state: dict[str, Any]) -> Batch:
        state["done"] += sum(isinstance(c, ItemUpserted) for c in changes)
        return Batch(changes=tuple(changes), checkpoint=copy.deepcopy(state), progress=(state["done"], None))


def _is_wiki_page(repo: Repo, path: str, catalogue: Catalogue) -> bool:
    """Whether a file is a page of a code wiki, which shows the same bytes: the page wins."""
    return path.lower().endswith(".md") and any(
        w.branch == repo.branch and path.startswith(w.folder.rstrip("/") + "/") for w in catalogue.code_wikis(repo.id)
    )
