"""Texts as the source holds them, turned into Markdown or plain text."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from typing import Any

from core.text.html import html_to_markdown
from ingestion.azure_devops.shapes import text_of

_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|#39|nbsp);")


def markdown_of(value: Any, text_format: str) -> str:
    """A long text as Markdown. `text_format` (`html` or `markdown`) is what the source says; it is never guessed."""
    text = text_of(value)
    if text_format.lower() == "markdown":
        # Markdown fields come back with entities in them: undone once, now that the format is known.
        return html.unescape(text).strip() if _ENTITY.search(text) else text.strip()
    return html_to_markdown(text).strip()


def decode(data: bytes) -> str | None:
    """The text of a file; None where it is none that we can read (binary, or an encoding that can't be told).

    UTF-16 needs its mark. What is not UTF-8 is read as Windows-1252 if that gives no control characters. A few NULs in
    a text are dropped, since Postgres refuses them; many mean that it is no text.
    """
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        try:
            return data.decode("utf-16").replace("\x00", "")
        except UnicodeDecodeError:
            return None
    if data.count(b"\x00") * 100 > len(data):
        return None
    try:
        return data.decode("utf-8-sig").replace("\x00", "")
    except UnicodeDecodeError:
        pass
    if b"\x00" in data:
        return None
    try:
        text = data.decode("cp1252")
    except UnicodeDecodeError:
        return None
    return None if any(ord(c) < 32 and c not in "\t\n\r\f" for c in text) else text


def scalar(value: Any) -> str | None:
    """A short field as text; None for empty ones and for those that are no scalar."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
    if isinstance(value, Mapping) and value.get("displayName"):
        return text_of(value["displayName"])
    text = text_of(value).strip() if isinstance(value, str) else ""
    return text or None
