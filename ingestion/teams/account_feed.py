"""Accounts by delta: the whole list once, then what changed. Facts: Microsoft Graph documentation, "user: delta",
"servicePrincipal: delta", "Use delta query"."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from core.errors import SourceAuthError, SourceError, SourceNotFoundError
from ingestion.connector import DirectoryPerson
from ingestion.teams.client import LOST, GraphClient, rows_of
from ingestion.teams.directory import SERVICE_FIELDS, USER_FIELDS, identified, service_of, user_of

Json = Mapping[str, Any]

# A link is asked for nothing but its round, so one that is not found is lost as well.
LOST_ROUND: Final = (*LOST, SourceNotFoundError)
# So many changed accounts are asked for their manager one by one; more are read with the whole list.
_FEW: Final = 20


@dataclass(frozen=True, slots=True)
class AccountKind:
    """A kind of account: its name, where its list is, which fields are read, how a row becomes an account."""

    word: str
    path: str
    fields: str
    make: Callable[[Json, str], DirectoryPerson]
    with_manager: bool = False


USERS: Final = AccountKind("user", "/users", USER_FIELDS, user_of, with_manager=True)
SERVICES: Final = AccountKind("service principal", "/servicePrincipals", SERVICE_FIELDS, service_of)


class AccountFeed:
    """The accounts of one kind by id, as of the last `refresh`; `gone` are those that were there earlier."""

    def __init__(self, client: GraphClient, kind: AccountKind, tenant: str) -> None:
        self.found: dict[str, DirectoryPerson] = {}
        self.gone: frozenset[str] = frozenset()
        self.unknown: Counter[str] = Counter()
        self._client, self._kind, self._tenant = client, kind, tenant
        self._link: str | None = None

    def refresh(self, *, whole: bool) -> bool:
        """Bring it up to date, by the whole list where `whole` is asked for or the link was lost; True where somebody
        is back who was gone. Raises SourceError; then everything is as it was."""
        if whole or self._link is None:
            return self._begin()
        try:
            rows, link = delta_round(self._client, self._link)
        except LOST_ROUND:
            return self._begin()
        unknown: Counter[str] = Counter()
        removed, changed = set[str](), dict[str, Json]()
        for row in identified(rows, self._kind.word, unknown):
            key = str(row["id"]).lower()
            if "@removed" in row:
                removed.add(key)
            else:
                changed[key] = row
        if removed & changed.keys() or len(changed) > _FEW:
            return self._begin()  # in a round nobody promises an order: which of the two holds is not told
        people = {key: self._person(key, row) for key, row in changed.items()}
        back = people.keys() & self.gone
        self.found = {k: v for k, v in (self.found | people).items() if k not in removed}
        self.gone = (self.gone | removed) - self.found.keys()
        self.unknown += unknown
        self._link = link
        return bool(back)

    def _begin(self) -> bool:
        """The whole list, and a link from before it."""
        kind = self._kind
        try:
            link = delta_round(self._client, f"{kind.path}/delta?$deltatoken=latest&$select={kind.fields}")[1]
        except LOST_ROUND:
            link = None  # no delta here: it is listed each time
        expand = "&$expand=manager($select=id)" if kind.with_manager else ""
        rows = self._client.rows(f"{kind.path}?$select={kind.fields}{expand}&$top=999")
        unknown: Counter[str] = Counter()
        found = {str(r["id"]).lower(): kind.make(r, self._tenant) for r in identified(rows, kind.word, unknown)}
        back = found.keys() & self.gone
        self.gone = (self.gone | self.found.keys()) - found.keys()
        self.found, self.unknown, self._link = found, unknown, link
        return bool(back)

    def _person(self, key: str, row: Json) -> DirectoryPerson:
        """A changed account; its manager, whom a delta does not tell, is asked for. Where that fails it is who it was:
        nothing hangs on it, and a revocation must not wait for it."""
        person = self._kind.make(row, self._tenant)
        if not self._kind.with_manager:
            return person
        try:
            manager = self._client.get(f"/users/{key}/manager?$select=id")
        except SourceNotFoundError:
            return person
        except SourceAuthError:
            raise
        except SourceError:
            known = self.found.get(key)
            return replace(person, manager=known.manager if known else None)
        return self._kind.make({**row, "manager": manager}, self._tenant)


def delta_round(client: GraphClient, link: str) -> tuple[list[dict[str, Any]], str]:
    """All rows of one round, and the link for the next. Raises SourceError where it breaks off: then none of it
    counts."""
    rows: list[dict[str, Any]] = []
    following = None
    for page in client.pages(link):
        rows += rows_of(page, link)
        following = page.get("@odata.deltaLink") or following
    if not isinstance(following, str):
        raise SourceError("the round ended without a link for the next", where=link.split("?")[0])
    return rows, following
