"""Keyword tokens and sparse vectors: words by stem, identifiers and codes whole and in parts.

`AB#4102`, `PG-4031`, `TLS1.2`, `#4711`, `partner_adapter.connect` and `PartnerAdapter` are kept whole and also give
their parts, so that a question may name the whole or a part. Composed and decomposed letters, letters with and
without diacritics, upper and lower case meet.

A document's weights are saturated term frequencies with a length norm against a *fixed* length: an average over the
collection would let texts that the asker may not read move the scores of those that they may. How rare a word is
(IDF) is not in the vectors either; the index works it out over what the asker may read.
"""

from __future__ import annotations

import hashlib
import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

import snowballstemmer

from core.index.port import SparseVector
from core.text.stopwords import STOP_WORDS

K1: Final = 1.2
B: Final = 0.75
# What a full chunk of the standard model (256 word pieces) comes to, about, in tokens of ours.
USUAL_LENGTH: Final = 100.0

# Letters that no Unicode form takes apart, but that people type plainly.
_PLAIN: Final = str.maketrans(
    {"ø": "o", "Ø": "O", "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "ı": "i"}
)
_RUN: Final = re.compile(r"\w(?:\+\+|#)(?!\w)|#?\w+(?:[.\-#@+]\w+)*")
_PIECE: Final = re.compile(
    r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+(?:\.\d+)*|[^\W\d_A-Za-z]+"
)
_ABBREVIATION: Final = re.compile(r"[A-Z][A-Z0-9]*s?")
_STEMMER_LOCK = threading.Lock()
_STEMMER: Any = snowballstemmer.stemmer("english")


def fold(text: str) -> str:
    """Return `text` as it is compared: compatibility form, no diacritics, lower case."""
    return _without_marks(text).casefold()


def keyword_tokens(text: str) -> list[str]:
    """Return the tokens of `text` in order, repeated as often as they occur; [] where there are none."""
    found: list[str] = []
    for run in _RUN.findall(_without_marks(text)):
        found.extend(_of_run(run))
    return found


def sparse_document(text: str, *, title: str = "", heading: Sequence[str] = ()) -> SparseVector:
    """Return the keyword weights of a chunk; words of its title and headings count as words of its text."""
    counts = Counter(keyword_tokens("\n".join((title, *heading, text))))
    norm = K1 * (1 - B + B * sum(counts.values()) / USUAL_LENGTH)
    return _vector((token, n * (K1 + 1) / (n + norm)) for token, n in counts.items())


def sparse_query(text: str) -> SparseVector:
    """Return the keyword weights of a question: each token once; empty where it has none."""
    return _vector((token, 1.0) for token in dict.fromkeys(keyword_tokens(text)))


@lru_cache(maxsize=65536)
def token_id(token: str) -> int:
    """Return the number of `token` in sparse vectors: 32 bits, the same in every process and release."""
    return int.from_bytes(hashlib.blake2b(token.encode("utf-8", "replace"), digest_size=4).digest(), "big")


def _vector(weights: Iterable[tuple[str, float]]) -> SparseVector:
    summed: dict[int, float] = {}
    for token, weight in weights:
        number = token_id(token)
        # Two tokens on one number is a one in four thousand million chance; the heavier speaks for both.
        summed[number] = max(weight, summed.get(number, 0.0))
    ordered = sorted(summed.items())
    return SparseVector(tuple(n for n, _ in ordered), tuple(w for _, w in ordered))


def _without_marks(text: str) -> str:
    if text.isascii():
        return text
    apart = unicodedata.normalize("NFKD", text.translate(_PLAIN))
    return unicodedata.normalize("NFC", "".join(c for c in apart if not unicodedata.combining(c)))


@lru_cache(maxsize=65536)
def _of_run(run: str) -> tuple[str, ...]:
    has_digit = any(c.isdigit() for c in run)
    if run.startswith("#") and not has_digit:
        run = run[1:]
    run = run.strip("_")
    pieces = _PIECE.findall(run)
    if not pieces:
        return (run.casefold(),) if run else ()
    if len(pieces) == 1 and pieces[0] == run:
        return _of_word(run)
    tokens = [run.casefold()]
    for piece in pieces:
        # One letter or a digit or two of a longer name would only meet by chance; a number behind # is a name itself.
        if len(piece) >= (3 if piece[0].isdigit() else 2) or f"#{piece}" in run:
            tokens.extend(t for t in _of_word(piece) if t not in tokens)
    return tuple(tokens)


@lru_cache(maxsize=65536)
def _of_word(word: str) -> tuple[str, ...]:
    lower = word.casefold()
    if not lower.isalpha():
        return (lower,)
    if len(word) > 1 and _ABBREVIATION.fullmatch(word):
        if word.endswith("s"):
            lower = lower[:-1]
        # IT is not "it"; and whoever types the abbreviation in lower case still finds it by its stem.
        return tuple(dict.fromkeys((lower, _stem(lower))))
    if lower in STOP_WORDS:
        return ()
    return (_stem(lower),)


def _stem(word: str) -> str:
    with _STEMMER_LOCK:
        return str(_STEMMER.stemWord(word))
