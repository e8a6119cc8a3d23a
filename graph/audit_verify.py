"""Tells whether an audit log is whole: each entry recomputed, each link followed, and where it does not hold.

What a chain alone can't show is that its end is missing, or that whoever owns the database has made all of it anew.
For that a head (`SEQ:HASH`) is kept elsewhere: it has to be found in the chain again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from core.errors import InputError
from graph.audit_chain import NOTHING, ChainedEntry, entry_hash, words_digest

# More are counted and not told one by one.
MOST_FINDINGS: Final = 50
_DIGITS: Final = frozenset("0123456789abcdef")


class Fault(StrEnum):
    """What is wrong with a stretch of the log."""

    CHANGED = "changed"
    WORDS_CHANGED = "words_changed"
    WORDS_GONE = "words_gone_without_erasure"
    MISSING = "missing"
    OUT_OF_PLACE = "out_of_place"
    NOT_LINKED = "not_linked"
    TIME_RUNS_BACK = "time_runs_back"
    END_MISSING = "end_missing"
    ANCHOR_NOT_RECORDED = "anchor_not_recorded"
    OTHER_HEAD = "other_head"
    HEAD_PRUNED = "head_pruned"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that does not hold, from one entry to another (the same, mostly)."""

    fault: Fault
    first: int
    last: int
    says: str


@dataclass(frozen=True, slots=True)
class Link:
    """An entry by number and hash: the head of a chain, the anchor that it hangs on, or one that was kept elsewhere."""

    seq: int
    hash: str

    def __str__(self) -> str:
        return f"{self.seq}:{self.hash}"

    @staticmethod
    def parse(text: str) -> Link:
        """Read what `str` wrote. Raises InputError."""
        seq, _, digest = text.strip().partition(":")
        if not seq.isascii() or not seq.isdigit() or len(digest) != 64 or not set(digest) <= _DIGITS:
            raise InputError("that is no head of an audit log", mend="Give what verify or export printed: SEQ:HASH")
        return Link(int(seq), digest)


