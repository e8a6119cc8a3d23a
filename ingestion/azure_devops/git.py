"""Git over REST: heads, trees, blobs, commits and what they changed, always pinned to a commit."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from core.errors import SourceError, SourceNotFoundError
from ingestion.azure_devops.client import LEAST_CAP, AdoClient, listed, rows_of, segment
from ingestion.azure_devops.shapes import mapping, text_of

_CACHED_CHANGES = 256
_PAGE = 100


@dataclass(frozen=True, slots=True)
class Listing:
    """A tree: path to blob id of every file, and path to word (`symlink`, `submodule`) of what only looks like one.

    Paths begin with a slash.
    """

    files: dict[str, str]
    odd: dict[str, str]


@dataclass(frozen=True, slots=True)
class FileChange:
    """What a commit did to one path; `former` is where a renamed file was before."""

    path: str
    deleted: bool
    former: str | None


class GitRepo:
    """The backing store of files or wiki pages; `branch` is where its head is."""

    def __init__(self, client: AdoClient, project_id: str, repo_id: str, branch: str) -> None:
        self._client = client
        self._base = f"{segment(project_id)}/_apis/git/repositories/{segment(repo_id)}"
        self.branch = branch
        self._changes: OrderedDict[str, tuple[FileChange, ...]] = OrderedDict()

    def head(self) -> str | None:
        """The commit at the head of the branch; None where the branch does not exist (an empty repo)."""
        wanted = f"refs/heads/{self.branch}"
        for page in self._client.pages(f"{self._base}/refs", {"filter": f"heads/{self.branch}", "$top": 1000}):
            for row in page:
                # The filter is a prefix: `main` finds `main-2` too.
                if row.get("name") == wanted:
                    return str(row["objectId"]).lower()
        return None

    def tree(self, sha: str) -> dict[str, str]:
        """Path (with a leading slash) to blob id, for every file of a commit."""
        return self.listing(sha).files

    def listing(self, sha: str) -> Listing:
        """Everything in the tree of a commit but its folders."""
        params = {
            "scopePath": "/",
            "recursionLevel": "Full",
            "includeContentMetadata": True,
            "versionDescriptor.versionType": "commit",
            "versionDescriptor.version": sha,
        }
        found = Listing({}, {})
        rows = rows_of(self._client.get(f"{self._base}/items", params))
        if not rows:
            # Even an empty tree has its root: this is an answer without the list, and would mean that all is gone.
            raise SourceError("the tree came without its root", where=self._base)
        for row in rows:
            kind = row.get("gitObjectType", "blob")
            if row.get("isFolder") or kind not in ("blob", "commit"):
                continue
            # A branch argument that is ignored would silently give another version.
            if kind == "blob" and str(row.get("commitId") or sha).lower() != sha:
                raise SourceError("the tree is of another commit than the one asked for", where=self._base)
            if kind == "commit" or row.get("isSymLink"):
                found.odd[str(row["path"])] = "submodule" if kind == "commit" else "symlink"
            else:
                found.files[str(row["path"])] = str(row["objectId"]).lower()
        return found

    def blob(self, blob_id: str, *, most: int | None = None) -> bytes:
        """The bytes of a file; a file in LFS is its pointer. Of a file longer than `most`, more than that many."""
        return self._client.data(f"{self._base}/blobs/{blob_id}", {"$format": "octetStream"}, most=most)

    def commits(self, sha: str, path: str | None = None, *, skip: int = 0) -> Iterator[list[Mapping[str, Any]]]:
        """Pages of commits reachable from `sha`, newest first, of one path or of all."""
        params: dict[str, Any] = {
            "searchCriteria.itemVersion.versionType": "commit",
            "searchCriteria.itemVersion.version": sha,
            "searchCriteria.itemPath": path,
            "searchCriteria.$top": _PAGE,
        }
        before: list[Any] = []
        while True:
            rows = listed(self._client.get(f"{self._base}/commits", {**params, "searchCriteria.$skip": skip}))
            if not rows:
                return
            if rows == before:
                raise SourceError("the list of commits does not go on", where=self._base)
            before = rows
            yield rows
            skip += len(rows)
            if len(rows) < LEAST_CAP:
                return

    def commit(self, sha: str) -> Mapping[str, Any]:
        """One commit, with its whole message and its parents."""
        return mapping(self._client.get(f"{self._base}/commits/{segment(sha)}"))

    def message(self, row: Mapping[str, Any]) -> str:
        """The whole message of a commit, which lists cut short."""
        if row.get("commentTruncated"):
            row = self.commit(str(row["commitId"]))
        return text_of(row.get("comment"))

    def parent(self, sha: str) -> str | None:
        """The first parent of a commit; None for the first commit."""
        parents = self.commit(sha).get("parents") or []
        return str(parents[0]).lower() if parents else None

    def changes(self, sha: str) -> tuple[FileChange, ...]:
        """What a commit changed; the last few hundred answers are kept, as many files ask for the same commit."""
        if sha in self._changes:
            self._changes.move_to_end(sha)
            return self._changes[sha]
        found: dict[str, FileChange] = {}
        skip = 0
        while True:
            params = {"top": _PAGE, "skip": skip}
            rows = mapping(self._client.get(f"{self._base}/commits/{segment(sha)}/changes", params)).get("changes")
            fresh = [c for c in map(_change, rows or []) if c is not None]
            if not rows or all(c.path in found for c in fresh):
                # A server that ignores `skip` answers the same again.
                break
            found.update((c.path, c) for c in fresh)
            skip += len(rows)
            if len(rows) < _PAGE:
                break
        self._changes[sha] = tuple(found.values())
        while len(self._changes) > _CACHED_CHANGES:
            self._changes.popitem(last=False)
        return self._changes[sha]


def _change(row: Mapping[str, Any]) -> FileChange | None:
    item = mapping(row.get("item"))
    if item.get("isFolder") or str(item.get("gitObjectType", "blob")) != "blob" or not item.get("path"):
        return None
    # Kinds come combined, as in "edit, rename".
    kinds = {k.strip().lower() for k in str(row.get("changeType", "")).split(",")}
    former = row.get("originalPath") or row.get("sourceServerItem")
    return FileChange(
        path=str(item["path"]),
        deleted="delete" in kinds,
        former=str(former) if former and any("rename" in k for k in kinds) else None,
    )


def old_tree(repo: GitRepo, sha: str | None) -> dict[str, str] | None:
    """The tree of a commit that we have read before; None where it is not there any more (forced push)."""
    if sha is None:
        return {}
    try:
        return repo.tree(sha)
    except SourceNotFoundError:
        return None
