"""Gathers what may be evidence: by search, name, meaning and link, and as successor of something found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from core.access import Trim
from core.items import Source
from core.tuning import Tuning
from graph.glossary import GlossaryRow
from graph.records import ItemStore
from graph.supersession import Supersession, SupersessionStore
from query.focus import Found as FocusFound
from query.interpret import Reading
from query.named import Named
from query.neighbours import Neighbours
from query.retrieve import Found, Hit, Retriever, Vectors, misread_words, only_with_literals
from query.supersede import marks

# A source of the meaning asked for is evidence for it, the more so the fewer there are.
_MEANING_RELEVANCE = (0.95, 0.85, 0.75)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """What was found: the reading with what the search added to it, hits by address, and supersessions among them."""

    reading: Reading
    hits: Mapping[str, Hit]
    supersessions: Sequence[Supersession]


class Gatherer:
    """Runs the finding steps of one question; every call takes the Trim."""

    def __init__(
        self,
        items: ItemStore,
        supersessions: SupersessionStore,
        retriever: Retriever,
        neighbours: Neighbours,
        named: Named,
        tuning: Tuning,
    ) -> None:
        self._items = items
        self._supersessions = supersessions
        self._retriever = retriever
        self._neighbours = neighbours
        self._named = named
        self._tuning = tuning

    def gather(
        self,
        trim: Trim,
        reading: Reading,
        focus: tuple[FocusFound, ...],
        focus_words: str,
        sources: tuple[Source, ...],
        meaning_rows: Sequence[GlossaryRow],
    ) -> Gathered:
        """Find what may be evidence; `meaning_rows` are the sources of the meanings asked for, nearest first."""
        if trim.sees_nothing:
            return Gathered(reading=reading, hits={}, supersessions=())
        vectors = self._retriever.vectors(reading, focus_words)
        found = self._retriever.search(trim, vectors, sources)
        if reading.only_literals:
            found = only_with_literals(found, reading.literals)
        else:
            reading, vectors, found = self._mended(trim, reading, vectors, focus_words, found, sources)
        found = self._with_named(trim, reading, vectors, found, meaning_rows)
        hits: dict[str, Hit] = dict(found.hits)
        if not reading.only_literals:
            hits = self._neighbours.expand(trim, vectors, found, focus)
        rows = self._supersessions.of(trim, sorted(hits)) if hits else []
        hits = self._with_successors(trim, vectors, found, hits, rows)
        return Gathered(reading=reading, hits=_in_time(hits, reading.as_of), supersessions=rows)

    def _mended(
        self,
        trim: Trim,
        reading: Reading,
        vectors: Vectors,
        focus_words: str,
        found: Found,
        sources: tuple[Source, ...],
    ) -> tuple[Reading, Vectors, Found]:
        """Search once more where a word of the question is likely a slip."""
        slips = misread_words(reading, found)
        if not slips:
            return reading, vectors, found
        for word, read_as in slips:
            reading = reading.with_added(read_as, f"{word} read as {read_as}")
        vectors = self._retriever.vectors(reading, focus_words, dense=vectors.dense)
        return reading, vectors, self._retriever.search(trim, vectors, sources)

    def _with_named(
        self, trim: Trim, reading: Reading, vectors: Vectors, found: Found, meaning_rows: Sequence[GlossaryRow]
    ) -> Found:
        exact = set(self._named.items(trim, reading))
        meant: dict[str, float] = {}
        for uri in dict.fromkeys(r.uri for r in meaning_rows):
            if len(meant) < len(_MEANING_RELEVANCE):
                meant[uri] = _MEANING_RELEVANCE[len(meant)]
        extra = self._retriever.score(trim, vectors, (exact | set(meant)) - set(found.hits), found)
        hits = {**found.hits, **extra}
        for uri in sorted((exact | set(meant)) & set(hits)):
            hit = hits[uri]
            least = self._tuning.exact_relevance if uri in exact else meant[uri]
            hits[uri] = replace(hit, relevance=max(hit.relevance, least), exact=True)
        return replace(found, hits=hits)

    def _with_successors(
        self, trim: Trim, vectors: Vectors, found: Found, hits: dict[str, Hit], rows: Iterable[Supersession]
    ) -> dict[str, Hit]:
        marked = {u: m for u, m in marks(rows).items() if u in hits}
        missing = {m.by for m in marked.values()} - set(hits)
        brought = self._retriever.score(trim, vectors, missing, found)
        for uri in sorted(brought):
            olds = [hits[u] for u, m in marked.items() if m.by == uri]
            old = min(olds, key=lambda h: (-h.relevance, h.uri))
            hits[uri] = replace(
                brought[uri],
                relevance=max(brought[uri].relevance, round(old.relevance * 0.9, 6)),
                via=f"replaces “{old.row.title}”",
            )
        return hits


def _in_time(hits: Mapping[str, Hit], as_of: datetime | None) -> dict[str, Hit]:
    """What did not exist yet at the time asked about is left out, whatever way it was found."""
    return {u: h for u, h in hits.items() if as_of is None or h.row.created_at is None or h.row.created_at <= as_of}
