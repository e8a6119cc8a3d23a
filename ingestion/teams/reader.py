"""Reads the threads of all channels and keeps one delta link a channel.

Roots come by delta; Graph has no delta for replies, but a reply makes its root come up again, and then all replies
are read anew. A delta reaches back eight months only, so the first read takes a delta link first (nothing that
changes meanwhile is missed) and then the plain list. A thread whose root was deleted goes with it: its replies quote
and answer what somebody wanted gone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from core import uris
from core.errors import SourceAuthError, SourceError, SourceGoneError, SourceNotFoundError
from core.items import Source
from ingestion.connector import Batch, Change, Failure, ItemDeleted, ItemUpserted, Skipped, Unlisted
from ingestion.teams.channels import PREFER, Channel, Rosters
from ingestion.teams.client import GraphClient, SourceRefusedError, rows_of
from ingestion.teams.threads import ThreadWriter, is_gone, is_speech

BATCH: Final = 20
# So many channels in a row that do not answer are not the channels' fault.
PATIENCE: Final = 5
_ADDRESS = re.compile(r"ctx://teams/([^/]+)/channels/([^/]+)/messages/([^/]*)")

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a channel was read, and as what: a channel with another name or label is read anew, since its threads
    carry both. `link` None: it gave no delta link."""

    link: str | None
    seen_as: str


