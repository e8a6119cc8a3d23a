"""Reads the threads of all channels and keeps one delta link a channel.

A delta reaches back eight months only. So a channel is first read whole, by the plain list, with a delta link that was
taken before (nothing that changes meanwhile is missed); and it is read whole again now and then, for what changed in
threads of which a delta tells nothing any more. A thread whose root was deleted goes with it: its replies quote and
answer what somebody wanted gone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol
from urllib.parse import unquote

from core import uris
from core.clock import Clock
from core.errors import SourceAuthError, SourceError, SourceNotFoundError
from core.items import Source
from ingestion.connector import Batch, Change, Failure, ItemDeleted, ItemUpserted, Skipped, Unlisted
from ingestion.teams.channels import Channel, Listing
from ingestion.teams.client import LOST
from ingestion.teams.messages import Messages
from ingestion.teams.speech import UNKNOWN_KIND, is_gone, is_speech, silence
from ingestion.teams.threads import ThreadWriter

BATCH: Final = 20
# So many channels are swept in one run, or a twentieth of them.
SWEPT_AT_ONCE: Final = 10
_NEVER: Final = datetime.min.replace(tzinfo=UTC)
# So many channels in a row that do not answer are not the channels' fault.
PATIENCE: Final = 5
_ADDRESS = re.compile(r"ctx://teams/([^/]+)/channels/([^/]+)/messages/([^/]*)")

Json = Mapping[str, Any]


class Channels(Protocol):
    """What is known of channels."""

    def listing(self) -> Listing:
        """The channels, listed anew where what is known is old. Raises SourceError."""
        ...

    def held(self, path: str) -> frozenset[str] | None:
        """The ids that a list held when it last came whole; None: never."""
        ...


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a channel was read, and as what: a channel with another name or label is read anew, since its threads
    carry both. `link` None: it gave no delta link. `swept`: when it was last read whole."""

    link: str | None
    seen_as: str
    swept: datetime | None


@dataclass(slots=True)
class _Run:
    """One reading: the marks by channel, and whether a channel's feed was lost."""

    marks: dict[str, Mark]
    lost: bool = False


