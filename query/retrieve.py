"""Searches under the trim, checks once more against the record, groups chunks by item and fuses the two scores."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from core.access import Trim
from core.embedding.port import Embedder
from core.index.port import Candidate, DenseVector, HybridQuery, IndexReader, SearchLeg, SparseVector
from core.items import Source
from core.text.stopwords import STOP_WORDS
from core.text.tokens import fold, keyword_tokens, sparse_query
from core.tuning import Tuning
from graph.records import ItemRow, ItemStore
from query.cues import CUE_WORDS
from query.interpret import Reading, words_of

# Shorter words have too many neighbours to be read as slips.
_LEAST_MENDED = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """An item found: its chunks best first, of which the first `close` match about equally well; its scores on both
    legs (cosine; share of the best keyword score) and the relevance made of them.

    `via` says how a linked neighbour got here; `exact`: it was named; `chain`: it stands behind the focus.
    """

    row: ItemRow
    chunks: tuple[Candidate, ...]
    close: int
    dense: float
    keyword: float
    relevance: float
    # What its own words earn, before links spoke for it; None: the same as `relevance`.
    own: float | None = None
    via: str | None = None
    exact: bool = False
    chain: bool = False

    @property
    def uri(self) -> str:
        """The item's address."""
        return self.row.uri