class ThreadReader:
    """The one reader of Teams. `known` gives what the last access pass found: the channels, and a writer that knows
    the people by name."""

    name = "teams"
    source = Source.TEAMS

    def __init__(self, client: GraphClient, tenant: str, known: Callable[[], tuple[Rosters, ThreadWriter]]) -> None:
        self._client = client
        self._tenant = tenant
        self._known = known
        # Channels that failed in an earlier run, as `fetch` was told: settled when they are read.
        self._owed: set[str] = set()

    def read(self, checkpoint: Mapping[str, Any] | None) -> Iterator[Batch]:
        """Yield changed threads channel by channel.

        A channel that fails is a Failure, keeps what came of it, and is read again from its old mark next time; an
        expired delta link costs a full read of that channel alone. Raises SourceError where the token is refused, or
        where nothing answers any more.
        """
        rosters, writer = self._known()
        total = len(rosters.channels)
        marks = _marks(checkpoint)
        if rosters.listed:
            live = {c.id for c in rosters.channels}
            marks = {k: v for k, v in marks.items() if k in live}
        pending: list[Change] = []
        silent = 0
        for done, channel in enumerate(rosters.channels):
            try:
                for change in self._changes(channel, marks, writer):
                    pending.append(change)
                    if len(pending) >= BATCH:
                        yield _batch(pending, marks, done, total)
                        pending = []
                silent = 0
            except SourceError as e:
                pending.append(Failure(self._address(channel), f"{channel.path}: {e}"))
                silent = silent + 1 if e.retryable else 0
                if isinstance(e, SourceAuthError) or silent >= PATIENCE:
                    yield _batch(pending, marks, done, total)
                    raise
        yield _batch(pending, marks, total, total)

    def fetch(self, uris_: Sequence[str]) -> Iterator[Change]:
        """Read single threads again, as they are now. A channel's own address (how `read` reports a channel that
        failed) is not read here: `read` goes over it anyway, and then takes it off the list."""
        rosters, writer = self._known()
        channels = {c.id: c for c in rosters.channels}
        for uri in uris_:
            found = _ADDRESS.match(uri)
            if found is None or found.group(1) != self._tenant:
                continue
            channel_id, root_id = unquote(found.group(2)), unquote(found.group(3))
            channel = channels.get(channel_id)
            if not root_id:
                if channel is not None:
                    self._owed.add(channel_id)
                elif rosters.listed:
                    yield ItemDeleted(uri)
                continue
            if channel is not None:
                yield from self._again(channel, root_id, writer)

    def present(self) -> Iterator[str | Unlisted]:
        """Addresses of all threads that may be shown; what can't be listed is told, so that nothing of it is taken as
        gone. Raises SourceAuthError where the token is refused."""
        rosters, _ = self._known()
        if not rosters.listed:
            yield Unlisted(f"ctx://teams/{self._tenant}/", "not every team's channels could be listed")
        for channel in rosters.channels:
            try:
                for root in self._client.rows(f"{channel.url}/messages?$top=50", prefer=PREFER):
                    if root.get("id") and is_speech(root) and not is_gone(root):
                        yield uris.thread(self._tenant, channel.id, root["id"])
            except SourceAuthError:
                raise
            except SourceError as e:
                yield Unlisted(self._address(channel), f"{channel.path}: {e}")

    def _changes(self, channel: Channel, marks: dict[str, Mark], writer: ThreadWriter) -> Iterator[Change]:
        """What is new in a channel; its mark moves once all of that was given."""
        seen_as = _seen_as(channel)
        mark = marks.get(channel.id)
        roots: Iterable[Json]
        if mark is None or mark.link is None or mark.seen_as != seen_as:
            roots, link = self._everything(channel)
        else:
            try:
                roots, link = self._round(mark.link)
            except (SourceGoneError, SourceRefusedError):
                roots, link = self._everything(channel)
        for root in roots:
            yield from self._thread(channel, root, writer)
        marks[channel.id] = Mark(link, seen_as)
        if channel.id in self._owed:
            self._owed.discard(channel.id)
            yield ItemDeleted(self._address(channel))

    def _everything(self, channel: Channel) -> tuple[Iterable[Json], str | None]:
        """All roots, page by page, and the delta link from before."""
        link = None
        try:
            for page in self._client.pages(f"{channel.url}/messages/delta?$top=50", prefer=PREFER):
                link = page.get("@odata.deltaLink") or link
        except (SourceGoneError, SourceRefusedError):
            link = None  # an empty channel may refuse to begin a delta; then it is listed each time
        return self._client.rows(f"{channel.url}/messages?$top=50", prefer=PREFER), link

    def _round(self, link: str) -> tuple[Iterable[Json], str | None]:
        """One delta round: changed roots (the last word on each), and the link for the next."""
        roots: dict[str, Json] = {}
        following = None
        for page in self._client.pages(link, prefer=PREFER):
            for row in rows_of(page, link):
                roots[str(row.get("id"))] = row
            following = page.get("@odata.deltaLink") or following
        return roots.values(), following

    def _again(self, channel: Channel, root_id: str, writer: ThreadWriter) -> Iterator[Change]:
        uri = uris.thread(self._tenant, channel.id, root_id)
        try:
            root = self._client.get(f"{channel.url}/messages/{root_id}", prefer=PREFER)
        except SourceAuthError:
            raise
        except SourceError as e:
            yield Failure(uri, str(e), hide=isinstance(e, SourceNotFoundError))
            return
        yield from self._thread(channel, root, writer)

    def _thread(self, channel: Channel, root: Json, writer: ThreadWriter) -> Iterator[Change]:
        if not root.get("id"):
            yield Skipped(self._address(channel), "message without an id")
            return
        uri = uris.thread(self._tenant, channel.id, root["id"])
        if is_gone(root):
            # Without the time: a message that is restored keeps its own times, all of them older than the deletion.
            yield ItemDeleted(uri)
            return
        if not is_speech(root):
            yield Skipped(uri, "system event")
            return
        try:
            replies = list(self._client.rows(f"{channel.url}/messages/{root['id']}/replies?$top=50", prefer=PREFER))
            item = writer.item(channel, root, replies)
        except SourceAuthError:
            raise
        except SourceError as e:
            yield Failure(uri, str(e), hide=isinstance(e, SourceNotFoundError))
            return
        except (KeyError, TypeError, ValueError, AttributeError) as e:
            yield Failure(uri, f"the message could not be understood ({type(e).__name__})")
            return
        if item is None:
            yield Skipped(uri, "no text")
            yield ItemDeleted(uri)  # it may have had some
            return
        yield ItemUpserted(item)

    def _address(self, channel: Channel) -> str:
        """The address that stands for a whole channel: the beginning of those of its threads."""
        return uris.thread(self._tenant, channel.id, "")


def _seen_as(channel: Channel) -> str:
    return f"{channel.path} {channel.label or ''}".strip()


def _marks(checkpoint: Mapping[str, Any] | None) -> dict[str, Mark]:
    channels = (checkpoint or {}).get("channels", {})
    return {k: Mark(v.get("link"), str(v.get("seen_as", ""))) for k, v in channels.items()}


def _batch(changes: list[Change], marks: Mapping[str, Mark], done: int, total: int) -> Batch:
    channels = {k: {"link": v.link, "seen_as": v.seen_as} for k, v in marks.items()}
    return Batch(changes=tuple(changes), checkpoint={"channels": channels}, progress=(done, total))