class ThreadReader:
    """The one reader of Teams. `sweep_every` is how long a whole reading of a channel is good for; None: for ever."""

    name = "teams"
    source = Source.TEAMS

    def __init__(
        self,
        messages: Messages,
        channels: Channels,
        writer: ThreadWriter,
        tenant: str,
        clock: Clock,
        *,
        sweep_every: timedelta | None = None,
    ) -> None:
        self._messages, self._channels, self._writer = messages, channels, writer
        self._tenant, self._clock, self._sweep_every = tenant, clock, sweep_every
        # Channels that failed in an earlier run, as `fetch` was told: settled when they are read.
        self._owed: set[str] = set()

    def read(self, checkpoint: Mapping[str, Any] | None) -> Iterator[Batch]:
        """Yield changed threads channel by channel.

        A channel that fails is a Failure, keeps what came of it, and is read again from its old mark next time; an
        expired delta link costs a full read of that channel alone. Raises SourceError where the token is refused, or
        where nothing answers any more.
        """
        listing = self._channels.listing()
        run = _Run(_marks(checkpoint))
        if not listing.broken:
            run.marks = {k: v for k, v in run.marks.items() if k in listing.channels}
        pending: list[Change] = []
        if not listing.channels:
            pending.append(Skipped(f"ctx://teams/{self._tenant}/", "there is no channel to read"))
        silent = 0
        # What is new of all channels goes before what is old of any.
        steps = [(channel, self._changes) for channel in listing.channels.values()]
        steps += [(channel, self._sweep) for channel in self._due(listing, run)]
        total = len(steps)
        for done, (channel, step) in enumerate(steps):
            try:
                for change in step(channel, run):
                    pending.append(change)
                    if len(pending) >= BATCH:
                        yield _batch(pending, run, done, total)
                        pending = []
                silent = 0
            except SourceError as e:
                pending.append(Failure(self._address(channel.id), f"{channel.path}: {e}"))
                silent = silent + 1 if e.retryable else 0
                if isinstance(e, SourceAuthError) or silent >= PATIENCE:
                    yield _batch(pending, run, done, total)
                    raise
        yield _batch(pending, run, total, total)

    def fetch(self, uris_: Sequence[str]) -> Iterator[Change]:
        """Read single threads again, as they are now. A channel's own address (how `read` reports a channel that
        failed) is not read here: `read` goes over it anyway, and then takes it off the list."""
        listing = self._channels.listing()
        for uri in uris_:
            found = _ADDRESS.match(uri)
            if found is None or found.group(1) != self._tenant:
                continue
            channel_id, root_id = unquote(found.group(2)), unquote(found.group(3))
            channel = listing.channels.get(channel_id)
            if channel is not None and root_id:
                yield from self._again(channel, root_id)
            elif channel is not None:
                self._owed.add(channel_id)
            elif not root_id and not listing.broken:
                yield ItemDeleted(uri)

    def present(self) -> Iterator[str | Unlisted]:
        """Addresses of all threads that may be shown; what can't be listed is told, so that nothing of it is taken as
        gone. Raises SourceAuthError where the token is refused."""
        listing = self._channels.listing()
        yield from self._unlisted(listing)
        for channel in listing.channels.values():
            try:
                for root in self._messages.roots(channel):
                    if root.get("id") and is_speech(root) and not is_gone(root):
                        yield uris.thread(self._tenant, channel.id, root["id"])
            except SourceAuthError:
                raise
            except SourceError as e:
                yield Unlisted(self._address(channel.id), f"{channel.path}: {e}")

    def _unlisted(self, listing: Listing) -> Iterator[Unlisted]:
        """Channels of which nobody can tell whether they are there, and such as nobody may see for now."""
        for path in sorted(listing.broken):
            held = self._channels.held(path)
            if held is None:
                yield Unlisted(f"ctx://teams/{self._tenant}/", "not every team's channels could be listed")
            for channel_id in sorted((held or frozenset()) - listing.channels.keys()):
                yield Unlisted(self._address(channel_id), "the channels of its team could not be listed")
        for path in sorted(listing.refused):
            for channel_id in sorted((self._channels.held(path) or frozenset()) - listing.channels.keys()):
                yield Unlisted(self._address(channel_id), "it is no longer told to be shared", withhold=True)
        for channel_id in sorted(listing.hidden):
            yield Unlisted(self._address(channel_id), "a channel of an unknown kind", withhold=True)

    def _changes(self, channel: Channel, run: _Run) -> Iterator[Change]:
        """What is new in a channel; its mark moves once all of that was given."""
        seen_as, mark = _seen_as(channel), run.marks.get(channel.id)
        if mark is None or mark.link is None or mark.seen_as != seen_as:
            yield from self._everything(channel, run)
        else:
            try:
                roots, link = self._messages.round(mark.link)
            except LOST:
                run.lost = True
                yield from self._everything(channel, run)
            else:
                for root in roots:
                    yield from self._thread(channel, root, None)
                run.marks[channel.id] = replace(mark, link=link)
        if channel.id in self._owed:
            self._owed.discard(channel.id)
            yield ItemDeleted(self._address(channel.id))

    def _everything(self, channel: Channel, run: _Run) -> Iterator[Change]:
        """All threads of a channel, with a delta link from before."""
        now, link = self._clock.now(), self._messages.begin(channel)
        for root, replies in self._messages.whole(channel):
            yield from self._thread(channel, root, replies)
        run.marks[channel.id] = Mark(link, _seen_as(channel), now)

    def _sweep(self, channel: Channel, run: _Run) -> Iterator[Change]:
        """All threads of a channel again, beside its delta."""
        now, mark = self._clock.now(), run.marks.get(channel.id)
        if mark is None or not self._is_old(mark):
            return  # it was read whole a moment ago, or could not be read
        for root, replies in self._messages.whole(channel):
            yield from self._thread(channel, root, replies)
        run.marks[channel.id] = replace(mark, swept=now)

    def _due(self, listing: Listing, run: _Run) -> list[Channel]:
        """The channels whose last whole reading is too old, the oldest first; a part of them where they are many, so
        that what is new does not wait for all of it."""
        old = [(m.swept or _NEVER, k) for k, m in run.marks.items() if k in listing.channels and self._is_old(m)]
        return [listing.channels[k] for _, k in sorted(old)[: max(SWEPT_AT_ONCE, len(listing.channels) // 20)]]

    def _is_old(self, mark: Mark) -> bool:
        if self._sweep_every is None:
            return False
        return mark.swept is None or self._clock.now() - mark.swept >= self._sweep_every

    def _again(self, channel: Channel, root_id: str) -> Iterator[Change]:
        uri = uris.thread(self._tenant, channel.id, root_id)
        try:
            root = self._messages.one(channel, root_id)
        except SourceAuthError:
            raise
        except SourceError as e:
            yield Failure(uri, str(e), hide=isinstance(e, SourceNotFoundError))
            return
        yield from self._thread(channel, root, None)

    def _thread(self, channel: Channel, root: Json, replies: Sequence[Json] | None) -> Iterator[Change]:
        """The change that a root stands for; its replies are read where they did not come with it."""
        if not root.get("id"):
            yield Skipped(self._address(channel.id), "message without an id")
            return
        uri = uris.thread(self._tenant, channel.id, root["id"])
        try:
            if is_gone(root):
                # Without the time: a message that is restored keeps its own times, all of them older than the deletion.
                yield ItemDeleted(uri)
                return
            why = silence(root)
            if why is not None:
                yield Skipped(uri, why)
                if why == UNKNOWN_KIND:
                    yield ItemDeleted(uri, stated=False)  # it may have been of a kind that is known
                return
            if replies is None:
                replies = self._messages.replies(channel, root["id"])
            item = self._writer.item(channel, root, replies)
            unknown = [r["id"] for r in replies if silence(r) == UNKNOWN_KIND and not is_gone(r)]
        except SourceAuthError:
            raise
        except SourceError as e:
            yield Failure(uri, str(e), hide=isinstance(e, SourceNotFoundError))
            return
        except (KeyError, TypeError, ValueError, AttributeError) as e:
            yield Failure(uri, f"the message could not be understood ({type(e).__name__})")
            return
        for reply in unknown:
            yield Skipped(uris.reply(self._tenant, channel.id, root["id"], reply), UNKNOWN_KIND)
        if item is None:
            yield Skipped(uri, "no text")
            yield ItemDeleted(uri)  # it may have had some
            return
        yield ItemUpserted(item)

    def _address(self, channel_id: str) -> str:
        """The address that stands for a whole channel: the beginning of those of its threads."""
        return uris.thread(self._tenant, channel_id, "")


def _seen_as(channel: Channel) -> str:
    return f"{channel.path} {channel.label or ''}".strip()


def _marks(checkpoint: Mapping[str, Any] | None) -> dict[str, Mark]:
    def mark(kept: Mapping[str, Any]) -> Mark:
        swept = kept.get("swept")
        return Mark(kept.get("link"), str(kept.get("seen_as", "")), datetime.fromisoformat(swept) if swept else None)

    return {k: mark(v) for k, v in (checkpoint or {}).get("channels", {}).items()}


def _batch(changes: list[Change], run: _Run, done: int, total: int) -> Batch:
    channels = {
        k: {"link": v.link, "seen_as": v.seen_as, "swept": v.swept.isoformat() if v.swept else None}
        for k, v in run.marks.items()
    }
    checkpoint = {"channels": channels}
    return Batch(changes=tuple(changes), checkpoint=checkpoint, progress=(done, total), resumed=not run.lost)
