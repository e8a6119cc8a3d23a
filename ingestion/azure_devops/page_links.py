"""Links of work items to wiki pages, which name a page by its path: where they led, and which lead elsewhere now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from core import uris
from ingestion.azure_devops.catalogue import Catalogue, Wiki
from ingestion.azure_devops.client import segment
from ingestion.azure_devops.git import GitRepo
from ingestion.azure_devops.organization import Organization
from ingestion.azure_devops.shapes import mapping


class PageLinks:
    """`led` is where the links of each work item led when it was read (number → "wiki path" → address), and `heads` the
    heads of the wikis when that was last looked at (None: no such wiki). Both belong in a checkpoint. Of links that led
    nowhere only the wiki is kept ("wiki " → None): the path may be the title of a page that was deleted.
    """

    def __init__(self, organization: Organization) -> None:
        self._org = organization
        self._found: dict[str, str | None] = {}
        self.led: dict[str, dict[str, str | None]] = {}
        self.heads: dict[str, str | None] = {}

    def begin(self, state: Mapping[str, Any]) -> None:
        """A run begins at what a checkpoint holds; what was noted before it (of items read again) is newer."""
        self._found.clear()
        kept = {
            number: {_nameless(k) if to is None else k: to for k, to in used.items()}
            for number, used in state["led"].items()
        }
        self.led = {**kept, **self.led}
        self.heads = dict(state["heads"])

    def of(self, number: int) -> Callable[[str, str], str | None]:
        """What finds pages for the links of one work item, and notes where they lead."""
        self.forget(number)

        def at(wiki_id: str, path: str) -> str | None:
            key = f"{wiki_id} {path}"
            found = self._at(key)
            self.led.setdefault(str(number), {})[key if found is not None else _nameless(key)] = found
            return found

        return at

    def forget(self, number: int) -> None:
        """The item is not read any more, or is about to be read anew."""
        self.led.pop(str(number), None)

    def elsewhere(self, catalogue: Catalogue) -> tuple[list[int], dict[str, str | None]]:
        """Numbers of work items that have a link that leads elsewhere now, or that led nowhere and may lead somewhere,
        and the heads at which that is so.

        Costs a request for each wiki that is linked to; only where its head has moved, one for each linked page too.
        """
        if not catalogue.whole("wikis"):
            return [], self.heads
        # A page may have moved since this run looked first.
        self._found.clear()
        wikis = {wiki.id: wiki for wiki in catalogue.wikis if not wiki.disabled}
        linked = {key.partition(" ")[0] for used in self.led.values() for key in used}
        heads = {key: self._head(wikis.get(key)) for key in sorted(linked)}
        moved = {key for key, head in heads.items() if key not in self.heads or self.heads[key] != head}
        stale = [
            int(number)
            for number, used in self.led.items()
            if any(
                key.partition(" ")[0] in moved and (was is None or self._at(key) != was) for key, was in used.items()
            )
        ]
        return sorted(stale), heads

    def _head(self, wiki: Wiki | None) -> str | None:
        if wiki is None:
            return None
        return GitRepo(self._org.client, wiki.project.id, wiki.repo_id, wiki.branch).head()

    def _at(self, key: str) -> str | None:
        """The address of a wiki page by wiki and path; None where there is none now."""
        if key not in self._found:
            wiki_id, _, path = key.partition(" ")
            wiki = next((w for w in self._org.catalogue.wikis if w.id == wiki_id and not w.disabled), None)
            found = None
            if wiki is not None:
                place = f"{segment(wiki.project.id)}/_apis/wiki/wikis/{segment(wiki_id)}/pages"
                found = mapping(self._org.client.get(place, {"path": path}, lenient=True)).get("id")
            self._found[key] = uris.wiki_page(self._org.name, wiki_id, int(found)) if found is not None else None
        return self._found[key]


def _nameless(key: str) -> str:
    """The wiki of a link without the page that it names."""
    return key.partition(" ")[0] + " "
