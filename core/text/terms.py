"""The keys under which terms and their meanings are kept and looked up: one spelling for both planes."""

from __future__ import annotations

import re
import unicodedata

_WORD = re.compile(r"[^\W_]+(?:['’\-][^\W_]+)*")
_FILLER_WORDS = """
the a an our your de het een onze of and for en van voor
"""
_FILLER = frozenset(_FILLER_WORDS.split())


def term_key(term: str) -> str:
    """The key of a term: compatibility form, folded case, inner dots and spaces dropped."""
    return re.sub(r"[\s.]+", "", unicodedata.normalize("NFKC", term).casefold())


def meaning_key(meaning: str) -> str:
    """Two wordings with the same key are one meaning: case, punctuation, filler words and plural s set aside."""
    words = (w.casefold() for w in _WORD.findall(unicodedata.normalize("NFKC", meaning)))
    return " ".join(w.removesuffix("s") if len(w) > 3 else w for w in words if w not in _FILLER)
