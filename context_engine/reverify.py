"""Asks the sources again, for late binding: may this person read this item now, by the source's own word?

`OnBehalfOf` reads the item at its source as the person who asks. What the service shows them is confirmed; a refusal,
a redirect, a sign-in page, throttling, an error or silence is not.
"""

from __future__ import annotations

import json
import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

import httpx

from context_engine.exchange import TokenExchange
from core.errors import SourceError
from core.items import ItemKind, Source
from core.principals import PrincipalSet
from graph.unconfirmed import ToConfirm

# An item's own document is small; of a larger one its beginning would not be JSON.
_MOST_BYTES: Final = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """Where a source is asked, and what the token for it is asked for."""

    url: str
    scope: str


class OnBehalfOf:
    """Reads items as the person who asks. A service that is None confirms nothing of its source."""

    def __init__(
        self, exchange: TokenExchange, *, azure_devops: Service | None, graph: Service | None, connections: int
    ) -> None:
        self._exchange = exchange
        self._azure_devops, self._graph = azure_devops, graph
        limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
        self._http = httpx.Client(follow_redirects=False, trust_env=False, limits=limits)
        # The query plane has no end of its own: connections go with whoever asks by them.
        weakref.finalize(self, self._http.close)

    def batches(self, items: Sequence[ToConfirm]) -> Sequence[Sequence[ToConfirm]]:
        """Each item by itself: only that says that it is still there."""
        return [(item,) for item in items]

    def confirmed(self, principals: PrincipalSet, batch: Sequence[ToConfirm], deadline: float) -> frozenset[str]:
        """See `query.late_binding.SourceVerifier`."""
        return frozenset(item.uri for item in batch if self._shows(principals, item, deadline))

    def _shows(self, principals: PrincipalSet, item: ToConfirm, deadline: float) -> bool:
        service = self._graph if item.source is Source.TEAMS else self._azure_devops
        if service is None:
            return False
        address = address_of(item)
        token = self._exchange.token(principals.asker, service.scope, deadline)
        headers = {
            "Authorization": f"Bearer {token}",
            "Accept": "application/json",
            "X-TFS-FedAuthRedirect": "Suppress",
        }
        url = f"{service.url.rstrip('/')}/{address}"
        with self._http.stream("GET", url, headers=headers, timeout=_left(deadline)) as answer:
            body = bytearray()
            # In the pieces that it comes in: whoever waits for larger ones waits as long as they take.
            for piece in answer.iter_bytes():
                body += piece
                if len(body) > _MOST_BYTES:
                    raise SourceError("an item's document is too large", where=service.url)
                _left(deadline)
            return answer.status_code == httpx.codes.OK and _is_there(bytes(body))


def _is_there(body: bytes) -> bool:
    """Whether the document shows an item: a deleted message is answered with its time of deletion."""
    document = json.loads(body)
    return isinstance(document, dict) and bool(document) and not document.get("deletedDateTime")


def address_of(item: ToConfirm) -> str:
    """Where an item is read, below its service's address. Raises SourceError for an address of no known form.

    Azure DevOps REST 7.1: Work Items, Wiki Pages, Git Items, Commits, Pull Requests - Get. Graph: chatMessage - get.
    """
    parts = item.uri.removeprefix("ctx://").split("/")
    match item.kind, parts:
        case ItemKind.WORK_ITEM, ["ado", _, "work-items", number]:
            return f"_apis/wit/workitems/{number}?fields=System.Id&api-version=7.1"
        case ItemKind.WIKI_PAGE, ["ado", _, "wikis", wiki, "pages", page]:
            project = quote(item.attributes.get("project", ""), safe="")
            return f"{project}/_apis/wiki/wikis/{wiki}/pages/{page}?api-version=7.1"
        case ItemKind.COMMIT, ["ado", _, "repos", repo, "commits", sha]:
            return f"_apis/git/repositories/{repo}/commits/{sha}?api-version=7.1"
        case ItemKind.PULL_REQUEST, ["ado", _, "repos", repo, "pull-requests", number]:
            return f"_apis/git/repositories/{repo}/pullrequests/{number}?api-version=7.1"
        case _, ["ado", _, "repos", repo, "files", *path]:
            file = quote("/" + "/".join(unquote(p) for p in path), safe="")
            return f"_apis/git/repositories/{repo}/items?path={file}&includeContent=false&$format=json&api-version=7.1"
        case ItemKind.THREAD, ["teams", _, "channels", channel, "messages", message] if item.attributes.get("team_id"):
            return f"teams/{quote(item.attributes['team_id'], safe='')}/channels/{channel}/messages/{message}"
    raise SourceError("an address that its source can't be asked about")


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("no time is left to ask the source")
    return left
