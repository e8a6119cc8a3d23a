"""What the record says of items that hints name: whether what a hint told has come in."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from graph.db import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Hinted:
    """An item as the record has it. `lifecycle`: live, hidden or deleted; `failing`: it could not be read."""

    lifecycle: str | None
    version: str | None
    failing: bool


_UNKNOWN = Hinted(lifecycle=None, version=None, failing=False)


class HintedItems:
    """Looks items up, whoever may read them; never for an answer."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def of(self, uris: Collection[str]) -> dict[str, Hinted]:
        """What is known of each of these addresses. Raises StoreUnavailableError."""
        with self._db.connection() as connection:
            rows = connection.execute(
                "SELECT uri, i.lifecycle, i.version, f.uri IS NOT NULL AS failing "
                "FROM unnest(%s::text[]) AS wanted (uri) "
                "LEFT JOIN items i USING (uri) LEFT JOIN failures f USING (uri)",
                [sorted(uris)],
            ).fetchall()
        found = {r.pop("uri"): r for r in rows}
        return {uri: Hinted(**found[uri]) if uri in found else _UNKNOWN for uri in uris}
