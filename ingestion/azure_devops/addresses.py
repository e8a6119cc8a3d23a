"""Reads ctx:// addresses back into ids, so that single items can be fetched again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from urllib.parse import unquote


def parts_of(uri: str, organization: str) -> tuple[str, ...] | None:
    """The decoded segments behind the organization: ("repos", id, "files", "a", "b.py"); None for other addresses."""
    head = f"ctx://ado/{organization.lower()}/"
    if not uri.startswith(head):
        return None
    return tuple(unquote(s, errors="surrogatepass") for s in uri.removeprefix(head).split("/"))


def work_item_ids(uris: Iterable[str], organization: str) -> list[int]:
    """Ids of the work items among some addresses (a comment's counts as its item's), ascending, each once."""
    found = set()
    for uri in uris:
        parts = parts_of(uri, organization)
        if parts and len(parts) >= 2 and parts[0] == "work-items" and parts[1].isdigit():
            found.add(int(parts[1]))
    return sorted(found)


def grouped(
    uris: Iterable[str], organization: str, kind: str, within: str
) -> Iterator[tuple[str, list[tuple[str, tuple[str, ...]]]]]:
    """Addresses `…/{kind}/{id}/{within}/…` by id: (id, [(address, segments behind `within`)]), in order of ids."""
    groups: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for uri in uris:
        parts = parts_of(uri, organization)
        if parts and len(parts) >= 4 and parts[0] == kind and parts[2] == within:
            groups.setdefault(parts[1], []).append((uri, parts[3:]))
    yield from sorted(groups.items())
