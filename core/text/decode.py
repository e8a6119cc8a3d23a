"""Reads bytes of files as text, or says why they are none; never stores a guess in silence."""

from __future__ import annotations

import codecs
import re
import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_LFS: Final = re.compile(rb"\Aversion https://git-lfs\.github\.com/spec/v\d+\r?\n(?:[a-z0-9.-]+ [^\n]*\n)*oid sha256:")
_BOMS: Final = (
    # UTF-32's little-endian mark starts with that of UTF-16, so it is looked for first.
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Control characters that text files hold: tab, line ends, form feed, escape (coloured logs), backspace.
_USUAL_CONTROLS: Final = frozenset(b"\t\n\r\f\x1b\x08")
_SAMPLE: Final = 8192
_LEAST_UTF16: Final = 8
# Controls, private and unassigned characters: a text that was taken for UTF-16 by mistake is full of them.
_NO_TEXT: Final = frozenset({"Cc", "Cn", "Co"})


class NotText(StrEnum):
    """Why bytes can't be read as text."""

    BINARY = "binary"
    LFS_POINTER = "lfs_pointer"
    BROKEN_UTF16 = "broken_utf16"
    UNKNOWN_ENCODING = "unknown_encoding"


@dataclass(frozen=True, slots=True)
class Decoded:
    """Text and the encoding that it was read by. Line ends are `\\n` and there is no NUL."""

    text: str
    encoding: str


def decode(data: bytes) -> Decoded | NotText:
    """Return the text of a file, or the reason why there is none.

    A byte order mark decides where there is one. Without one, UTF-16 is known by the NULs beside its Latin letters;
    UTF-8 is tried next, then Latin-1 (as Windows-1252) where it gives plausible words. A few NULs in a text are
    dropped; many mean that it is none.
    """
    if _LFS.match(data):
        return NotText.LFS_POINTER
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            try:
                text = data[len(mark) :].decode(encoding)
            except UnicodeDecodeError:
                return NotText.BROKEN_UTF16 if "16" in encoding else NotText.UNKNOWN_ENCODING
            if not text and "16" in encoding:
                return NotText.BROKEN_UTF16
            return Decoded(_tidy(text), encoding)
    unmarked = _unmarked_utf16(data)
    if unmarked is not None:
        return unmarked
    if _looks_binary(data[:_SAMPLE]):
        return NotText.BINARY
    try:
        return Decoded(_tidy(data.decode("utf-8")), "utf-8")
    except UnicodeDecodeError:
        pass
    if b"\0" in data:
        return NotText.BINARY
    try:
        text = data.decode("cp1252")
    except UnicodeDecodeError:
        return NotText.UNKNOWN_ENCODING
    return Decoded(_tidy(text), "cp1252") if _is_plausible(text) else NotText.UNKNOWN_ENCODING


def _unmarked_utf16(data: bytes) -> Decoded | None:
    """Text in UTF-16 without a mark: every other byte is a NUL wherever letters are Latin."""
    if len(data) < _LEAST_UTF16 or len(data) % 2:
        return None
    sample = data[:_SAMPLE]
    half = len(sample) // 2
    nuls = [half - len(sample[n::2].replace(b"\0", b"")) for n in (0, 1)]
    for encoding, many, few in (("utf-16-le", nuls[1], nuls[0]), ("utf-16-be", nuls[0], nuls[1])):
        if many * 4 < half * 3 or few * 50 > half:
            continue
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            return None
        odd = any(unicodedata.category(c) in _NO_TEXT and ord(c) not in _USUAL_CONTROLS for c in text)
        return None if odd else Decoded(_tidy(text), encoding)
    return None


def _looks_binary(sample: bytes) -> bool:
    if not sample:
        return False
    odd = sum(1 for b in sample if b < 32 and b not in _USUAL_CONTROLS)
    # One NUL in a short log is a slip; in a hundred bytes several, or control characters all over, are a format.
    return odd > 1 and odd * 20 > len(sample)


def _is_plausible(text: str) -> bool:
    """Whether non-ASCII characters stand as letters do in words, not as noise: mostly letters, beside letters."""
    if any(ord(c) < 32 and ord(c) not in _USUAL_CONTROLS for c in text):
        return False
    strange = [i for i, c in enumerate(text) if ord(c) > 127]
    fitting = sum(1 for i in strange if (text[i].isalpha() and _beside_letter(text, i)) or text[i] in "°§£€–—‘’“”…«»·")
    return fitting * 4 >= len(strange) * 3 and len(strange) * 3 <= len(text)


def _beside_letter(text: str, i: int) -> bool:
    return any(text[n].isalpha() and ord(text[n]) < 128 for n in (i - 1, i + 1) if 0 <= n < len(text))


def _tidy(text: str) -> str:
    return text.replace("\0", "").replace("\r\n", "\n").replace("\r", "\n")
