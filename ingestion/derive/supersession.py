"""Declared supersession: an item that says of itself that it is replaced, and by what.

The item is its own evidence: the row can be seen only by who may read it (and both ends). Supersession that nobody
declared (a later decision in chat) is worked out per question among what the asker may read, in the query plane.
"""

from __future__ import annotations

from collections.abc import Callable

from core.items import Item
from graph.supersession import Supersession


def declared(item: Item, resolve: Callable[[str], str | None]) -> list[Supersession]:
    """Rows for what `item` declares. `resolve` turns a title or URL into the address of an item, or None."""
    rows = []
    for name in item.replaced_by:
        target = name if name.startswith("ctx://") else resolve(name)
        if target is not None and target != item.uri:
            rows.append(
                Supersession(
                    old_uri=item.uri,
                    new_uri=target,
                    kind="declared",
                    confidence=1.0,
                    quote=f"{item.title} is declared replaced",
                )
            )
    return rows
