"""The way in of items, several at a time: label gate → clean → redact → chunk → record → embed → index → derive.

The record (Postgres) is written first and names what the index must hold; an item is visible only once
`record_indexed` says that both agree, so a kill between the two hides an item and never shows a stale one.
Unchanged text is not embedded again: an item's vectors are kept by the digest of their chunk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from core.access import WITHHELD, ScopeId
from core.embedding.port import Embedder
from core.erased import ErasedPeople
from core.errors import ContextEngineError
from core.index.port import IndexWriter
from core.items import Chunk, Item, PersonRef, Source, TextFormat
from core.principals import Principal
from core.text.chunk import chunk_item
from core.text.clean import clean_text
from core.text.redact import redact
from core.text.terms import meaning_key, term_key
from core.text.tokens import sparse_document
from graph.erasures import ErasureStore
from graph.glossary import GlossaryEntry, GlossaryStore
from graph.records import ItemStore, Upsert
from graph.scopes import ScopeStore
from graph.supersession import SupersessionStore
from ingestion.admission import LabelGate
from ingestion.derive.definitions import mine
from ingestion.derive.supersession import declared
from ingestion.erasure import without
from ingestion.points import points_of
from ingestion.together import together

# Why an item that may not be stored any more is deleted.
ERASED = "erased"
_AT_ONCE = 50


@dataclass
class Tally:
    """What a run did, by word: seen, new, changed, unchanged, moved, restored, outdated, deleted, missed, withheld
    (by label), erased (on request), embedded (chunks); and `skipped:<why>` and `failed:<why>` beside their sums.

    `left_out` are the addresses of what it skipped."""

    counts: Counter[str] = field(default_factory=Counter)
    left_out: set[str] = field(default_factory=set)

    def add(self, word: str, n: int = 1) -> None:
        """Count `n` more of `word`."""
        self.counts[word] += n


class Pipeline:
    """Writes items to the record and the index. Owned by the ingestion plane."""

    def __init__(
        self,
        *,
        items: ItemStore,
        scopes: ScopeStore,
        glossary: GlossaryStore,
        supersessions: SupersessionStore,
        index: IndexWriter,
        embedder: Embedder,
        labels: LabelGate,
        erasures: ErasureStore | None = None,
    ) -> None:
        self._items = items
        self._scopes = scopes
        self._glossary = glossary
        self._supersessions = supersessions
        self._index = index
        self._embedder = embedder
        self._labels = labels
        self._erasures = erasures

    def upsert(self, item: Item, *, at: datetime, tally: Tally) -> None:
        """Bring the stores to what `item` says. Idempotent. Raises StoreUnavailableError, InputError."""
        for _, error in self.upsert_all([item], at=at, tally=tally):
            raise error

    def upsert_all(self, items: Sequence[Item], *, at: datetime, tally: Tally) -> list[tuple[Item, ContextEngineError]]:
        """Bring the stores to what `items` say, no two of one address; those that failed by their own fault.

        Each step is one transaction, and one call of the embedder, for all of them. Idempotent. Raises
        StoreUnavailableError.
        """
        admitted: list[_Entry] = []
        people, refused = self._erased(items)
        for item in items:
            left = without(prepare(item), people) if item.uri not in refused else None
            if not self._labels.may_store(item.label):
                self.delete([item.uri], at=at, reason="label", tally=tally, stated=False)
                tally.add("withheld")
            elif left is None:
                self.delete([item.uri], at=at, reason=ERASED, tally=tally, stated=False)
                tally.add("erased")
            else:
                admitted.append(_Entry(item, left, self._embedder))
        recorded, failed = together(
            lambda some: self._items.upsert_all([(e.item, e.chunks) for e in some], at=at), admitted
        )
        fresh: list[_Entry] = []
        ready: list[_Entry] = []
        for entry, outcome in recorded:
            tally.add("seen")
            entry.outcome = outcome
            if outcome.outdated:
                tally.add("outdated")  # a late old version: the record keeps the newer one
            elif outcome.in_index and outcome.in_place:
                tally.add("unchanged")
            elif outcome.in_index:
                # Another scope, or back from where it was withheld: the vectors are there.
                access = self._access(entry.item.scope)
                self._index.move_item(entry.item.uri, entry.item.scope, *access)
                self._catch_up(entry.item, access)
                ready.append(entry)
            else:
                fresh.append(entry)
        written, unwritten = self._write(fresh, tally)
        ready += written
        for entry in ready:
            tally.add(_word(entry.outcome))
        self._items.record_all_indexed({e.item.uri: e.item.digest for e in ready})
        return [(e.given, error) for e, error in (*failed, *unwritten)]

    def _erased(self, items: Sequence[Item]) -> tuple[ErasedPeople, set[str]]:
        """Whom to leave out, and which of these items may not be stored any more, as of now."""
        if self._erasures is None or not items:
            return ErasedPeople(), set()
        return self._erasures.people(), self._erasures.refuses([item.uri for item in items])

    def delete(
        self,
        uris: Sequence[str],
        *,
        at: datetime,
        reason: str,
        tally: Tally,
        stated: bool = True,
        deleted_at: datetime | None = None,
    ) -> None:
        """Tombstone first (obeyed by the next question), then remove from the index.

        `stated`: the source said so (at `deleted_at`, where it told); otherwise it was concluded, and being read
        again is enough to bring an item back.
        """
        gone = self._items.tombstone(uris, at=at, reason=reason, stated=stated, deleted_at=deleted_at)
        self._index.delete_items(uris)
        self._items.record_removed(uris)
        tally.add("deleted", gone)

    def hide(self, uri: str, *, reason: str, at: datetime) -> None:
        """Withhold an item that the source no longer shows us, until it is read again or confirmed as deleted."""
        self.withhold(self._items.hide_all([uri], reason, at))

    def withhold(self, uris: Iterable[str]) -> None:
        """Take the points of items that were hidden out of every search and statistic; their vectors are kept."""
        hidden = sorted(set(uris))
        for uri in hidden:
            self._index.move_item(uri, WITHHELD, (), 0)
        self._items.record_withheld(hidden)

    def repair(self, *, at: datetime, tally: Tally, source: Source | None = None) -> None:
        """Bring the index to what the record says (after a kill, a lost index, or a gate that did not pass), of one
        source or all."""
        if self._index.count_points() == 0:
            # Lost, or removed by hand: what the record says of it no longer holds.
            self._items.forget_index()
        self.withhold(self._items.not_withheld(source))
        behind = list(self._items.not_indexed(source))
        for start in range(0, len(behind), _AT_ONCE):
            entries: list[_Entry] = []
            for uri in behind[start : start + _AT_ONCE]:
                body = self._items.body(uri)
                if body is None:
                    self._index.delete_items([uri])
                    self._items.record_removed([uri])
                else:
                    entries.append(_Entry(body[0], body[0], self._embedder, body[1]))
            # What can't be indexed was parked when it came, and is tried again with the other failures.
            written, _ = self._write(entries, tally)
            self._items.record_all_indexed({e.item.uri: e.item.digest for e in written})
            tally.add("repaired", len(written))

    def cut_anew(self, source: Source) -> int:
        """Cut what the record holds of a source as it is cut now, after an upgrade; return how many items changed.
        They are not shown until `repair` has indexed them. Unchanged chunks keep their vectors."""
        changed = 0
        for uri in sorted(self._items.uris(source)):
            body = self._items.body(uri)
            if body is None:
                continue
            chunks = chunk_item(body[0], self._embedder.count_tokens, self._embedder.window)
            if [c.digest for c in chunks] != [c.digest for c in body[1]]:
                self._items.replace_chunks(uri, chunks)
                changed += 1
        return changed

    def flush(self) -> None:
        """Make the index survive a power cut; called before a checkpoint is committed."""
        self._index.flush()

    def _access(self, scope: ScopeId) -> tuple[tuple[Principal, ...], int]:
        """Who is named by an allow of the scope, and the version of that rule; an unknown scope names nobody."""
        access = self._scopes.access_of(scope)
        return (tuple(sorted(access.allowed)), access.acl_version) if access else ((), 0)

    def _write(
        self, entries: Sequence[_Entry], tally: Tally
    ) -> tuple[list[_Entry], list[tuple[_Entry, ContextEngineError]]]:
        """Embed, index and derive: those for which all of it was done, and those that failed by their own fault."""
        indexed, failed = together(self._write_points, entries)
        tally.add("embedded", sum(n for _, n in indexed))
        derived, underived = together(self._derive, [e for e, _ in indexed])
        failed += underived
        if failed:
            # Neither half a new state nor an old one that the record no longer has.
            self._index.delete_items([e.item.uri for e, _ in failed])
        return [e for e, _ in derived], failed

    def _write_points(self, entries: Sequence[_Entry]) -> list[int]:
        """Write the points of items, and tell how many texts of each were embedded."""
        kept = [{} if e.outcome.new else self._index.vectors_of(e.item.uri) for e in entries]
        missing = [[c for c in e.chunks() if c.digest not in old] for e, old in zip(entries, kept, strict=True)]
        texts = {c.digest: c.embedded_text for some in missing for c in some}
        dense = dict(zip(texts, self._embedder.embed_documents(list(texts.values())), strict=True))
        for entry, old in zip(entries, kept, strict=True):
            # Asked for as late as can be: a rule that changes meanwhile must not be written over.
            access = self._access(entry.item.scope)
            vectors = [old.get(c.digest) or (dense[c.digest], sparse_document(c.embedded_text)) for c in entry.chunks()]
            self._index.replace_item(entry.item.uri, points_of(entry.item, entry.chunks(), vectors, access))
            self._catch_up(entry.item, access)
        return [len(some) for some in missing]

    def _catch_up(self, item: Item, written: tuple[tuple[Principal, ...], int]) -> None:
        """Give points the rule that holds now, where it changed while they were written: the rewrite of the scope may
        have gone by before they were there."""
        while (now := self._access(item.scope)) != written:
            self._index.move_item(item.uri, item.scope, *now)
            written = now

    def _derive(self, entries: Sequence[_Entry]) -> list[None]:
        self._glossary.replace_all({e.item.uri: glossary_entries(e.item) for e in entries})
        self._supersessions.replace_all({e.item.uri: declared(e.item) for e in entries})
        return [None] * len(entries)


class _Entry:
    """An item on its way in: as it was given, as it is stored, its chunks (made once, when first asked for)."""

    def __init__(self, given: Item, item: Item, embedder: Embedder, chunks: Sequence[Chunk] | None = None) -> None:
        self.given, self.item, self.outcome = given, item, Upsert()
        self._embedder, self._chunks = embedder, chunks

    def chunks(self) -> Sequence[Chunk]:
        if self._chunks is None:
            self._chunks = chunk_item(self.item, self._embedder.count_tokens, self._embedder.window)
        return self._chunks


def prepare(item: Item) -> Item:
    """The item as it may be stored: invisible characters and NULs gone, secrets masked, in every text that is kept."""
    return replace(
        item,
        title=redact(clean_text(item.title)),
        author=_person(item.author),
        owner=_person(item.owner),
        container=clean_text(item.container),
        parts=tuple(
            replace(
                part,
                text=redact(clean_text(part.text)),
                heading=tuple(clean_text(h) for h in part.heading),
                author=_person(part.author),
            )
            for part in item.parts
        ),
        aliases=tuple(clean_text(a) for a in item.aliases),
        replaced_by=tuple(clean_text(r) for r in item.replaced_by),
        contributions=tuple(
            replace(c, note=redact(clean_text(c.note)), person=PersonRef(clean_text(c.person.name), c.person.principal))
            for c in item.contributions
        ),
        attributes={key: clean_text(value) for key, value in item.attributes.items()},
    )


def _person(ref: PersonRef | None) -> PersonRef | None:
    return PersonRef(clean_text(ref.name), ref.principal) if ref is not None else None


def glossary_entries(item: Item) -> list[GlossaryEntry]:
    """The definitions that the item's prose states, dated by the part that says them. Code defines no words here."""
    entries: dict[tuple[str, str], GlossaryEntry] = {}
    for part in item.parts:
        if part.format is TextFormat.CODE:
            continue
        for d in mine(part.text):
            keys = (term_key(d.term), meaning_key(d.meaning))
            entries.setdefault(
                keys,
                GlossaryEntry(
                    term=d.term,
                    key=keys[0],
                    meaning=d.meaning,
                    meaning_key=keys[1],
                    quote=d.quote,
                    at=part.at or item.modified_at,
                    method=d.method,
                ),
            )
    return list(entries.values())


def _word(outcome: Upsert) -> str:
    """What became of an item, in the words of a run's counts."""
    if outcome.new:
        return "new"
    if outcome.changed_content:
        return "changed"
    return "moved" if outcome.scope_changed else "restored"