@dataclass(frozen=True, slots=True, kw_only=True)
class Vectors:
    """A question as it is searched with, and the time that nothing may be younger than."""

    dense: DenseVector
    sparse: SparseVector
    created_until: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a search found: hits by address, and the best score of each leg, by which later scores are divided."""

    hits: dict[str, Hit] = field(default_factory=dict)
    best_dense: float = 0.0
    best_sparse: float = 0.0
    candidates: int = 0


class Retriever:
    """Search and second check; every call takes a Trim."""

    def __init__(self, items: ItemStore, index: IndexReader, embedder: Embedder, tuning: Tuning) -> None:
        self._items = items
        self._index = index
        self._embedder = embedder
        self._tuning = tuning

    def vectors(self, reading: Reading, focus_words: str = "", *, dense: DenseVector | None = None) -> Vectors:
        """Turn a question into vectors; what was added counts for less than what was typed."""
        text = " ".join(reading.question.split())
        if dense is None:
            dense = self._embedder.embed_query(f"{text} {focus_words}".strip())
        weights: dict[int, float] = {}
        for added, weight in (
            (" ".join(word for word, _ in reading.added), self._tuning.expansion_weight),
            (focus_words, self._tuning.expansion_weight),
            (text, 1.0),
        ):
            vector = sparse_query(added)
            for index, value in zip(vector.indices, vector.values, strict=True):
                weights[index] = max(weights.get(index, 0.0), value * weight)
        ordered = sorted(weights.items())
        sparse = SparseVector(tuple(i for i, _ in ordered), tuple(round(w, 6) for _, w in ordered))
        until = int(reading.as_of.timestamp()) if reading.as_of is not None else None
        return Vectors(dense=dense, sparse=sparse, created_until=until)

    def search(self, trim: Trim, vectors: Vectors, sources: Sequence[Source]) -> Found:
        """Search every source by meaning and keyword in one request. Raises StoreUnavailableError."""
        if trim.sees_nothing:
            return Found()
        legs = tuple(SearchLeg(sources=(s,), limit=self._tuning.leg_limit) for s in sources)
        candidates = self._index.search(
            trim,
            HybridQuery(dense=vectors.dense, sparse=vectors.sparse, legs=legs, created_until=vectors.created_until),
        )
        rows, checked = self._second_check(trim, candidates)
        best_dense = max((max(0.0, c.dense_score) for c in checked), default=0.0)
        best_sparse = max((c.sparse_score for c in checked), default=0.0)
        return Found(
            hits=self._group(rows, checked, best_dense, best_sparse),
            best_dense=best_dense,
            best_sparse=best_sparse,
            candidates=len(checked),
        )

    def score(self, trim: Trim, vectors: Vectors, wanted: Iterable[str], found: Found) -> dict[str, Hit]:
        """Score named items by the same vectors and the same best scores; those without a chunk are left out."""
        addresses = tuple(sorted(set(wanted)))
        if not addresses or trim.sees_nothing:
            return {}
        legs = (SearchLeg(sources=tuple(Source), limit=min(600, 20 * len(addresses))),)
        candidates = self._index.search(
            trim,
            HybridQuery(
                dense=vectors.dense,
                sparse=vectors.sparse,
                legs=legs,
                only_uris=addresses,
                created_until=vectors.created_until,
            ),
        )
        rows, checked = self._second_check(trim, candidates)
        return self._group(rows, checked, found.best_dense, found.best_sparse)

    def _second_check(self, trim: Trim, candidates: Sequence[Candidate]) -> tuple[dict[str, ItemRow], list[Candidate]]:
        """Keep what the record still knows as readable, live, in the same scope, and with this very text."""
        rows = self._items.visible(trim, sorted({c.uri for c in candidates}))
        checked = [
            c
            for c in candidates
            if (row := rows.get(c.uri)) is not None and row.scope == c.scope and c.digest in row.chunk_digests
        ]
        return rows, checked

    def _group(
        self, rows: dict[str, ItemRow], candidates: Sequence[Candidate], best_dense: float, best_sparse: float
    ) -> dict[str, Hit]:
        weight = self._tuning.dense_weight
        grouped: dict[str, list[tuple[float, float, float, Candidate]]] = {}
        for c in candidates:
            dense = max(0.0, c.dense_score)
            keyword = c.sparse_score / best_sparse if best_sparse > 0 else 0.0
            fused = weight * (dense / best_dense if best_dense > 0 else 0.0) + (1 - weight) * keyword
            grouped.setdefault(c.uri, []).append((round(fused, 6), round(dense, 6), round(keyword, 6), c))
        hits: dict[str, Hit] = {}
        for uri in sorted(grouped):
            scored = sorted(grouped[uri], key=lambda x: (-x[0], x[3].ordinal))
            best = scored[0][0]
            close = sum(s >= best * self._tuning.merge_share for s, _, _, _ in scored)
            hits[uri] = Hit(
                row=rows[uri],
                chunks=tuple(c for _, _, _, c in scored[: self._tuning.kept_chunks]),
                close=min(close, self._tuning.merged_chunks),
                dense=max(d for _, d, _, _ in scored),
                keyword=max(k for _, _, k, _ in scored),
                relevance=best,
            )
        return hits


def only_with_literals(found: Found, literals: Sequence[str]) -> Found:
    """Keep hits in which every quoted literal stands, letter by letter but for case."""
    wanted = [" ".join(fold(x).split()) for x in literals]
    kept = {uri: hit for uri, hit in found.hits.items() if all(w in _text_of(hit) for w in wanted)}
    return replace(found, hits=kept)


def misread_words(reading: Reading, found: Found) -> list[tuple[str, str]]:
    """Words of the question that stand nowhere in what was found, each with the nearest word that does.

    The vocabulary is that of the hits, all of which the asker may read.
    """
    texts = [_text_of(found.hits[uri]) for uri in sorted(found.hits)]
    whole = "\n".join(texts)
    missing = [
        word
        for word in dict.fromkeys(fold(w) for w in words_of(reading.question))
        if len(word) >= _LEAST_MENDED
        and word.isalpha()
        and word not in STOP_WORDS
        and word not in CUE_WORDS
        # Its stem stands somewhere: it is spelt as others spell it.
        and not any(token in whole for token in keyword_tokens(word))
    ]
    if not missing:
        return []
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update({w for w in re.findall(r"[^\W\d_]+", text) if len(w) >= _LEAST_MENDED - 2})
    mended: list[tuple[str, str]] = []
    for word in missing:
        near = [(-n, w) for w, n in counts.items() if abs(len(w) - len(word)) <= 2 and _one_slip(word, w)]
        if near:
            mended.append((word, min(near)[1]))
    return mended


def _one_slip(a: str, b: str) -> bool:
    """Whether one letter too many, too few, changed or swapped turns `a` into `b`; two slips in long words."""
    allowed = 2 if len(a) >= 9 else 1
    return a[0] == b[0] and _distance(a, b) <= allowed


def _distance(a: str, b: str) -> int:
    """Edits between two words, a swap of neighbours counting one."""
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        older, before, row = before, row, [i]
        for j, y in enumerate(b, start=1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
    return row[-1]


def _raw_text(hit: Hit) -> str:
    return "\n".join((hit.row.title, *(x for c in hit.chunks for x in (*c.heading, c.text))))


def _text_of(hit: Hit) -> str:
    return re.sub(r"\s+", " ", fold(_raw_text(hit)))
