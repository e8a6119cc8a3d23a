"""Texts as the source holds them, turned into Markdown or plain text."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from typing import Any

from core.text.html import html_to_markdown
from core.text.markdown import clean_markdown, split_front_matter
from ingestion.azure_devops.shapes import text_of

_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|#39|nbsp);")


def markdown_of(value: Any, text_format: str) -> str:
    """A long text as Markdown. `text_format` (`html` or `markdown`) is what the source says; it is never guessed."""
    text = text_of(value)
    if text_format.lower() == "markdown":
        # Markdown fields come back with entities in them: undone once, now that the format is known.
        return clean_markdown(html.unescape(text) if _ENTITY.search(text) else text).strip()
    return html_to_markdown(text).strip()


def page_text(text: str) -> str:
    """A Markdown file or page as it is read: without front matter, macros and pictures in the text."""
    return clean_markdown(split_front_matter(text)[1])


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
