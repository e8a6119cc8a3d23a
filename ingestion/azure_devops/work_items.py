"""Reads work items: what changed by the reporting feed, then the whole items in batches, and the recycle bin."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from core import uris
from core.errors import SourceError, SourceNotFoundError
from core.items import Source
from ingestion.azure_devops.addresses import work_item_ids
from ingestion.azure_devops.catalogue import Area, Catalogue
from ingestion.azure_devops.client import rows_of, segment
from ingestion.azure_devops.faults import SourceRefusedError
from ingestion.azure_devops.guard import Guard
from ingestion.azure_devops.link_feed import changed_ends
from ingestion.azure_devops.organization import Organization, fingerprint
from ingestion.azure_devops.page_links import PageLinks
from ingestion.azure_devops.shapes import insensitive, mapping, when
from ingestion.azure_devops.work_item_details import comments_of, token_in, updates_of
from ingestion.azure_devops.work_item_fields import item_of, mentions_in
from ingestion.connector import Batch, Change, Failure, ItemDeleted, ItemUpserted

BATCH = 50
# WIQL fails where it would find more; ids are whole numbers, so a window of this many can't hold more.
WIQL_MOST = 19_999
_FEED = "_apis/wit/reporting/workitemrevisions"


class WorkItemsReader:
    """Checkpoint: `token` of the feed of revisions; `links`, that of the feed of links; `names`, a digest for each
    project (renamed areas and labels make no revisions); `again`, the project that is being read again for that, with
    a feed token of its own; `bin`, what the recycle bin held; `led` and `heads`, see PageLinks; `done`, a count for
    people.
    """

    name = "work_items"
    source = Source.WORK_ITEMS

    def __init__(self, organization: Organization) -> None:
        self._org = organization
        self._long_fields: frozenset[str] | None = None
        self._pages = PageLinks(organization)

    def read(self, checkpoint: Mapping[str, Any] | None) -> Iterator[Batch]:
        """Yield batches; see `ingestion.connector.Reader`."""
        catalogue = self._org.refresh()
        self._long_fields = None
        state: dict[str, Any] = {"token": None, "links": None, "names": {}, "again": None, "bin": None, "done": 0}
        state |= {"led": {}, "heads": {}}
        state.update(copy.deepcopy(dict(checkpoint or {})))
        self._pages.begin(state)
        state["led"] = self._pages.led
        guard = Guard(self._org.client)
        names = _names(catalogue)
        if checkpoint is None:
            # The feed will give everything under these names.
            state["names"] = names
        if catalogue.whole("areas"):
            # A project that is gone is read anew if it comes back, since its items are not present meanwhile.
            state["names"] = {p: n for p, n in state["names"].items() if p in names}
        yield from self._recycle_bin(state, catalogue, guard)
        yield from self._renamed(state, names, catalogue, guard)
        if state["links"] is None:
            # All links that there are now come with their items.
            for _, state["links"] in changed_ends(self._org.client, None):
                pass
        just_read: set[int] = set()
        for ids, token in self._feed(state["token"], None, deleted=True):
            just_read.update(ids)
            yield from self._page(ids, state, catalogue, guard, {"token": token})
        for ends, token in changed_ends(self._org.client, state["links"]):
            changes = self._known(sorted(set(ends) - just_read), catalogue, guard)
            state["links"] = token
            yield self._batch(changes, state)
        yield from self._led_elsewhere(state, catalogue, guard)

    def fetch(self, uris: Sequence[str]) -> Iterator[Change]:
        """Read single work items again; see `ingestion.connector.Reader`."""
        ids = work_item_ids(uris, self._org.name)
        catalogue = self._org.refresh() if ids else None
        guard = Guard(self._org.client)
        for start in range(0, len(ids), BATCH):
            if catalogue is not None:
                yield from self._read(ids[start : start + BATCH], catalogue, guard)

    def present(self) -> Iterator[str]:
        """Addresses of all work items that can be read now, of the projects that may be read."""
        catalogue = self._org.catalogue
        catalogue.require_whole("areas")
        for project in catalogue.projects:
            for number in self._ids(project.id):
                yield uris.work_item(self._org.name, number)

    def _ids(self, project: str) -> Iterator[int]:
        """Ids of a project's work items by WIQL; where it would find too many, window by window."""
        last = 0
        while True:
            try:
                yield from self._wiql(project, f"[System.Id] > {last}")
                return
            except SourceRefusedError as e:
                if "VS402337" not in str(e):
                    raise
            yield from self._wiql(project, f"[System.Id] > {last} AND [System.Id] <= {last + WIQL_MOST}")
            last += WIQL_MOST

    def _wiql(self, project: str, condition: str) -> list[int]:
        where = f"[System.TeamProject] = @project AND {condition}"
        query = f"SELECT [System.Id] FROM WorkItems WHERE {where} ORDER BY [System.Id]"  # noqa: S608 - whole numbers
        data = mapping(self._org.client.post(f"{segment(project)}/_apis/wit/wiql", {"query": query}))
        return [int(row["id"]) for row in data["workItems"] or []]

    # --- what changed

    def _feed(self, token: str | None, project: str | None, *, deleted: bool) -> Iterator[tuple[list[int], str | None]]:
        """Yield (ids, next token) for each page of the feed of newest revisions."""
        path = f"{segment(project)}/{_FEED}" if project else _FEED
        seen: set[str] = set()
        while True:
            params = {
                "continuationToken": token,
                "includeLatestOnly": True,
                "includeDeleted": deleted,
                "fields": "System.Id,System.Rev",
                "$maxPageSize": BATCH,
            }
            data = mapping(self._org.client.get(path, params))
            ids = list(dict.fromkeys(int(row["id"]) for row in data["values"] or [] if row))
            # One form of the answer has the token in its link only.
            following = data.get("continuationToken") or token_in(data.get("nextLink"))
            last = bool(data.get("isLastBatch"))
            if not last and (following is None or following == token or str(following) in seen):
                raise SourceError("the feed of revisions does not go on", where=_FEED)
            token = str(following) if following is not None else token
            seen |= {token} if token is not None else set()
            yield ids, token
            if last:
                return

    def _renamed(
        self, state: dict[str, Any], names: dict[str, str], catalogue: Catalogue, guard: Guard
    ) -> Iterator[Batch]:
        """Read again what lies in projects whose names, areas or label are not what they were."""
        for project in sorted(names):
            if state["names"].get(project) == names[project] or project in catalogue.without_areas:
                continue
            again = mapping(state["again"])
            going_on = (again.get("project"), again.get("names")) == (project, names[project])
            for ids, following in self._feed(again["token"] if going_on else None, project, deleted=False):
                step = {"project": project, "names": names[project], "token": following}
                yield from self._page(ids, state, catalogue, guard, {"again": step})
            state["names"][project] = names[project]
            state["again"] = None
            yield self._batch([], state)

    def _led_elsewhere(self, state: dict[str, Any], catalogue: Catalogue, guard: Guard) -> Iterator[Batch]:
        """Read again the items whose links to wiki pages lead elsewhere since pages came, went or moved."""
        stale, heads = self._pages.elsewhere(catalogue)
        for start in range(0, len(stale), BATCH):
            yield self._batch(self._known(stale[start : start + BATCH], catalogue, guard), state)
        if heads != state["heads"]:
            state["heads"] = heads
            yield self._batch([], state)

    def _page(
        self, ids: list[int], state: dict[str, Any], catalogue: Catalogue, guard: Guard, after: dict[str, Any]
    ) -> Iterator[Batch]:
        """Yield the batches of one page of the feed; `after` is taken into the state with the last of them."""
        chunks = [ids[i : i + BATCH] for i in range(0, len(ids), BATCH)] or [[]]
        for chunk in chunks[:-1]:
            yield self._batch(self._read(chunk, catalogue, guard), state)
        changes = self._read(chunks[-1], catalogue, guard)
        state.update(after)
        yield self._batch(changes, state)

    def _batch(self, changes: list[Change], state: dict[str, Any]) -> Batch:
        state["done"] += sum(isinstance(c, ItemUpserted) for c in changes)
        return Batch(changes=tuple(changes), checkpoint=copy.deepcopy(state), progress=(state["done"], None))

    # --- whole items

    def _read(self, ids: list[int], catalogue: Catalogue, guard: Guard) -> list[Change]:
        if not ids:
            return []
        body = {"ids": ids, "$expand": "All", "errorPolicy": "omit"}
        rows = rows_of(self._org.client.post("_apis/wit/workitemsbatch", body))
        # What is deleted or unreadable is left out as a null.
        found = {int(row["id"]): row for row in rows if row}
        self._org.identities.learn(key for row in found.values() for key in mentions_in(mapping(row.get("fields"))))
        changes: list[Change] = []
        for number in ids:
            read = partial(self._item, found[number], catalogue) if number in found else partial(self._hole, number)
            self._pages.forget(number)
            changes += guard.run(uris.work_item(self._org.name, number), read)
        return changes

    def _known(self, ids: list[int], catalogue: Catalogue, guard: Guard) -> list[Change]:
        """Read items of which we only know a number: one that is not to be read is none of ours."""
        changes: list[Change] = []
        for start in range(0, len(ids), BATCH):
            read = self._read(ids[start : start + BATCH], catalogue, guard)
            changes += [c for c in read if not (isinstance(c, Failure) and c.hide)]
        return changes

    def _item(self, row: Mapping[str, Any], catalogue: Catalogue) -> Iterable[Change]:
        number, fields = int(row["id"]), row["fields"]
        project = catalogue.project_named(fields["System.TeamProject"])
        if project is None:
            # Outside of what the administrator allows to be read, perhaps since it was moved there.
            return [ItemDeleted(uris.work_item(self._org.name, number), stated=False)]
        area = _area(fields, catalogue)
        if area is None or area.project.id != project.id:
            # What is changed may have been moved: nobody sees it until it is known where it lies.
            known = "the area tree could not be read" if project.id in catalogue.without_areas else "unknown area"
            raise SourceNotFoundError(f"it can't be told who may read it: {known}", where=f"work item {number}")
        item = item_of(
            row,
            comments_of(self._org.client, row, area),
            updates_of(self._org.client, row, area),
            area=area,
            scope=catalogue.area_scope(area),
            catalogue=catalogue,
            identities=self._org.identities,
            organization=self._org.settings.organization,
            label_field=self._org.settings.label_field,
            long_fields=self._long(),
            page_at=self._pages.of(number),
        )
        return [ItemUpserted(item)]

    def _hole(self, number: int) -> Iterable[Change]:
        """What to make of an id that the batch call left out: deleted if the recycle bin says so, else hidden."""
        data = self._org.client.get(f"_apis/wit/recyclebin/{number}", lenient=True)
        if data is None:
            raise SourceNotFoundError("deleted for good, or not readable", where=f"work item {number}")
        at = when(insensitive(mapping(data)).get("deleteddate"))
        return [ItemDeleted(uris.work_item(self._org.name, number), at)]

    def _long(self) -> frozenset[str]:
        """Reference names of the fields that hold HTML, custom ones too."""
        if self._long_fields is None:
            rows = rows_of(self._org.client.get("_apis/wit/fields", lenient=True))
            self._long_fields = frozenset(str(r["referenceName"]) for r in rows if r.get("type") == "html")
        return self._long_fields

    # --- recycle bin

    def _recycle_bin(self, state: dict[str, Any], catalogue: Catalogue, guard: Guard) -> Iterator[Batch]:
        """Tell what was deleted or restored since the last look.

        A bin that we may not open tells nothing; `present` finds the same deletions, a little later.
        """
        held = self._in_bins(catalogue)
        if held is None:
            return
        known, state["bin"] = state["bin"], sorted(held)
        if known is None:
            return
        changes: list[Change] = [ItemDeleted(uris.work_item(self._org.name, n)) for n in sorted(held - set(known))]
        # What is neither in the bin nor readable was destroyed: it is gone already for whoever reads.
        changes += self._known(sorted(set(known) - held), catalogue, guard)
        if changes:
            yield self._batch(changes, state)

    def _in_bins(self, catalogue: Catalogue) -> set[int] | None:
        """Ids of all deleted work items; None where a bin may not be opened, or holds too many to be listed.

        The organization's bin is one request; where it is refused, and where not all projects may be read, each
        project's own is.
        """
        places = [f"{segment(project.id)}/" for project in catalogue.projects]
        for paths in ([""], places) if "*" in self._org.settings.projects else (places,):
            try:
                rows = [r for path in paths for r in rows_of(self._org.client.get(f"{path}_apis/wit/recyclebin"))]
            except (SourceRefusedError, SourceNotFoundError):
                continue
            return {int(insensitive(mapping(row))["id"]) for row in rows if row}
        return None


def _area(fields: Mapping[str, Any], catalogue: Catalogue) -> Area | None:
    number = fields.get("System.AreaId")
    if number is not None:
        return catalogue.areas.get(int(number))
    return catalogue.area_by_path(str(fields.get("System.AreaPath") or ""))


def _names(catalogue: Catalogue) -> dict[str, str]:
    by_project: dict[str, list[tuple[int, str]]] = {p.id: [] for p in catalogue.projects}
    for area in catalogue.areas.values():
        by_project[area.project.id].append((area.id, area.path))
    return {p.id: fingerprint(p.name, p.label, sorted(by_project[p.id])) for p in catalogue.projects}
