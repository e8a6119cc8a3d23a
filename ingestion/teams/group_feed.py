"""Groups and their direct members by delta: a whole round once, then what changed. Facts: Microsoft Graph
documentation, "group: delta", "Use delta query"."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from core.errors import SourceAuthError, SourceError
from ingestion.teams.account_feed import LOST_ROUND, delta_round
from ingestion.teams.client import GraphClient
from ingestion.teams.directory import Group, identified, kind_of

Json = Mapping[str, Any]

_START: Final = "/groups/delta?$select=id,displayName,members"


class GroupFeed:
    """The groups by id, as of the last `refresh`; `gone` are those that were there earlier.

    Where the delta is refused, or a whole round contradicts itself, groups are listed and read one by one, each time:
    `complete` is False where the members of one could not be read, and `notes` say which.
    """

    def __init__(self, client: GraphClient) -> None:
        self.found: dict[str, Group] = {}
        self.gone: frozenset[str] = frozenset()
        self.unknown: Counter[str] = Counter()
        self.complete = True
        self.notes: tuple[str, ...] = ()
        self._client = client
        self._link: str | None = None

    def refresh(self, *, whole: bool) -> None:
        """Bring it up to date, by a whole round where `whole` is asked for or the link was lost. Raises SourceError;
        then everything is as it was."""
        if whole or self._link is None:
            self._begin()
            return
        try:
            rows, link = delta_round(self._client, self._link)
        except LOST_ROUND:
            self._begin()
            return
        present = {_key(row) for row in rows if "@removed" not in row}
        if _undecided(rows) or not present.isdisjoint(self.gone):
            # Which of two contrary rows holds is not told, nor who is in a group that came back.
            self._begin()
            return
        self._take(dict(self.found), rows, self.unknown.copy(), link)

    def _begin(self) -> None:
        try:
            rows, link = delta_round(self._client, _START)
        except LOST_ROUND as e:
            self._one_by_one(str(e))
            return
        if _undecided(rows):
            self._one_by_one("the list of all changes contradicts itself")
            return
        self._take({}, rows, Counter(), link)
        self.complete, self.notes = True, ()

    def _take(self, groups: dict[str, Group], rows: Iterable[Json], unknown: Counter[str], link: str) -> None:
        """Apply the rows of a round to `groups`, then take these over."""
        fresh: set[str] = set()
        for row in identified(rows, "group", unknown):
            key = _key(row)
            if "@removed" in row:
                groups.pop(key, None)
                continue
            old = groups.get(key) or Group("")
            if key not in fresh:  # a copy, once: until the round is through, nothing may have changed
                old = replace(old, members=dict(old.members or {}))
                fresh.add(key)
            members = old.members or {}
            for member in _members(row):
                if not member.get("id"):
                    old.nameless += 1
                elif "@removed" in member:
                    members.pop(_key(member), None)
                else:
                    members[_key(member)] = kind_of(member)
            groups[key] = replace(old, name=str(row.get("displayName") or old.name), members=members)
        self._replace(groups)
        self.unknown, self._link = unknown, link

    def _one_by_one(self, why: str) -> None:
        unknown: Counter[str] = Counter()
        notes = [f"groups are read one by one: {why}"]
        groups: dict[str, Group] = {}
        # The whole list first: a page link may grow old while members are read.
        for row in list(identified(self._client.rows("/groups?$select=id,displayName&$top=999"), "group", unknown)):
            group = Group(str(row.get("displayName") or ""))
            try:
                for member in self._client.rows(f"/groups/{row['id']}/members?$select=id&$top=999"):
                    if member.get("id") and group.members is not None:
                        group.members[_key(member)] = kind_of(member)
                    else:
                        group.nameless += 1
            except SourceAuthError:
                raise
            except SourceError as e:
                group.members = None  # half a group is no group
                notes.append(f"members could not be read: {e}")
            groups[_key(row)] = group
        self._replace(groups)
        self.unknown, self._link, self.notes = unknown, None, tuple(notes)
        self.complete = all(group.members is not None for group in groups.values())

    def _replace(self, groups: dict[str, Group]) -> None:
        self.gone = (self.gone | self.found.keys()) - groups.keys()
        self.found = groups


def _key(row: Json) -> str:
    return str(row.get("id") or "").lower()


def _members(row: Json) -> Sequence[Json]:
    """The changed members of a group's row. Raises SourceError where they make no sense: half a group is no group."""
    members = row.get("members@delta") or []
    if not isinstance(members, list) or not all(isinstance(m, Mapping) for m in members):
        raise SourceError("the members of a group have an unexpected shape", where="/groups/delta")
    return members


def _undecided(rows: Iterable[Json]) -> bool:
    """Whether a round says two contrary things of one group or member: its rows have no order that is promised."""
    said: dict[tuple[str, str], bool] = {}
    for row in rows:
        facts = [(_key(row), "", "@removed" in row)]
        facts += [(_key(row), _key(m), "@removed" in m) for m in _members(row)]
        if any(said.setdefault((group, member), gone) != gone for group, member, gone in facts):
            return True
    return False