BEGINNING: Final = Link(0, NOTHING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What was looked at, and what was found. `faults` may be more than `findings`, which are the first of them;
    `erased` are the entries without words. `head` is the last entry looked at."""

    entries: int
    first: int | None
    head: Link
    erased: int
    faults: int
    findings: tuple[Finding, ...]

    @property
    def holds(self) -> bool:
        """Whether nothing is wrong."""
        return self.faults == 0


@dataclass
class Verifier:
    """Takes the entries one after the other, in order of their numbers, and then the verdict.

    `anchor` is what the first must follow. `head` is what the database says is the last; None: not known. `kept` is a
    head from elsewhere. `contiguous` False: the entries are a selection, whose gaps are meant.
    """

    anchor: Link = BEGINNING
    head: Link | None = None
    kept: Link | None = None
    contiguous: bool = True
    _entries: int = 0
    _first: int | None = None
    _last: Link | None = None
    _recorded_at: datetime | None = None
    _faults: int = 0
    _findings: list[Finding] = field(default_factory=list)
    _erased: set[int] = field(default_factory=set)
    _recorded_erasures: set[int] = field(default_factory=set)
    _anchor_recorded: bool = False
    _kept_found: bool = False

    def take(self, entry: ChainedEntry) -> None:
        """Look at the next entry."""
        self._entries += 1
        self._first = entry.seq if self._first is None else self._first
        self._follows(entry)
        self._is_itself(entry)
        self._tells(entry)
        if self.kept is not None and entry.seq == self.kept.seq:
            self._kept_found = entry.hash == self.kept.hash
        # What follows is judged by what stands here, so that one fault is told once.
        self._last = Link(entry.seq, entry.hash)
        self._recorded_at = entry.recorded_at

    def verdict(self) -> Verdict:
        """Say how it ended; nothing more is taken after that."""
        last = self._last or self.anchor
        if self.contiguous:
            self._look_at_the_end(last)
            if self.anchor != BEGINNING and not self._anchor_recorded:
                at = self.anchor.seq
                self._found(Fault.ANCHOR_NOT_RECORDED, at, at, f"no entry records that all up to {at} were pruned")
            unaccounted = sorted(self._erased - self._recorded_erasures)
            for seq in unaccounted:
                self._found(Fault.WORDS_GONE, seq, seq, "its words are gone, and no erasure is recorded that took them")
        self._look_for_kept(last)
        return Verdict(
            entries=self._entries,
            first=self._first,
            head=last,
            erased=len(self._erased),
            faults=self._faults,
            findings=tuple(self._findings),
        )

    def _follows(self, entry: ChainedEntry) -> None:
        seq = entry.seq
        if self._recorded_at is not None and entry.recorded_at < self._recorded_at:
            self._found(Fault.TIME_RUNS_BACK, seq, seq, "it was recorded before the entry that it follows")
        before = self._last or self.anchor
        if seq <= before.seq:
            self._found(Fault.OUT_OF_PLACE, seq, seq, f"it stands behind entry {before.seq}")
        elif seq > before.seq + 1:
            if not self.contiguous:
                return
            first, last = before.seq + 1, seq - 1
            which = f"entry {first} is" if first == last else f"entries {first} to {last} are"
            self._found(Fault.MISSING, first, last, f"{which} missing")
        elif entry.previous_hash != before.hash:
            self._found(Fault.NOT_LINKED, seq, seq, f"it does not follow entry {before.seq} as that stands")

    def _is_itself(self, entry: ChainedEntry) -> None:
        if entry_hash(entry) != entry.hash:
            self._found(Fault.CHANGED, entry.seq, entry.seq, "it was changed: its hash is another")
        if entry.salt is None or entry.question_digest is None or entry.interpreted_as is None:
            self._erased.add(entry.seq)
        elif words_digest(entry.salt, entry.question_digest, entry.interpreted_as) != entry.words_digest:
            self._found(Fault.WORDS_CHANGED, entry.seq, entry.seq, "its words were changed: their digest is another")

    def _tells(self, entry: ChainedEntry) -> None:
        """Retention and erasure say in the chain what they did."""
        if entry.plane != "audit" or entry.operation not in ("prune", "erase"):
            return
        detail = _table(entry.detail)
        if entry.operation == "prune":
            self._anchor_recorded |= (detail.get("through"), detail.get("hash")) == (self.anchor.seq, self.anchor.hash)
        else:
            entries = detail.get("entries")
            if isinstance(entries, list):
                self._recorded_erasures.update(n for n in entries if isinstance(n, int))

    def _look_at_the_end(self, last: Link) -> None:
        if self.head is None or self.head == last:
            return
        if self.head.seq > last.seq:
            says = f"the log ends at entry {last.seq}, but its head is entry {self.head.seq}"
            self._found(Fault.END_MISSING, last.seq + 1, self.head.seq, says)
        else:
            says = f"the head of the log is entry {self.head.seq}, and not this one as it stands"
            self._found(Fault.OTHER_HEAD, last.seq, last.seq, says)

    def _look_for_kept(self, last: Link) -> None:
        kept = self.kept
        if kept is None or self._kept_found or kept in (self.anchor, BEGINNING):
            return
        if kept.seq > last.seq:
            says = f"the log ends at entry {last.seq}, but entry {kept.seq} was there when the head was kept"
            self._found(Fault.END_MISSING, last.seq + 1, kept.seq, says)
        elif kept.seq < self.anchor.seq:
            says = f"entries up to {self.anchor.seq} were pruned, so this head can't be looked for: keep a newer one"
            self._found(Fault.HEAD_PRUNED, kept.seq, kept.seq, says)
        else:
            says = "it is not the entry that it was when the head was kept: the log was made anew, or set back"
            self._found(Fault.OTHER_HEAD, kept.seq, kept.seq, says)

    def _found(self, fault: Fault, first: int, last: int, says: str) -> None:
        self._faults += 1
        if len(self._findings) < MOST_FINDINGS:
            self._findings.append(Finding(fault=fault, first=first, last=last, says=says))


def verify(entries: Iterable[ChainedEntry], verifier: Verifier) -> Verdict:
    """Take all entries and return the verdict."""
    for entry in entries:
        verifier.take(entry)
    return verifier.verdict()


def _table(text: str) -> dict[str, object]:
    try:
        found = json.loads(text)
    except ValueError:  # such an entry was changed, which its hash tells
        return {}
    return found if isinstance(found, dict) else {}
