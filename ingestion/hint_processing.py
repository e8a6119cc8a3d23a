"""Does what deliveries ask for: what a hint names is read again at its source, which alone says how things stand.

A hint that an item was deleted hides it at once and for as long as the source is not asked, or answers with a state
from before: services tell of a deletion before every one of their servers shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

from core.errors import SourceError
from core.hints import Hint, HintKind
from core.items import Source
from graph.hinted import Hinted
from graph.inbox import ATTEMPTS, Inbox, PendingHint, is_newer
from graph.versions import is_number, order
from ingestion.connector import Batch, Change, Connector, Failure, ItemUpserted, Reader, Unlisted
from ingestion.sync import Synchronizer

GONE: Final = "its source says that it was deleted"
# So often a source may contradict a deletion of which it told no version, some 65 seconds in all. Then it is believed:
# what is restored can't be told from what is not gone everywhere yet.
_LOOKS: Final = 4
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
            well = self._read(connector, reader, _groups(pending)) and well
        while not only_items and (pending := self._inbox.pending(connector.name, HintKind.READER, reader.name)):
            between()
            report = self._synchronizer.sync_reader(connector, reader, between=between)
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

    def _read(self, connector: Connector, reader: Reader, groups: Sequence[_Group]) -> bool:
        doubtful = self._doubtful(reader, [g for g in groups if g.may_be_contradicted])
        for group in groups:
            if group.uri in doubtful:
                self._inbox.failed(group.ids, doubtful[group.uri])
        settled = [g for g in groups if g.uri not in doubtful]
        if not settled:
            return False
        before = self._inbox.known.of([g.uri for g in settled])
        asked = _Strangers(reader, {uri for uri, has in before.items() if has.lifecycle is None})
        report = self._synchronizer.read_items(connector, asked, [g.uri for g in settled])
        if report.state == "failed":
            self._inbox.failed(_ids(settled), report.reason or report.state)
            return False
        known = self._inbox.known.of([g.uri for g in settled])
        lacking = {g.uri: why for g in settled if (why := g.lacks(known[g.uri], g.uri in asked.refused)) is not None}
        done = [g for g in settled if g.uri not in lacking]
        self._inbox.done(_ids(done))
        for group in settled:
            if group.uri in lacking:
                self._inbox.failed(group.ids, lacking[group.uri])
        self._show_again(connector, reader, [g.uri for g in done if g.gone and known[g.uri].lifecycle == "live"])
        return not doubtful and not lacking

    def _doubtful(self, reader: Reader, gone: Sequence[_Group]) -> dict[str, str]:
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


@dataclass(frozen=True, slots=True)
class _Group:
    """All that waits for one item. `gone`: some of it says that it was deleted, the latest at version `gone_at`;
    `version` is the newest that any of it told; `looks` is how often it was looked for."""

    uri: str
    ids: tuple[int, ...]
    gone: bool
    gone_at: str | None
    version: str | None
    looks: int

    @property
    def may_be_contradicted(self) -> bool:
        """Whether the source's word against a deletion does not count yet."""
        return self.gone and self.looks + 1 < (ATTEMPTS if self.gone_at is not None else _LOOKS)

    def lacks(self, known: Hinted, refused: bool) -> str | None:
        """What of it has not come in; None where all has, or nothing is to be expected. `refused`: we never had it, and
        the source does not show it to us, perhaps not yet."""
        if refused:
            return None if self.gone or self.looks + 1 >= _LOOKS else "the source does not show it"
        if known.failing and known.lifecycle != "hidden":
            return "it could not be read"
        if self.gone and known.lifecycle == "hidden" and not known.failing:
            return "the source does not say what became of it"
        told, has = self.version, known.version
        if not self.gone and known.lifecycle == "live" and told is not None and has is not None:
            # Only numbers say which is the newer whatever the times.
            behind = is_number(told) and is_number(has) and order(has, None, told, None) == -1
            return "the source does not show that version yet" if behind else None
        return None


class _Strangers:
    """A reader that parks nothing of ours: what the record never had and the source does not show us is no failure of
    a sync, since hooks tell of more than we may read. `refused` collects it."""

    def __init__(self, reader: Reader, unknown: set[str]) -> None:
        self._reader, self._unknown = reader, unknown
        self.refused: set[str] = set()

    @property
    def name(self) -> str:
        """See `ingestion.connector.Reader`; the reader's own."""
        return self._reader.name

    @property
    def source(self) -> Source:
        """See `ingestion.connector.Reader`; the reader's own."""
        return self._reader.source

    def read(self, checkpoint: Mapping[str, Any] | None) -> Iterator[Batch]:
        """See `ingestion.connector.Reader`; the reader's own."""
        return self._reader.read(checkpoint)

    def fetch(self, uris: Sequence[str]) -> Iterator[Change]:
        """See `ingestion.connector.Reader`."""
        for change in self._reader.fetch(uris):
            if isinstance(change, Failure) and change.hide and change.uri in self._unknown:
                self.refused.add(change.uri)
            else:
                yield change

    def present(self) -> Iterator[str | Unlisted] | None:
        """See `ingestion.connector.Reader`; the reader's own."""
        return self._reader.present()


def _groups(pending: Iterable[PendingHint]) -> list[_Group]:
    by_uri: dict[str, list[PendingHint]] = {}
    for one in pending:
        by_uri.setdefault(one.hint.uri or "", []).append(one)
    return [_group(uri, some) for uri, some in by_uri.items()]


def _group(uri: str, pending: Sequence[PendingHint]) -> _Group:
    gone = [p for p in pending if p.hint.gone]
    return _Group(
        uri=uri,
        ids=tuple(p.id for p in pending),
        gone=bool(gone),
        gone_at=_newest(gone),
        version=_newest(pending),
        looks=max(p.attempts for p in gone or pending),
    )


def _newest(pending: Iterable[PendingHint]) -> str | None:
    numbers = [p.hint.version for p in pending if p.hint.version is not None and is_number(p.hint.version)]
    return max(numbers, key=int, default=None)


def _ids(groups: Iterable[_Group]) -> list[int]:
    return [i for g in groups for i in g.ids]
