"""Links that a text states: web addresses of the organization, and numbers of work items."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, unquote, urlsplit

from core import uris
from core.items import Link
from ingestion.azure_devops.catalogue import Catalogue, Project

_URL = re.compile(r"https?://[^\s<>\"'`)\]}|]+")
_NUMBER = re.compile(r"(?<![\w&/#=.?-])(?:AB)?#(\d{1,9})\b")
_IN_WORDS = re.compile(r"\bwork[ -]?items?\s+#?(\d{1,9})\b", re.IGNORECASE)
_SHA = re.compile(r"^[0-9a-f]{40}$")


def target_of(url: str, catalogue: Catalogue) -> str | None:
    """The ctx:// address of a page of the organization's web site; None for anything else."""
    try:
        parts = urlsplit(url.rstrip(".,;:"))
    except ValueError:
        return None
    host = (parts.hostname or "").lower()
    segments = [unquote(s) for s in parts.path.split("/") if s]
    if host == "dev.azure.com":
        if not segments or segments[0].lower() != catalogue.organization:
            return None
        segments = segments[1:]
    elif host != f"{catalogue.organization}.visualstudio.com":
        return None
    if segments and segments[0].lower() == "defaultcollection":
        segments = segments[1:]
    if len(segments) < 2:
        return None
    project = catalogue.project_named(segments[0])
    lowered = [s.lower() for s in segments]
    if "_workitems" in lowered and segments[-1].isdigit():
        return uris.work_item(catalogue.organization, int(segments[-1]))
    if project is None:
        return None
    query = {k.lower(): v[0] for k, v in parse_qs(parts.query).items()}
    if lowered[1] == "_git" and len(segments) >= 3:
        return _in_repo(project, segments[2], segments[3:], query.get("path"), catalogue)
    if lowered[1:3] == ["_wiki", "wikis"] and len(segments) >= 4:
        number = segments[4] if len(segments) > 4 and segments[4].isdigit() else query.get("pageid", "")
        wiki = next((w for w in catalogue.wikis if segments[3].lower() in (w.name.lower(), w.id)), None)
        if wiki is not None and number.isdigit():
            return uris.wiki_page(catalogue.organization, wiki.id, int(number))
    return None


def _in_repo(project: Project, name: str, rest: list[str], path: str | None, catalogue: Catalogue) -> str | None:
    repo = next(
        (r for r in catalogue.repos.values() if r.project.id == project.id and name.lower() in (r.name.lower(), r.id)),
        None,
    )
    if repo is None:
        return None
    if len(rest) == 2 and rest[0].lower() == "pullrequest" and rest[1].isdigit():
        return uris.pull_request(catalogue.organization, repo.id, int(rest[1]))
    if len(rest) == 2 and rest[0].lower() == "commit" and _SHA.match(rest[1].lower()):
        return uris.commit(catalogue.organization, repo.id, rest[1])
    return uris.file(catalogue.organization, repo.id, path) if path and not rest else None


def stated_links(text: str, catalogue: Catalogue, *, numbers: bool = True) -> tuple[Link, ...]:
    """Links in a text, each once, in order: addresses (ours as ctx://), then work items by number.

    `numbers`: whether `#123`, `AB#123` and `work item 123` are read as such (in some languages they are colours).
    """
    found: dict[str, Link] = {}
    for match in _URL.finditer(text):
        url = match.group().rstrip(".,;:")
        to = target_of(url, catalogue) or url
        found.setdefault(to, Link(to=to, rel="mentions"))
    if numbers:
        bare = _URL.sub(" ", text)
        for match in (*_NUMBER.finditer(bare), *_IN_WORDS.finditer(bare)):
            to = uris.work_item(catalogue.organization, int(match.group(1)))
            found.setdefault(to, Link(to=to, rel="mentions"))
    return tuple(found.values())


def merged(*groups: tuple[Link, ...], own: str = "") -> tuple[Link, ...]:
    """All links in order, each target once (the first rel wins), without links to the item itself."""
    found: dict[str, Link] = {}
    for link in (x for group in groups for x in group):
        if link.to != own:
            found.setdefault(link.to, link)
    return tuple(found.values())
