"""Bytes of files as text, or a reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.text.decode import Decoded, NotText, decode

INPUTS = Path(__file__).parent / "inputs"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("utf16le_bom.cs", "// Måleområde: kai 7\nclass Kai {}\n"),
        ("utf16be_bom.sql", "SELECT 1 -- Ærø\n"),
        ("latin1.txt", "Fartøy nær kai"),
        ("nul_in_middle.log", "line one\nkai 7 open\nline three\n"),
    ],
)
def test_text_is_read_whatever_its_encoding(name: str, text: str) -> None:
    found = decode((INPUTS / name).read_bytes())
    assert isinstance(found, Decoded)
    assert found.text == text


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xff\xfe", NotText.BROKEN_UTF16),
        (b"\xff\xfea", NotText.BROKEN_UTF16),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", NotText.BINARY),
        (b"k\0a\0i\0\1\0" * 20, NotText.BINARY),
        (b"\0\0\1\0" * 40, NotText.BINARY),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 5\n", NotText.LFS_POINTER),
        (bytes(range(128, 256)) * 4, NotText.UNKNOWN_ENCODING),
    ],
)
def test_what_is_no_text_is_told_with_a_reason(data: bytes, reason: NotText) -> None:
    assert decode(data) == reason


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_without_a_mark_is_known_by_its_latin_letters(encoding: str) -> None:
    text = "SELECT 1 -- Måleområde €\r\nFROM kai\r\n"
    assert decode(text.encode(encoding)) == Decoded(text.replace("\r\n", "\n"), encoding)


def test_an_empty_file_is_empty_text() -> None:
    assert decode(b"") == Decoded("", "utf-8")
    assert decode(b"\xef\xbb\xbfhei") == Decoded("hei", "utf-8")


@given(st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=60))
def test_utf8_comes_back_as_it_was(text: str) -> None:
    found = decode(text.encode())
    if not text.startswith("\ufeff"):
        assert found == Decoded(text, "utf-8")


@given(st.binary(max_size=200))
def test_no_bytes_break_it_and_none_leave_a_nul_or_a_replacement(data: bytes) -> None:
    found = decode(data)
    if isinstance(found, Decoded):
        assert "\0" not in found.text
        assert "\ufffd" not in found.text or "\ufffd".encode() in data or data[:2] in (b"\xff\xfe", b"\xfe\xff")
