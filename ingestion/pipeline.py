"""One item's way in: label gate → clean → redact → chunk → record → embed → index → derive.

The record (Postgres) is written first and names what the index must hold; an item is visible only once
`record_indexed` says that both agree, so a kill between the two hides an item and never shows a stale one.
Unchanged text is not embedded again: an item's vectors are kept by the digest of their chunk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from uuid import NAMESPACE_URL, UUID, uuid5

from core.access import WITHHELD, ScopeId
from core.embedding.port import Embedder
from core.index.port import DenseVector, IndexPoint, IndexWriter, SparseVector
from core.items import Chunk, Item, TextFormat
from core.principals import Principal
from core.text.chunk import chunk_item
from core.text.clean import clean_text
from core.text.redact import redact
from core.text.terms import meaning_key, term_key
from core.text.tokens import sparse_document
from graph.glossary import GlossaryEntry, GlossaryStore
from graph.records import ItemStore, Upsert
from graph.scopes import ScopeStore
from graph.supersession import SupersessionStore
from ingestion.admission import LabelGate
from ingestion.derive.definitions import mine
from ingestion.derive.supersession import declared


@dataclass
class Tally:
    """What a run did, by word: seen, new, changed, unchanged, moved, restored, outdated, deleted, missed, withheld
    (by label), embedded (chunks); and `skipped:<why>` and `failed:<why>` beside their sums."""

    counts: Counter[str] = field(default_factory=Counter)

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
    ) -> None:
        self._items = items
        self._scopes = scopes
        self._glossary = glossary
        self._supersessions = supersessions
        self._index = index
        self._embedder = embedder
        self._labels = labels

    def upsert(self, item: Item, *, at: datetime, tally: Tally) -> None:
        """Bring the stores to what `item` says. Idempotent. Raises StoreUnavailableError, InputError."""
        if not self._labels.may_store(item.label):
            self.delete([item.uri], at=at, reason="label", tally=tally, stated=False)
            tally.add("withheld")
            return
        item = prepare(item)
        chunks = cache(lambda: chunk_item(item, self._embedder.count_tokens, self._embedder.window))
        outcome = self._items.upsert(item, chunks, at=at)
        tally.add("seen")
        if outcome.outdated:
            tally.add("outdated")  # a late old version: the record keeps the newer one
            return
        if outcome.in_index and outcome.in_place:
            tally.add("unchanged")
            return
        if outcome.in_index:
            # Another scope, or back from where it was withheld: the vectors are there.
            allowed, version = self._access(item.scope)
            self._index.move_item(item.uri, item.scope, allowed, version)
        else:
            self._write_points(item, chunks(), tally)
            self._derive(item)
        tally.add(_word(outcome))
        self._items.record_indexed(item.uri, item.digest)

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

    def repair(self, *, at: datetime, tally: Tally) -> None:
        """Bring the index to what the record says (after a kill, a lost index, or a gate that did not pass)."""
        if self._index.count_points() == 0:
            # Lost, or removed by hand: what the record says of it no longer holds.
            self._items.forget_index()
        self.withhold(self._items.not_withheld())
        for uri in list(self._items.not_indexed()):
            body = self._items.body(uri)
            if body is None:
                self._index.delete_items([uri])
                self._items.record_removed([uri])
                continue
            item, chunks = body
            self._write_points(item, chunks, tally)
            self._derive(item)
            self._items.record_indexed(uri, item.digest)
            tally.add("repaired")

    def flush(self) -> None:
        """Make the index survive a power cut; called before a checkpoint is committed."""
        self._index.flush()

    def _access(self, scope: ScopeId) -> tuple[tuple[Principal, ...], int]:
        """Who is named by an allow of the scope, and the version of that rule; an unknown scope names nobody."""
        access = self._scopes.access_of(scope)
        return (tuple(sorted(access.allowed)), access.acl_version) if access else ((), 0)

    def _write_points(self, item: Item, chunks: Sequence[Chunk], tally: Tally) -> None:
        kept = self._index.vectors_of(item.uri)
        missing = [c for c in chunks if c.digest not in kept]
        dense = dict(
            zip(
                (c.digest for c in missing),
                self._embedder.embed_documents([c.embedded_text for c in missing]),
                strict=True,
            )
        )
        tally.add("embedded", len(missing))
        allowed, version = self._access(item.scope)

        def vectors(chunk: Chunk) -> tuple[DenseVector, SparseVector]:
            old = kept.get(chunk.digest)
            return old if old else (dense[chunk.digest], sparse_document(chunk.embedded_text))

        points = []
        for chunk in chunks:
            meaning, words = vectors(chunk)
            points.append(
                IndexPoint(
                    id=point_id(item.uri, chunk.ordinal),
                    uri=item.uri,
                    ordinal=chunk.ordinal,
                    source=item.source,
                    kind=item.kind.value,
                    scope=item.scope,
                    allowed=allowed,
                    acl_version=version,
                    label=item.label,
                    digest=chunk.digest,
                    title=item.title,
                    heading=chunk.heading,
                    text=chunk.text,
                    part_uris=chunk.part_uris,
                    created_at=_seconds(item.created_at),
                    modified_at=_seconds(item.modified_at),
                    dense=meaning,
                    sparse=words,
                )
            )
        self._index.replace_item(item.uri, points)

    def _derive(self, item: Item) -> None:
        self._glossary.replace(item.uri, glossary_entries(item))
        self._supersessions.replace(item.uri, declared(item))


def prepare(item: Item) -> Item:
    """The item as it may be stored: invisible characters and NULs gone, secrets masked, in every text that is kept."""
    return replace(
        item,
        title=redact(clean_text(item.title)),
        parts=tuple(
            replace(
                part,
                text=redact(clean_text(part.text)),
                heading=tuple(clean_text(h) for h in part.heading),
            )
            for part in item.parts
        ),
        aliases=tuple(clean_text(a) for a in item.aliases),
        replaced_by=tuple(clean_text(r) for r in item.replaced_by),
        contributions=tuple(replace(c, note=redact(clean_text(c.note))) for c in item.contributions),
    )


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


def point_id(uri: str, ordinal: int) -> UUID:
    """The id of a chunk's point: made of names alone, so a repeated write meets itself."""
    return uuid5(NAMESPACE_URL, f"{uri}#{ordinal}")


def _seconds(at: datetime | None) -> int | None:
    return int(at.timestamp()) if at else None
