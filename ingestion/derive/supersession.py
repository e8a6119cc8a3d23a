"""Declared supersession: an item that names, by address, what replaces it.

The item is its own evidence: the row can be seen only by who may read it and both ends. A successor that is named by
title or URL is matched when it is asked for, among what the asker may read; matched here, a hidden item of the same
title could make the mark come or go. Supersession that nobody declared (a later decision in chat) is worked out per
question, too.
"""

from __future__ import annotations

from core.items import Item
from graph.supersession import Supersession


def declared(item: Item) -> list[Supersession]:
    """Rows for the addresses that `item` says it is replaced by."""
    return [
        Supersession(
            old_uri=item.uri,
            new_uri=target,
            kind="declared",
            confidence=1.0,
            quote=f"{item.title} is declared replaced",
        )
        for target in item.replaced_by
        if target.startswith("ctx://") and target != item.uri
    ]
