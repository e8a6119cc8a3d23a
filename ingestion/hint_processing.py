"""Does what deliveries ask for: what a hint names is read again at its source, which alone says how things stand.

A hint that an item was deleted hides it at once and for as long as the source is not asked, or answers with a state
from before: services tell of a deletion before every one of their servers shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, Protocol

from core.errors import SourceError
from core.hints import Hint, HintKind
from graph.inbox import Inbox, is_newer
from ingestion.connector import Connector, ItemUpserted, Reader
from ingestion.hint_groups import Group, Strangers, grouped, ids_of
from ingestion.sync import Synchronizer

GONE: Final = "its source says that it was deleted"
# So often a place is read again that could be read in part only; the run tells the rest, and the poll goes on trying.
_PARTIAL_TRIES: Final = 3


class Lifecycles(Protocol):
    """Sees to subscriptions (`ingestion.teams.subscriptions`)."""

    def lifecycle(self, hint: Hint) -> None:
        """Do what the source says of a subscription. Raises SourceError."""
        ...


class HintProcessor:
    """Handles the hints of the inbox through the synchronizer.

    Each method but `withhold_gone`, `waiting` and `covered_by…` needs the lease of what it works on, and returns
    whether all of it ended well. Raises StoreUnavailableError.
    """

    def __init__(self, inbox: Inbox, synchronizer: Synchronizer, subscriptions: Lifecycles | None) -> None:
        self._inbox = inbox
        self._synchronizer = synchronizer
        self._subscriptions = subscriptions

    def withhold_gone(self, connector: Connector) -> int:
        """Hide every item of which a waiting hint says that it was deleted; return how many that were. Whatever brought
        one back meanwhile, it is hidden again until its hint is settled."""
        return self._inbox.withhold_gone(connector.name, lambda uris: self._synchronizer.withhold(uris, GONE))

    def waiting(self, connector: Connector) -> set[str]:
        """For what hints are due: `access`, `subscriptions`, and names of readers."""
        return self._inbox.waiting(connector.name)

    def access(self, connector: Connector) -> bool:
        """Read again who may read the places that hints name. Payloads are left to whoever writes them."""
        well = True
        while pending := self._inbox.pending(connector.name, HintKind.ACCESS):
            places = {p.hint.place for p in pending}
            whole = None in places
            report = (
                self._synchronizer.sync_access(connector, rewrite=False)
                if whole
                else self._synchronizer.sync_places(
                    connector, sorted(p for p in places if p is not None), rewrite=False
                )
            )
            enough = {p.id for p in pending if p.attempts + 1 >= _PARTIAL_TRIES}
            if report.state == "complete" or (report.state == "partial" and whole):
                enough = {p.id for p in pending}
            elif report.state == "failed":
                enough = set()
            self._inbox.done(enough)
            missed = {p.id for p in pending} - enough
            self._inbox.failed(missed, report.reason or report.state)
            well = well and not missed
        return well

    def covered_by_access(self, connector: Connector, began: datetime) -> int:
        """All permissions of the connector were read, from `began` on: hints that came before are done."""
        return self._inbox.covered(connector.name, HintKind.ACCESS, None, began)

    def covered_by_reader(self, connector: Connector, reader: Reader, began: datetime) -> int:
        """The reader has run to its end, from `began` on: hints to run it that came before are done."""
        return self._inbox.covered(connector.name, HintKind.READER, reader.name, began)

    def items(
        self,
        connector: Connector,
        reader: Reader,
        *,
        between: Callable[[], None] = lambda: None,
        only_items: bool = False,
    ) -> bool:
        """Read the items that hints of this reader name, and run the reader where hints ask for that (not with
        `only_items`). `between` is called before each step that takes its time."""
        well = True
        while pending := self._inbox.pending(connector.name, HintKind.ITEM, reader.name):
            between()
            well = self._read(connector, reader, grouped(pending)) and well
        while not only_items and (pending := self._inbox.pending(connector.name, HintKind.READER, reader.name)):
            between()
            # Whole lists are held against the record by the polls, however many deliveries there are.
            report = self._synchronizer.sync_reader(connector, reader, between=between, compares=False)
            ids = [p.id for p in pending]
            if report.state == "failed":
                self._inbox.failed(ids, report.reason or report.state)
                well = False
            else:
                # Whatever the gate still waits for, everything was read; what failed alone is parked and tried again.
                self._inbox.done(ids)
        return well

    def subscriptions(self, connector: Connector) -> bool:
        """See to the subscriptions that lifecycle events name."""
        well = True
        while pending := self._inbox.pending(connector.name, HintKind.SUBSCRIPTION):
            for one in pending:
                try:
                    if self._subscriptions is not None:
                        self._subscriptions.lifecycle(one.hint)
                    self._inbox.done([one.id])
                except SourceError as e:
                    self._inbox.failed([one.id], str(e))
                    well = False
        return well

    # --- items

    def _read(self, connector: Connector, reader: Reader, some: Sequence[Group]) -> bool:
        doubtful = self._doubtful(reader, [g for g in some if g.may_be_contradicted])
        for group in some:
            if group.uri in doubtful:
                self._inbox.failed(group.ids, doubtful[group.uri])
        settled = [g for g in some if g.uri not in doubtful]
        if not settled:
            return False
        before = self._inbox.known.of([g.uri for g in settled])
        asked = Strangers(reader, {uri for uri, has in before.items() if has.lifecycle in (None, "deleted")})
        report = self._synchronizer.read_items(connector, asked, [g.uri for g in settled])
        if report.state == "failed":
            self._inbox.failed(ids_of(settled), report.reason or report.state)
            return False
        known = self._inbox.known.of([g.uri for g in settled])
        lacking = {g.uri: why for g in settled if (why := g.lacks(known[g.uri], g.uri in asked.refused)) is not None}
        done = [g for g in settled if g.uri not in lacking]
        self._inbox.done(ids_of(done))
        for group in settled:
            if group.uri in lacking:
                self._inbox.failed(group.ids, lacking[group.uri])
        self._show_again(connector, reader, [g.uri for g in done if g.gone and known[g.uri].lifecycle == "live"])
        return not doubtful and not lacking

    def _doubtful(self, reader: Reader, gone: Sequence[Group]) -> dict[str, str]:
        """Items that are said to be gone and that the source still shows, in no newer state; or that can't be asked
        for now. Nothing of what is looked at here is taken in."""
        if not gone:
            return {}
        try:
            changes = list(reader.fetch([g.uri for g in gone]))
        except SourceError as e:
            return {g.uri: str(e) for g in gone}
        shown = {c.item.uri: c.item.version for c in changes if isinstance(c, ItemUpserted)}
        return {
            g.uri: "the source still shows it in no newer state"
            for g in gone
            if g.uri in shown and not is_newer(shown[g.uri], g.gone_at)
        }

    def _show_again(self, connector: Connector, reader: Reader, uris: Sequence[str]) -> None:
        """Items that turned out not to be gone may have been hidden once more just before their hints were settled."""
        hidden = [uri for uri, now in self._inbox.known.of(uris).items() if now.lifecycle == "hidden"]
        if hidden:
            self._synchronizer.read_items(connector, reader, hidden)
