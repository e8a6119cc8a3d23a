"""A token count that needs no model's tokenizer: an estimate that errs on the high side, the same everywhere.

A word of up to six letters is one token, a longer one a token per four letters, a run of more than twenty (a random
or encoded string) one per two; three digits are a token, and so is every other mark, letter outside ASCII, and line
break. On prose this counts somewhat more than the tokenizers of current models, so a bundle fits where it must.
"""

from __future__ import annotations

import re
from functools import lru_cache

_PIECES = re.compile(r"[A-Za-z]+|[0-9]+|\n\s*|[^\sA-Za-z0-9]")


def count_tokens(text: str) -> int:
    """Return the estimated number of tokens of `text`; never less than that of any part cut at a space."""
    return sum(map(_cost, _PIECES.findall(text)))


# Words repeat; a bundle is counted several times while it is packed.
@lru_cache(maxsize=65536)
def _cost(piece: str) -> int:
    first = piece[0]
    length = len(piece)
    if first.isascii() and first.isalpha():
        if length <= 6:
            return 1
        return -(-length // (2 if length > 20 else 4))
    if first.isascii() and first.isdigit():
        return -(-length // 3)
    return 1
