"""Turns one file at the head of a repo into an Item."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from core import uris
from core.items import Item, ItemKind, Part, Source, TextFormat
from ingestion.azure_devops import authority
from ingestion.azure_devops.catalogue import Catalogue, Repo
from ingestion.azure_devops.definitions import Definition
from ingestion.azure_devops.grafana import dashboard_definition
from ingestion.azure_devops.history import History
from ingestion.azure_devops.kinds import FileKind
from ingestion.azure_devops.links import merged, stated_links
from ingestion.azure_devops.power_bi import bim_definition, dax_definition, tmdl_definition
from ingestion.azure_devops.power_bi_report import report_definition
from ingestion.azure_devops.shapes import web
from ingestion.azure_devops.sql_names import defined_names, used_names
from ingestion.azure_devops.texts import page_text

# In these, `#123456` is a colour or an anchor.
_NO_NUMBERS = frozenset({"css", "html", "json", "xml", "yaml", "toml", "ini", "tmdl", "dax"})
_JSON: tuple[Callable[[Any], Definition | None], ...] = (dashboard_definition, bim_definition, report_definition)


def file_item(
    repo: Repo, path: str, text: str, kind: FileKind, history: History, catalogue: Catalogue, organization: str
) -> Item:
    """`path` begins with a slash; `text` is the whole file."""
    uri = uris.file(catalogue.organization, repo.id, path)
    definition = definition_of(text, kind.language)
    defined: tuple[str, ...] = ()
    used: tuple[str, ...] = ()
    if definition is not None:
        used = definition.sql_names
    elif kind.language == "sql":
        defined, used = defined_names(text, path), used_names(text)
    last = history.last
    author = last.author if last else None
    at = last.at if last else None
    plain = path.lstrip("/")
    attributes = {"project": repo.project.name, "repo": repo.name, "path": plain}
    if kind.language:
        attributes["language"] = kind.language
    if defined or used:
        attributes["sql_names"] = ",".join(dict.fromkeys([*defined, *used]))
    if definition is not None:
        attributes.update(definition.attributes)
        parts = tuple(
            Part(uri=uri, text=x.text, format=TextFormat.MARKDOWN, heading=x.heading, author=author, at=at)
            for x in definition.told
        )
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
            dict.fromkeys([*names, *(definition.aliases if definition else ()), *(f"sql:{name}" for name in defined)])
        ),
        attributes=attributes,
    )


def definition_of(text: str, language: str | None) -> Definition | None:
    """A dashboard, report or model kept as code, told thing by thing; None where a file is none of them."""
    if language == "tmdl":
        return tmdl_definition(text)
    if language == "dax":
        return dax_definition(text)
    if language != "json":
        return None
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return next((found for read in _JSON if (found := read(data)) is not None), None)
