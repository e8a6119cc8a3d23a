"""How the messages of a channel are asked for: by delta, whole, one by one. Facts: Microsoft Graph documentation,
"List channel messages", "chatMessage: delta", "List replies"."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from core.errors import SourceAuthError, SourceError, SourceNotFoundError, SourceThrottledError
from ingestion.teams.channels import PREFER, Channel
from ingestion.teams.client import LOST, GraphClient, rows_of
from ingestion.teams.retry import ATTEMPTS

Json = Mapping[str, Any]

# A page of fifty roots with all their replies can be more than the service manages: then fewer at a time, then none.
_STEPS: Final = ("?$top=50&$expand=replies", "?$top=10&$expand=replies", "?$top=50")
# A page that is too much stays too much: it is not asked for as often as others that fail.
_TRIES: Final = 2
# No more replies than this come with a root; that there are more is not always told.
_EXPANDED: Final = 1000
_FINAL: Final = (SourceAuthError, SourceThrottledError, SourceNotFoundError)


class Messages:
    """Reads messages of channels as they are. Every method raises SourceError where Graph does not give them."""

    def __init__(self, client: GraphClient) -> None:
        self._client = client

    def begin(self, channel: Channel) -> str | None:
        """A delta link from now on; None where the channel refuses to begin one, as an empty one may."""
        link = None
        try:
            for page in self._client.pages(f"{channel.url}/messages/delta?$top=50", prefer=PREFER):
                link = page.get("@odata.deltaLink") or link
        except LOST:
            return None
        return link

    def round(self, link: str) -> tuple[Iterable[Json], str | None]:
        """One delta round: changed roots (the last word on each), and the link for the next."""
        roots: dict[str, Json] = {}
        following = None
        for page in self._client.pages(link, prefer=PREFER):
            for row in _roots(page, link):
                roots[str(row.get("id"))] = row
            following = page.get("@odata.deltaLink") or following
        return roots.values(), following

    def roots(self, channel: Channel) -> Iterator[Json]:
        """All roots, without replies."""
        for page in self._client.pages(f"{channel.url}/messages?$top=50", prefer=PREFER):
            yield from _roots(page, channel.url)

    def whole(self, channel: Channel) -> Iterator[tuple[Json, list[Json] | None]]:
        """All roots with all their replies; None where these have to be read by themselves. A root may come twice."""
        done: set[str] = set()
        for step in _STEPS:
            last = step == _STEPS[-1]
            before, tries = frozenset(done), ATTEMPTS if last else _TRIES
            try:
                for page in self._client.pages(f"{channel.url}/messages{step}", prefer=PREFER, tries=tries):
                    for root in _roots(page, channel.url):
                        done.add(str(root.get("id")))
                        if str(root.get("id")) not in before:
                            yield root, _expanded(root)
                return
            except _FINAL:
                raise
            except SourceError:
                if last:
                    raise

    def one(self, channel: Channel, root_id: str) -> Json:
        """One root."""
        return self._client.get(f"{channel.url}/messages/{root_id}", prefer=PREFER)

    def replies(self, channel: Channel, root_id: str) -> list[Json]:
        """All replies to a root."""
        path = f"{channel.url}/messages/{root_id}/replies?$top=50"
        return [row for page in self._client.pages(path, prefer=PREFER) for row in rows_of(page, path)]


def _roots(page: Mapping[str, Any], where: str) -> Iterator[Json]:
    """The roots of a page; what is no message at all is an empty one, and costs only itself. Raises SourceError."""
    rows = page.get("value") if "value" in page else rows_of({}, where)
    if rows is not None and not isinstance(rows, list):
        raise SourceError("the answer has an unexpected shape", where=where)
    for row in rows or ():
        yield row if isinstance(row, Mapping) else {}


def _expanded(root: Json) -> list[Json] | None:
    """The replies that came with a root, where they are all there are."""
    replies = root.get("replies")
    if not isinstance(replies, list) or root.get("replies@odata.nextLink") or len(replies) >= _EXPANDED:
        return None
    return replies
