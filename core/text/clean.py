"""Removes what a reader can't see from text: instructions hide there, and NULs sink a whole batch in Postgres."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Final

_ZWSP: Final = "\u200b"
_ZWNJ: Final = "\u200c"
_ZWJ: Final = "\u200d"
_VS16: Final = "\ufe0f"
# Unseen everywhere: NUL, soft hyphen, zero-width marks, fillers, word joiner and invisible operators,
# byte order mark inside text, annotation marks, tag characters; and halves of surrogate pairs, which are no text.
_UNSEEN: Final = re.compile(
    "[\u0000\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180e\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
    "\U000e0000-\U000e0fff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\ud800-\udfff]"
)
# Marks that turn the direction of writing against what is read. The plain direction marks (LRM, RLM, ALM) are harmless
# and are used in right-to-left prose.
_TURNING: Final = re.compile("[\u202a-\u202e\u2066-\u2069]")
_JOINER: Final = re.compile(f"[{_ZWNJ}{_ZWJ}]")
# A flag of a region (England, Wales) is a black flag and tag letters up to a cancel tag, and is seen.
_FLAG: Final = re.compile("\U0001f3f4[\U000e0061-\U000e007a\U000e0030-\U000e0039]{2,6}\U000e007f")
# What says nothing by being there: it is dropped without a flag.
_HARMLESS: Final = frozenset("\u0000\u00ad\ufeff\u2060")


@dataclass(frozen=True, slots=True)
class Cleaned:
    """The text without what can't be seen; `hidden` says whether that looked meant to be unseen."""

    text: str
    hidden: bool


def clean_text(text: str) -> str:
    """Return `text` without invisible characters and NULs; what is seen, joiners where scripts need them, stays."""
    return clean(text).text


def clean(text: str) -> Cleaned:
    """Return `text` as `clean_text` does, and whether something was hidden in it."""
    if text.isascii() and "\0" not in text:
        return Cleaned(text, hidden=False)
    flags = {m.start(): m.end() for m in _FLAG.finditer(text)}
    kept: list[str] = []
    hidden = False
    end_of_flag = 0
    for i, c in enumerate(text):
        end_of_flag = max(end_of_flag, flags.get(i, 0))
        if i < end_of_flag:
            kept.append(c)
        elif c == _ZWSP:
            # It parts words without being seen; a space parts them visibly.
            if text[i - 1 : i].isalnum() and text[i + 1 : i + 2].isalnum():
                kept.append(" ")
        elif _UNSEEN.match(c):
            hidden = hidden or c not in _HARMLESS
        elif _TURNING.match(c) or (_JOINER.match(c) and not _joins(text, i)):
            hidden = True
        else:
            kept.append(c)
    return Cleaned("".join(kept), hidden)


def _joins(text: str, i: int) -> bool:
    """Whether a joiner stands where writing needs one: between emoji, or between letters of a script that joins."""
    before = text[i - 1] if i else ""
    after = text[i + 1] if i + 1 < len(text) else ""
    if not before or not after:
        return False
    if text[i] == _ZWJ and _is_pictograph(after):
        return _is_pictograph(before) or before == _VS16
    return _needs_joiners(before) and (_needs_joiners(after) or after.isspace())


def _is_pictograph(c: str) -> bool:
    return unicodedata.category(c) in ("So", "Sk") or c in "\u2640\u2642\u2695\u2696\u2708\u2764"


def _needs_joiners(c: str) -> bool:
    """Arabic, Syriac, Mongolian, and the scripts of India and South-East Asia: letters and their marks."""
    return unicodedata.category(c)[0] in "LM" and (
        "\u0600" <= c <= "\u08ff" or "\u0900" <= c <= "\u0dff" or "\u1000" <= c <= "\u109f" or "\u1780" <= c <= "\u18af"
    )
