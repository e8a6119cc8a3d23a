"""Reads wiki pages by id, with author and dates from the backing repo, and what they say of their own standing."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from core import uris
from core.errors import SourceError, SourceNotFoundError
from core.items import Source
from ingestion.azure_devops.addresses import grouped
from ingestion.azure_devops.catalogue import Catalogue, Wiki
from ingestion.azure_devops.client import segment
from ingestion.azure_devops.commits import touched_since
from ingestion.azure_devops.faults import shaped
from ingestion.azure_devops.git import GitRepo, old_tree
from ingestion.azure_devops.guard import Guard, Troubles
from ingestion.azure_devops.organization import Organization, fingerprint
from ingestion.azure_devops.shapes import mapping
from ingestion.azure_devops.wiki_page import WikiReading, file_of, page_item
from ingestion.azure_devops.wiki_paths import PageIndex
from ingestion.azure_devops.wiki_places import Place, read_places
from ingestion.connector import (
    Batch,
    Change,
    Failure,
    ItemDeleted,
    ItemMissing,
    ItemUpserted,
    Unlisted,
    Unreadable,
)

BATCH = 20
_MOST_BATCHES = 200


class WikisReader:
    """Checkpoint: for each wiki `head` (commit), `names` (digest of what pages inherit), `pages` (id → path, own label,
    order and owner), `links` (id → what its links lead to), and while a pass is under way `todo` (what it works towards
    and the last page done).

    Links between pages lead to ids. A page whose links would lead elsewhere now is read again. Of a code wiki that is
    published from several branches the first is read.
    """

    name = "wikis"
    source = Source.WIKIS

    def __init__(self, organization: Organization) -> None:
        self._org = organization

    def read(self, checkpoint: Mapping[str, Any] | None) -> Iterator[Batch]:
        """Yield batches; see `ingestion.connector.Reader`."""
        catalogue = self._org.refresh(areas=False)
        state: dict[str, Any] = {"wikis": {}, "done": 0}
        state.update(copy.deepcopy(dict(checkpoint or {})))
        if catalogue.whole("wikis", "repos"):
            # A wiki that is gone is read anew if it comes back, since its pages are not present meanwhile.
            here = {w.id for w in catalogue.wikis}
            state["wikis"] = {key: own for key, own in state["wikis"].items() if key in here}
        guard, troubles = Guard(self._org.client), Troubles()
        for wiki in sorted(catalogue.wikis, key=lambda w: w.id):
            if wiki.disabled:
                # Read anew once it is switched on again.
                state["wikis"].pop(wiki.id, None)
                continue
            try:
                if wiki.is_code:
                    # Its label and whether it is switched on are the repo's.
                    catalogue.require_whole("repos")
                with shaped(f"wiki {wiki.name}"):
                    yield from self._wiki(wiki, state, catalogue, guard)
            except SourceNotFoundError:
                # Not readable for us: what it held is no longer present, and is read anew once it can be.
                state["wikis"].pop(wiki.id, None)
                yield self._batch([Unreadable(f"wiki {wiki.name}")], state)
            except SourceError as e:
                troubles.note(f"wiki {wiki.name}", e)
        yield self._batch([], state)
        catalogue.require_whole("wikis")
        troubles.raise_any()

    def fetch(self, uris: Sequence[str]) -> Iterator[Change]:
        """Read single pages again; see `ingestion.connector.Reader`."""
        wanted = list(grouped(uris, self._org.name, "wikis", "pages"))
        catalogue = self._org.refresh(areas=False) if wanted else None
        guard = Guard(self._org.client)
        for wiki_id, addresses in wanted if catalogue is not None else ():
            assert catalogue is not None
            wiki = next((w for w in catalogue.wikis if w.id == wiki_id and not w.disabled), None)
            refused: str | None = None
            try:
                reading = self._open(wiki) if wiki is not None else None
            except SourceNotFoundError as e:
                reading, refused = None, str(e)
            for uri, (number, *_) in addresses:
                if refused is not None:
                    yield Failure(uri, refused, hide=True)
                elif reading is None or int(number) not in reading.pages:
                    catalogue.require_whole("wikis", "repos")
                    yield ItemMissing(uri)
                else:
                    yield from guard.run(uri, partial(self._page, reading, int(number), catalogue))

    def present(self) -> Iterator[str | Unlisted]:
        """Addresses of all pages of all wikis that can be read; a wiki that is disabled or refused is withheld."""
        catalogue = self._org.catalogue
        catalogue.require_whole("wikis", "repos")
        for wiki in catalogue.wikis:
            if wiki.disabled:
                yield Unlisted(uris.wiki_pages(self._org.name, wiki.id), f"{wiki.name} is disabled", withhold=True)
                continue
            try:
                pages = self._places(wiki)
            except SourceNotFoundError as e:
                yield Unlisted(uris.wiki_pages(self._org.name, wiki.id), f"{wiki.name}: {e}", withhold=True)
                continue
            for number in pages:
                yield uris.wiki_page(self._org.name, wiki.id, number)

    def _places(self, wiki: Wiki) -> dict[int, Place]:
        return read_places(self._org.client, f"{segment(wiki.project.id)}/_apis/wiki/wikis/{segment(wiki.id)}")

    def _open(self, wiki: Wiki) -> WikiReading | None:
        """A wiki as it is now; None where its branch has no commit."""
        repo = GitRepo(self._org.client, wiki.project.id, wiki.repo_id, wiki.branch)
        head = repo.head()
        return self._reading(wiki, repo, head, self._places(wiki)) if head is not None else None

    def _reading(self, wiki: Wiki, repo: GitRepo, head: str, pages: Mapping[int, Place]) -> WikiReading:
        """What is needed to read pages of a wiki."""
        base = f"{segment(wiki.project.id)}/_apis/wiki/wikis/{segment(wiki.id)}"
        index = PageIndex({n: place.path for n, place in pages.items()}, wiki.folder)
        return WikiReading(wiki, base, repo, head, repo.tree(head), pages, index)

    def _wiki(self, wiki: Wiki, state: dict[str, Any], catalogue: Catalogue, guard: Guard) -> Iterator[Batch]:
        repo = GitRepo(self._org.client, wiki.project.id, wiki.repo_id, wiki.branch)
        head = repo.head()
        pages = self._places(wiki) if head is not None else {}
        fresh: dict[str, Any] = {"head": None, "names": None, "pages": {}, "links": {}, "todo": None}
        own = state["wikis"].setdefault(wiki.id, fresh)
        lookups = own.setdefault("links", {})
        names = fingerprint(wiki.name, wiki.project.name, wiki.label, wiki.is_code, wiki.folder, wiki.branch)
        current = {str(n): place.facts() for n, place in sorted(pages.items())}
        if (own["head"], own["names"], own["pages"]) == (head, names, current):
            return
        reading = self._reading(wiki, repo, head, pages) if head is not None else None
        todo = self._stale(reading, own, names, current) if reading is not None else []
        step = {"head": head, "names": names, "pages": fingerprint(current)}
        if mapping(own["todo"]).get("to") == step:
            todo = [n for n in todo if n > own["todo"]["after"]]
        # Each batch writes the whole checkpoint: where that is long, they are larger, so that there are not too many.
        size = max(BATCH, sum(len(mine["pages"]) for mine in state["wikis"].values()) // _MOST_BATCHES)
        for start in range(0, len(todo), size):
            changes: list[Change] = []
            for number in todo[start : start + size]:
                assert reading is not None
                uri = uris.wiki_page(self._org.name, wiki.id, number)
                changes += guard.run(uri, partial(self._page, reading, number, catalogue, lookups))
            own["todo"] = {"to": step, "after": todo[min(start + size, len(todo)) - 1]}
            yield self._batch(changes, state)
        gone = sorted(int(n) for n in own["pages"] if n not in current)
        former = own["pages"]
        links = {n: found for n, found in lookups.items() if n in current}
        own.update(head=head, names=names, pages=current, links=links, todo=None)
        yield self._batch([self._gone(wiki, n, str(former[str(n)][0]), reading) for n in gone], state)

    def _gone(self, wiki: Wiki, number: int, path: str, reading: WikiReading | None) -> Change:
        """A page that the list lacks: deleted where its file is gone from the backing repo too, else just missing."""
        uri = uris.wiki_page(self._org.name, wiki.id, number)
        if reading is None or file_of(reading, path) in reading.tree:
            return ItemMissing(uri)
        return ItemDeleted(uri, stated=False)

    def _stale(self, reading: WikiReading, own: dict[str, Any], names: str, current: dict[str, Any]) -> list[int]:
        """Ids of the pages that must be read again, ascending."""
        before = old_tree(reading.repo, own["head"]) if own["names"] == names else None
        touched = touched_since(reading.repo, own["head"], reading.head) if before is not None else set()
        found = set()
        for number, place in reading.pages.items():
            file = file_of(reading, place.path)
            if (
                before is None
                or own["pages"].get(str(number)) != current[str(number)]
                or before.get(file) != reading.tree.get(file)
                or file in touched
                # A page that came, went or moved makes the links of others lead elsewhere.
                or str(number) not in own["links"]
                or reading.index.stale(own["links"][str(number)], place.path)
            ):
                found.add(number)
        return sorted(found)

    def _page(
        self,
        reading: WikiReading,
        number: int,
        catalogue: Catalogue,
        lookups: dict[str, dict[str, int | None]] | None = None,
    ) -> Iterable[Change]:
        asked = {"includeContent": True, "recursionLevel": "None"}
        data = mapping(self._org.client.get(f"{reading.base}/pages/{number}", asked))
        item, found = page_item(
            data,
            number,
            reading,
            catalogue=catalogue,
            identities=self._org.identities,
            organization=self._org.settings.organization,
        )
        if lookups is not None:
            lookups[str(number)] = found
        return [ItemUpserted(item)]

    def _batch(self, changes: list[Change], state: dict[str, Any]) -> Batch:
        state["done"] += sum(isinstance(c, ItemUpserted) for c in changes)
        return Batch(changes=tuple(changes), checkpoint=copy.deepcopy(state), progress=(state["done"], None))
