"""Turns one wiki page as the service gives it, with the history of its file, into an Item."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from core import uris
from core.items import Contribution, Item, ItemKind, Link, Part, Role, Source
from ingestion.azure_devops import authority
from ingestion.azure_devops.catalogue import Catalogue, Wiki
from ingestion.azure_devops.git import GitRepo
from ingestion.azure_devops.history import history_of
from ingestion.azure_devops.identities import Identities
from ingestion.azure_devops.links import merged, stated_links, target_of
from ingestion.azure_devops.shapes import mentioned, text_of, web
from ingestion.azure_devops.signals import among, read_signals
from ingestion.azure_devops.texts import page_text
from ingestion.azure_devops.wiki_paths import PageIndex, attachments, git_path, link_targets, title_of
from ingestion.azure_devops.wiki_places import Place


@dataclass(slots=True)
class WikiReading:
    """One wiki in one run: its pages by id, its tree at `head`, and what finds pages by link."""

    wiki: Wiki
    base: str
    repo: GitRepo
    head: str
    tree: dict[str, str]
    pages: Mapping[int, Place]
    index: PageIndex


def page_item(
    data: Mapping[str, Any],
    number: int,
    reading: WikiReading,
    *,
    catalogue: Catalogue,
    identities: Identities,
    organization: str,
) -> tuple[Item, dict[str, int | None]]:
    """The item, and what its links and the titles it names lead to now. `data` is the page by its id, with its content.

    Raises SourceError where its history can't be read.
    """
    wiki = reading.wiki
    path = "/" + str(data.get("path") or reading.pages[number].path).strip("/")
    text = text_of(data.get("content"))
    file = file_of(reading, path, str(data.get("gitItemPath") or ""))
    history = history_of(reading.repo, file, reading.head, identities)
    former = [known for f in history.former if (known := _page_path(f, wiki)) != path]
    signals = read_signals(text)
    files = attachments(text)
    # Some organizations keep a page's owner beside it; that names an identity, where the text has but a name.
    owner = identities.person(data.get("owner")) or among(signals.owner, history.authors())
    reviewer = among(signals.reviewer, history.authors())
    last = history.last
    contributions = list(history.contributions())
    if owner is not None:
        contributions.append(Contribution(person=owner, role=Role.OWNS, at=None))
    if reviewer is not None:
        contributions.append(Contribution(person=reviewer, role=Role.VALIDATED, at=signals.reviewed_at))
    contributions += identities.mentions(mentioned(text))
    uri = uris.wiki_page(catalogue.organization, wiki.id, number)
    item = Item(
        uri=uri,
        source=Source.WIKIS,
        kind=ItemKind.WIKI_PAGE,
        scope=catalogue.wiki_scope(wiki),
        title=title_of(path),
        url=web(
            organization,
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
        links=_links(reading, path, text, catalogue, uri),
        aliases=tuple(dict.fromkeys([path, file, *former, *files])),
        deprecated=signals.deprecated,
        replaced_by=tuple(_replacement(reading, path, x, catalogue) for x in signals.replaced_by),
        attributes=_attributes(wiki, path, reading.pages[number].order, files, former),
    )
    return item, reading.index.lookups(link_targets(text), signals.replaced_by, path)


def _links(reading: WikiReading, path: str, text: str, catalogue: Catalogue, own: str) -> tuple[Link, ...]:
    pages = [reading.index.find(target, path) for target in link_targets(text)]
    own_wiki = tuple(
        Link(to=uris.wiki_page(catalogue.organization, reading.wiki.id, n), rel="links_to")
        for n in pages
        if n is not None
    )
    return merged(own_wiki, stated_links(text, catalogue), own=own)


def _replacement(reading: WikiReading, path: str, target: str, catalogue: Catalogue) -> str:
    """The address of what replaced a page; as written where it is none that we know."""
    number = reading.index.named(target, path)
    if number is not None:
        return uris.wiki_page(catalogue.organization, reading.wiki.id, number)
    return target_of(target, catalogue) or target


def file_of(reading: WikiReading, path: str, told: str = "") -> str:
    """The file of a page in the backing repo; `told` may leave out a code wiki's folder."""
    folder = reading.wiki.folder if reading.wiki.is_code else "/"
    below = f"{folder.rstrip('/')}{told}" if told else ""
    # Some answers escape more of a path than its file does.
    for candidate in (told, below, git_path(path, folder), unquote(told), unquote(below)):
        if candidate and candidate in reading.tree:
            return candidate
    return git_path(path, folder)


def _attributes(wiki: Wiki, path: str, order: int | None, files: list[str], former: list[str]) -> dict[str, str]:
    """`order` is the place among the pages that lie beside it, from 0; `attachments` are names, never contents;
    `moved_from` are the paths that it had before, the latest first."""
    found = {"project": wiki.project.name, "wiki": wiki.name, "path": path, "parent": path.rpartition("/")[0]}
    found |= {"order": str(order)} if order is not None else {}
    found |= {"attachments": "; ".join(files), "moved_from": "; ".join(former)}
    return {key: value for key, value in found.items() if value}


def _page_path(file: str, wiki: Wiki) -> str:
    """The page path that a file had: what people may still call it."""
    folder = wiki.folder.rstrip("/") if wiki.is_code else ""
    return unquote(file.removeprefix(folder).removesuffix(".md").replace("-", " "))
