"""Turns one file at the head of a repo into an Item."""

from __future__ import annotations

from datetime import datetime
from urllib.parse import quote

from core import uris
from core.items import Item, ItemKind, Part, PersonRef, Source, TextFormat
from ingestion.azure_devops import authority
from ingestion.azure_devops.catalogue import Catalogue, Repo
from ingestion.azure_devops.dashboards import Dashboard, read_dashboard
from ingestion.azure_devops.history import History
from ingestion.azure_devops.kinds import FileKind
from ingestion.azure_devops.links import merged, stated_links
from ingestion.azure_devops.shapes import web
from ingestion.azure_devops.sql_names import defined_names, used_names
from ingestion.azure_devops.texts import page_text

# In these, `#123456` is a colour or an anchor.
_NO_NUMBERS = frozenset({"css", "html", "json", "xml", "yaml", "toml", "ini"})


def file_item(
    repo: Repo, path: str, text: str, kind: FileKind, history: History, catalogue: Catalogue, organization: str
) -> Item:
    """`path` begins with a slash; `text` is the whole file."""
    uri = uris.file(catalogue.organization, repo.id, path)
    dashboard = read_dashboard(text) if kind.language == "json" else None
    defined: tuple[str, ...] = ()
    used: tuple[str, ...] = ()
    if dashboard is not None:
        used = tuple(dict.fromkeys(n for q in dashboard.queries for n in used_names(q)))
    elif kind.language == "sql":
        defined, used = defined_names(text), used_names(text)
    last = history.last
    author = last.author if last else None
    at = last.at if last else None
    plain = path.lstrip("/")
    attributes = {"project": repo.project.name, "repo": repo.name, "path": plain}
    if kind.language:
        attributes["language"] = kind.language
    if defined or used:
        attributes["sql_names"] = ",".join(dict.fromkeys([*defined, *used]))
    if dashboard is not None:
        attributes["dashboard"] = dashboard.title
        parts = _panel_parts(dashboard, uri, author, at)
    else:
        shown = page_text(text) if kind.format is TextFormat.MARKDOWN else text
        parts = (Part(uri=uri, text=shown, format=kind.format, author=author, at=at, language=kind.language),)
    names = [plain, plain.rpartition("/")[2], *(f.lstrip("/") for f in history.former)]
    return Item(
        uri=uri,
        source=Source.CODE,
        kind=ItemKind.FILE,
        scope=catalogue.repo_scope(repo.id),
        title=plain,
        # The slashes of a path stay readable, as the web site writes them.
        url=f"{web(organization, repo.project.name, '_git', repo.name)}?path={quote(path)}",
        parts=parts,
        version=last.sha if last else "",
        created_at=history.created_at,
        modified_at=at,
        author=author,
        authority=authority.of_file(),
        container=repo.name,
        label=repo.label,
        contributions=history.contributions(),
        links=merged(stated_links(text, catalogue, numbers=kind.language not in _NO_NUMBERS), own=uri),
        aliases=tuple(
            dict.fromkeys([*names, *(dashboard.aliases if dashboard else ()), *(f"sql:{name}" for name in defined)])
        ),
        attributes=attributes,
    )


def _panel_parts(dashboard: Dashboard, uri: str, author: PersonRef | None, at: datetime | None) -> tuple[Part, ...]:
    overview = Part(uri=uri, text=dashboard.overview(), heading=(dashboard.title,), author=author, at=at)
    panels = tuple(
        Part(
            uri=uri,
            text=panel.markdown(),
            format=TextFormat.MARKDOWN,
            heading=tuple(x for x in (dashboard.title, panel.row, panel.title or f"Panel {panel.id}") if x),
            author=author,
            at=at,
        )
        for panel in dashboard.panels
    )
    return (*((overview,) if overview.text else ()), *panels)
