"""Where each page of a wiki stands: its path, its order among its siblings, its own label and owner, by its id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ingestion.azure_devops.client import AdoClient
from ingestion.azure_devops.shapes import mapping

_DEEPEST = 100


@dataclass(frozen=True, slots=True)
class Place:
    """What a wiki says of a page without opening it. `owner` is an identity's id, where the wiki keeps owners."""

    path: str
    label: str | None = None
    order: int | None = None
    owner: str | None = None

    def facts(self) -> list[Any]:
        """The same for a checkpoint: a page whose facts have changed is read again."""
        return [self.path, self.label, self.order, self.owner]


def read_places(client: AdoClient, base: str) -> dict[int, Place]:
    """The places of all pages; raises SourceError where a list breaks off. `base` is the wiki's own address.

    The batch of pages has the ids, the tree has the order; the path joins them.
    """
    tree = mapping(client.get(f"{base}/pages", {"path": "/", "recursionLevel": "Full"}, lenient=True))
    known: dict[str, Mapping[str, Any]] = {}
    _walk(tree, known, 0)
    found: dict[int, Place] = {}
    for rows in client.pages(f"{base}/pagesbatch", body={"top": 100}):
        for row in rows:
            # What has no id is a folder that no page stands for.
            if row.get("id") is None:
                continue
            path = str(row["path"])
            page = known.get(path, {})
            order = page.get("order")
            owner = mapping(page.get("owner"))
            found[int(row["id"])] = Place(
                path=path,
                label=row.get("sensitivityLabel") or None,
                order=int(order) if isinstance(order, int) else None,
                owner=str(owner.get("descriptor") or owner.get("id") or "") or None,
            )
    return found


def _walk(page: Mapping[str, Any], known: dict[str, Mapping[str, Any]], depth: int) -> None:
    if page.get("path"):
        known[str(page["path"])] = page
    for below in page.get("subPages") or [] if depth < _DEEPEST else []:
        _walk(mapping(below), known, depth + 1)
