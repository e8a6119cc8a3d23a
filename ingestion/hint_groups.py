"""The hints that wait for one item, and whether what they told has come in once its source was asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from graph.hinted import Hinted
from graph.inbox import ATTEMPTS, PendingHint
from graph.versions import is_number, order
from ingestion.around import Around
from ingestion.connector import Change, Failure, Reader

# So often a source may contradict a deletion of which it told no version, some 65 seconds in all. Then it is believed:
# what is restored can't be told from what is not gone everywhere yet.
LOOKS: Final = 4


@dataclass(frozen=True, slots=True)
class Group:
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
        return self.gone and self.looks + 1 < (ATTEMPTS if self.gone_at is not None else LOOKS)

    def lacks(self, known: Hinted, refused: bool) -> str | None:
        """What of it has not come in; None where all has, or nothing is to be expected. `refused`: we don't have it,
        and the source does not show it to us, perhaps not yet."""
        if refused:
            return None if self.gone or self.looks + 1 >= LOOKS else "the source does not show it"
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


class Strangers(Around):
    """A reader that parks nothing of ours: what the record does not have, or no longer, and the source does not show us
    is no failure of a sync, since hooks tell of more than we may read. `refused` collects it."""

    def __init__(self, reader: Reader, unknown: set[str]) -> None:
        super().__init__(reader)
        self._unknown = unknown
        self.refused: set[str] = set()

    def fetch(self, uris: Sequence[str]) -> Iterator[Change]:
        """What the reader fetches, but for that."""
        for change in super().fetch(uris):
            if isinstance(change, Failure) and change.hide and change.uri in self._unknown:
                self.refused.add(change.uri)
            else:
                yield change


def grouped(pending: Iterable[PendingHint]) -> list[Group]:
    """The hints by the item that they name."""
    by_uri: dict[str, list[PendingHint]] = {}
    for one in pending:
        by_uri.setdefault(one.hint.uri or "", []).append(one)
    return [_group(uri, some) for uri, some in by_uri.items()]


def _group(uri: str, pending: Sequence[PendingHint]) -> Group:
    gone = [p for p in pending if p.hint.gone]
    return Group(
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


def ids_of(groups: Iterable[Group]) -> list[int]:
    """The hints of several items, by id."""
    return [i for g in groups for i in g.ids]
