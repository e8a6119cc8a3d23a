"""What hangs on a work item and costs a request of its own: its comments, and what each revision changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from core.errors import SourceError, SourceNotFoundError
from ingestion.azure_devops.catalogue import Area
from ingestion.azure_devops.client import AdoClient, segment
from ingestion.azure_devops.faults import SourceRefusedError
from ingestion.azure_devops.shapes import mapping

_UPDATES = 200
_MOST_UPDATES = 2_000


def comments_of(client: AdoClient, row: Mapping[str, Any], area: Area) -> list[Mapping[str, Any]]:
    """The comments of a work item that are there, oldest first; asks only where its count says that there are any."""
    if mapping(row["fields"]).get("System.CommentCount") == 0:
        return []
    path = f"{segment(area.project.id)}/_apis/wit/workItems/{int(row['id'])}/comments"
    found: list[Mapping[str, Any]] = []
    token: str | None = None
    seen: set[str] = set()
    while True:
        params = {"$top": 200, "continuationToken": token, "includeDeleted": False, "order": "asc"}
        data = mapping(client.get(path, params, version="7.1-preview.4"))
        found += [c for c in data.get("comments") or [] if c]
        token = data.get("continuationToken") or token_in(data.get("nextPage"))
        if not token:
            return found
        if token in seen:
            raise SourceError("the list of comments does not end", where=path)
        seen.add(token)


def updates_of(client: AdoClient, row: Mapping[str, Any], area: Area) -> list[Mapping[str, Any]]:
    """What each revision changed, oldest first; asks only where the state has changed since the item was made.

    A history that can't be told (it may name a project that is gone) is no reason not to read the item: it is empty.
    """
    fields = mapping(row["fields"])
    since = fields.get("Microsoft.VSTS.Common.StateChangeDate")
    if row.get("rev") == 1 or (since is not None and since == fields.get("System.CreatedDate")):
        return []
    path = f"{segment(area.project.id)}/_apis/wit/workItems/{int(row['id'])}/updates"
    found: list[Mapping[str, Any]] = []
    try:
        for page in client.skipping(path, top=_UPDATES):
            found += [mapping(update) for update in page]
            if len(found) >= _MOST_UPDATES:
                break
    except (SourceNotFoundError, SourceRefusedError):
        return []
    return found


def token_in(link: Any) -> str | None:
    """The continuation token in the address of a next page; None where there is none."""
    values = parse_qs(urlsplit(str(link)).query).get("continuationToken") if link else None
    return values[0] if values else None
