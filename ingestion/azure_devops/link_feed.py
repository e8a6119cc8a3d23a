"""The feed of links between work items: a link that comes or goes makes no revision of the item at its other end."""

from __future__ import annotations

from collections.abc import Iterator

from core.errors import SourceError
from ingestion.azure_devops.client import AdoClient
from ingestion.azure_devops.shapes import mapping
from ingestion.azure_devops.work_item_details import token_in

_FEED = "_apis/wit/reporting/workitemlinks"


def changed_ends(client: AdoClient, token: str | None) -> Iterator[tuple[list[int], str | None]]:
    """Yield (ids of both ends, next token) for each page of links that came or went since `token`.

    Deleting an item takes its links from the items at their other ends, and restoring it gives them back. A feed that
    we may not read yields nothing: then links are as old as the revision that was read with them.
    """
    seen: set[str] = set()
    while True:
        data = client.get(_FEED, {"continuationToken": token}, lenient=True)
        if data is None:
            return
        page = mapping(data)
        rows = [mapping(row) for row in page["values"] or [] if row]
        ends = [int(row[end]) for row in rows for end in ("sourceId", "targetId") if row.get(end) is not None]
        following = page.get("continuationToken") or token_in(page.get("nextLink"))
        last = bool(page.get("isLastBatch"))
        if not last and (following is None or following == token or str(following) in seen):
            raise SourceError("the feed of links does not go on", where=_FEED)
        token = str(following) if following is not None else token
        seen |= {token} if token is not None else set()
        yield list(dict.fromkeys(ends)), token
        if last:
            return
