"""Finds the code fences of a Markdown text, so that nothing inside one is taken for Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence

_OPEN = re.compile(r"^\s*(?:>\s*|[-*+]\s+|\d+[.)]\s+)*(`{3,}(?=[^`]*$)|~{3,})")


def fenced(lines: Sequence[str]) -> list[bool]:
    """Say of each line whether it belongs to a fence (its two marker lines too). An open fence runs to the end."""
    inside: list[bool] = []
    marker: str | None = None
    for line in lines:
        if marker is None:
            found = _OPEN.match(line)
            marker = found.group(1) if found else None
            inside.append(marker is not None)
            continue
        inside.append(True)
        bare = line.strip().lstrip("> ")
        if len(bare) >= len(marker) and set(bare) == {marker[0]}:
            marker = None
    return inside
