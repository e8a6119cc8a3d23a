"""Reads wiki pages by id, with author and dates from the backing repo, and what they say of their own standing."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import unquote

from core import uris
from core.errors import SourceError, SourceNotFoundError
from core.items import Contribution, Item, ItemKind, Link, Part, Role, Source
from ingestion.azure_devops import authority
from ingestion.azure_devops.addresses import grouped
from ingestion.azure_devops.catalogue import Catalogue, Wiki
from ingestion.azure_devops.client import segment
from ingestion.azure_devops.commits import touched_since
from ingestion.azure_devops.git import GitRepo, old_tree
from ingestion.azure_devops.guard import Guard, Troubles
from ingestion.azure_devops.history import history_of
from ingestion.azure_devops.links import merged, stated_links, target_of
from ingestion.azure_devops.organization import Organization, fingerprint
from ingestion.azure_devops.shapes import mapping, text_of, web
from ingestion.azure_devops.signals import among, read_signals
from ingestion.azure_devops.texts import page_text
from ingestion.azure_devops.wiki_paths import PageIndex, attachments, git_path, link_targets, title_of
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
_MENTION = re.compile(r"@<([0-9A-Fa-f-]{36})>")


@dataclass(slots=True)
class _Reading:
    """One wiki in one run: its pages by id, its tree at `head`, and what finds pages by link."""

    wiki: Wiki
    base: str
    repo: GitRepo
    head: str
    tree: dict[str, str]
    pages: Mapping[int, Place]
    index: PageIndex


class WikisReader:
    """Checkpoint: for each wiki `head` (commit), `names` (digest of what pages inherit), `pages` (id → path, own label,
    order and owner), and while a pass is under way `todo` (the head it works towards and the last page done).

    Links between pages are resolved when the page that states them is read; they lead to ids, which a rename of their
    target does not change. Of a code wiki that is published from several branches the first is read.
    """

    name = "wikis"
    source = Source.WIKIS

    def __init__(self, organization: Organization) -> None:
        self._org = organization

    def read(self, checkpoint: Mapping[str, Any] | None) -> Iterator[Batch]:
        """Yield batches; see `ingestion.connector.Reader`."""
        catalogue = self._org.refresh()
        state: dict[str, Any] = {"wikis": {}, "done": 0}
        state.update(copy.deepcopy(dict(checkpoint or {})))
        if catalogue.whole("wikis", "repos"):
            # A wiki that is gone is read anew if it comes back, since its pages are not present meanwhile.
            here = {w.id for w in catalogue.wikis}
            state["wikis"] = {key: own for key, own in state["wikis"].items() if key in here}
        guard, troubles = Guard(), Troubles()
        for wiki in sorted(catalogue.wikis, key=lambda w: w.id):
            if wiki.disabled:
                # Read anew once it is switched on again.
                state["wikis"].pop(wiki.id, None)
                continue
            try:
                if wiki.is_code:
                    # Its label and whether it is switched on are the repo's.
                    catalogue.require_whole("repos")
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
        catalogue = self._org.refresh() if wanted else None
        guard = Guard()
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

    def _open(self, wiki: Wiki) -> _Reading | None:
        """A wiki as it is now; None where its branch has no commit."""
        repo = GitRepo(self._org.client, wiki.project.id, wiki.repo_id, wiki.branch)
        head = repo.head()
        return self._reading(wiki, repo, head, self._places(wiki)) if head is not None else None

    def _reading(self, wiki: Wiki, repo: GitRepo, head: str, pages: Mapping[int, Place]) -> _Reading:
        """What is needed to read pages of a wiki."""
        base = f"{segment(wiki.project.id)}/_apis/wiki/wikis/{segment(wiki.id)}"
        index = PageIndex({n: place.path for n, place in pages.items()}, wiki.folder)
        return _Reading(wiki, base, repo, head, repo.tree(head), pages, index)

    def _wiki(self, wiki: Wiki, state: dict[str, Any], catalogue: Catalogue, guard: Guard) -> Iterator[Batch]:
        repo = GitRepo(self._org.client, wiki.project.id, wiki.repo_id, wiki.branch)
        head = repo.head()
        pages = self._places(wiki) if head is not None else {}
        own = state["wikis"].setdefault(wiki.id, {"head": None, "names": None, "pages": {}, "todo": None})
        names = fingerprint(wiki.name, wiki.project.name, wiki.label, wiki.is_code, wiki.folder, wiki.branch)
        current = {str(n): place.facts() for n, place in sorted(pages.items())}
        if (own["head"], own["names"], own["pages"]) == (head, names, current):
            return
        reading = self._reading(wiki, repo, head, pages) if head is not None else None
        todo = self._stale(reading, own, names, current) if reading is not None else []
        step = {"head": head, "names": names}
        if mapping(own["todo"]).get("to") == step:
            todo = [n for n in todo if n > own["todo"]["after"]]
        for start in range(0, len(todo), BATCH):
            changes: list[Change] = []
            for number in todo[start : start + BATCH]:
                assert reading is not None
                uri = uris.wiki_page(self._org.name, wiki.id, number)
                changes += guard.run(uri, partial(self._page, reading, number, catalogue))
            own["todo"] = {"to": step, "after": todo[min(start + BATCH, len(todo)) - 1]}
            yield self._batch(changes, state)
        gone = sorted(int(n) for n in own["pages"] if n not in current)
        former = own["pages"]
        own.update(head=head, names=names, pages=current, todo=None)
        yield self._batch([self._gone(wiki, n, str(former[str(n)][0]), reading) for n in gone], state)

    def _gone(self, wiki: Wiki, number: int, path: str, reading: _Reading | None) -> Change:
        """A page that the list lacks: deleted where its file is gone from the backing repo too, else just missing."""
        uri = uris.wiki_page(self._org.name, wiki.id, number)
        if reading is None or _file_of(reading, path) in reading.tree:
            return ItemMissing(uri)
        return ItemDeleted(uri)

    def _stale(self, reading: _Reading, own: dict[str, Any], names: str, current: dict[str, Any]) -> list[int]:
        """Ids of the pages that must be read again, ascending."""
        before = old_tree(reading.repo, own["head"]) if own["names"] == names else None
        touched = touched_since(reading.repo, own["head"], reading.head) if before is not None else set()
        found = set()
        for number, place in reading.pages.items():
            file = _file_of(reading, place.path)
            if (
                before is None
                or own["pages"].get(str(number)) != current[str(number)]
                or before.get(file) != reading.tree.get(file)
                or file in touched
            ):
                found.add(number)
        return sorted(found)

    def _page(self, reading: _Reading, number: int, catalogue: Catalogue) -> Iterable[Change]:
        wiki = reading.wiki
        data = mapping(
            self._org.client.get(f"{reading.base}/pages/{number}", {"includeContent": True, "recursionLevel": "None"})
        )
        path = "/" + str(data.get("path") or reading.pages[number].path).strip("/")
        text = text_of(data.get("content"))
        file = _file_of(reading, path, str(data.get("gitItemPath") or ""))
        history = history_of(reading.repo, file, reading.head, self._org.identities)
        signals = read_signals(text)
        files = attachments(text)
        # Some organizations keep a page's owner beside it; that names an identity, where the text has but a name.
        owner = self._org.identities.person(data.get("owner")) or among(signals.owner, history.authors())
        reviewer = among(signals.reviewer, history.authors())
        last = history.last
        contributions = list(history.contributions())
        if owner is not None:
            contributions.append(Contribution(person=owner, role=Role.OWNS, at=None))
        if reviewer is not None:
            contributions.append(Contribution(person=reviewer, role=Role.VALIDATED, at=signals.reviewed_at))
        for key in dict.fromkeys(_MENTION.findall(text)):
            if person := self._org.identities.person({"id": key, "displayName": key}):
                contributions += [Contribution(person=person, role=Role.MENTIONED, at=None)] if person.principal else []
        uri = uris.wiki_page(self._org.name, wiki.id, number)
        item = Item(
            uri=uri,
            source=Source.WIKIS,
            kind=ItemKind.WIKI_PAGE,
            scope=catalogue.wiki_scope(wiki),
            title=title_of(path),
            url=web(
                self._org.settings.organization,
                wiki.project.name,
                "_wiki",
                "wikis",
                wiki.name,
                str(number),
                title_of(path).replace(" ", "-"),
            ),
            parts=(
                Part(
                    uri=uri,
                    text=page_text(text),
                    heading=tuple(p for p in path.strip("/").split("/")[:-1]),
                    author=last.author if last else None,
                    at=last.at if last else None,
                ),
            ),
            version=last.sha if last else reading.tree.get(file, ""),
            created_at=history.created_at,
            modified_at=last.at if last else None,
            author=last.author if last else None,
            validated_at=signals.reviewed_at,
            owner=owner,
            authority=authority.of_wiki_page(
                owned=owner is not None, reviewed=signals.reviewed_at is not None, deprecated=signals.deprecated
            ),
            container=wiki.name,
            label=data.get("sensitivityLabel") or reading.pages[number].label or wiki.label,
            contributions=tuple(contributions),
            links=self._links(reading, path, text, catalogue, uri),
            aliases=tuple(dict.fromkeys([path, file, *(_page_path(f, wiki) for f in history.former), *files])),
            deprecated=signals.deprecated,
            replaced_by=tuple(self._replacement(reading, path, x, catalogue) for x in signals.replaced_by),
            attributes=_attributes(wiki, path, reading.pages[number].order, files),
        )
        return [ItemUpserted(item)]

    def _links(self, reading: _Reading, path: str, text: str, catalogue: Catalogue, own: str) -> tuple[Link, ...]:
        pages = [reading.index.find(target, path) for target in link_targets(text)]
        own_wiki = tuple(
            Link(to=uris.wiki_page(self._org.name, reading.wiki.id, n), rel="links_to") for n in pages if n is not None
        )
        return merged(own_wiki, stated_links(text, catalogue), own=own)

    def _replacement(self, reading: _Reading, path: str, target: str, catalogue: Catalogue) -> str:
        """The address of what replaced a page; as written where it is none that we know."""
        number = reading.index.find(target, path) or reading.index.titled(target)
        if number is not None:
            return uris.wiki_page(self._org.name, reading.wiki.id, number)
        return target_of(target, catalogue) or target

    def _batch(self, changes: list[Change], state: dict[str, Any]) -> Batch:
        state["done"] += sum(isinstance(c, ItemUpserted) for c in changes)
        return Batch(changes=tuple(changes), checkpoint=copy.deepcopy(state), progress=(state["done"], None))


def _file_of(reading: _Reading, path: str, told: str = "") -> str:
    """The file of a page in the backing repo; `told` may leave out a code wiki's folder."""
    folder = reading.wiki.folder if reading.wiki.is_code else "/"
    for candidate in (told, f"{folder.rstrip('/')}{told}" if told else "", git_path(path, folder)):
        if candidate and candidate in reading.tree:
            return candidate
    return git_path(path, folder)


def _attributes(wiki: Wiki, path: str, order: int | None, files: list[str]) -> dict[str, str]:
    """`order` is the place among the pages that lie beside it, from 0; `attachments` are names, never contents."""
    found = {"project": wiki.project.name, "wiki": wiki.name, "path": path, "parent": path.rpartition("/")[0]}
    found |= {"order": str(order)} if order is not None else {}
    found |= {"attachments": "; ".join(files)}
    return {key: value for key, value in found.items() if value}


def _page_path(file: str, wiki: Wiki) -> str:
    """The page path that a file had: what people may still call it."""
    folder = wiki.folder.rstrip("/") if wiki.is_code else ""
    return unquote(file.removeprefix(folder).removesuffix(".md").replace("-", " "))
