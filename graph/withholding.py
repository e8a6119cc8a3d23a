"""Items that nobody is shown for now: unreadable at their source, or missing from its list and not yet taken as gone.

What vanished is withheld at once and deleted only when it was missed in two runs: a list can be short for many reasons.
In the index its points hang on a scope that no rule opens (`core.access.WITHHELD`) until it comes back or goes.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from psycopg import Connection
from psycopg.rows import DictRow

from core.access import WITHHELD
from core.items import Source
from graph.db import clean
from graph.epoch import move_epoch
from graph.reading import ItemReader


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """`withheld`: addresses that are newly hidden; `confirmed`: those that an earlier run missed already."""

    withheld: tuple[str, ...] = ()
    confirmed: tuple[str, ...] = ()


class Withholding(ItemReader):
    """Hides items and shows them again. The index has to follow (`record_withheld`)."""

    def hide(self, uri: str, reason: str, at: datetime) -> None:
        """Show the item to nobody until it is read again: its source no longer shows it, and does not say why."""
        self.hide_all([uri], reason, at)

    def hide_all(self, uris: Collection[str], reason: str, at: datetime) -> list[str]:
        """Hide these items in one transaction; return those that were shown until now."""

        def work(connection: Connection[DictRow]) -> list[str]:
            rows = connection.execute(
                "UPDATE items SET lifecycle = 'hidden', reason = %s, noticed_at = %s "
                "WHERE uri = ANY(%s) AND lifecycle = 'live' RETURNING uri",
                [clean(reason), at, sorted(set(uris))],
            ).fetchall()
            if rows:
                move_epoch(connection)
            return sorted(r["uri"] for r in rows)

        return self._db.retrying(work)

    def miss(self, uris: Collection[str], *, reason: str, run_at: datetime) -> Missed:
        """A whole list of their source, read by the run that began at `run_at`, lacks these items: hide them.

        Nothing is deleted here; what is `confirmed` was missed by an earlier run as well. Called again within one run
        it counts once.
        """

        def work(connection: Connection[DictRow]) -> Missed:
            rows = connection.execute(_MISS, {"uris": sorted(set(uris)), "reason": clean(reason), "at": run_at})
            found = rows.fetchall()
            withheld = sorted(r["uri"] for r in found if r["before"] == "live")
            if withheld:
                move_epoch(connection)
            confirmed = sorted(r["uri"] for r in found if r["misses"] > 1)
            return Missed(withheld=tuple(withheld), confirmed=tuple(confirmed))

        return self._db.retrying(work)

    def missed(self, source: Source) -> set[str]:
        """Items of a source that were missed and are not deleted: to be read again where they are back."""
        with self._db.connection() as connection:
            rows = connection.execute(
                "SELECT uri FROM items WHERE source = %s AND misses > 0 AND lifecycle <> 'deleted'", [source.value]
            ).fetchall()
        return {r["uri"] for r in rows}

    def not_withheld(self, source: Source | None = None) -> list[str]:
        """Hidden items whose points may still be where they can be searched, by address; of one source or all."""
        with self._db.connection() as connection:
            rows = connection.execute(
                "SELECT uri FROM items WHERE lifecycle = 'hidden' AND indexed_scope IS DISTINCT FROM %(withheld)s "
                "AND (%(source)s::text IS NULL OR source = %(source)s) ORDER BY uri",
                {"withheld": WITHHELD, "source": source.value if source else None},
            ).fetchall()
        return [r["uri"] for r in rows]

    def record_withheld(self, uris: Collection[str]) -> None:
        """The index holds the points of these hidden items on no scope that a rule opens."""
        with self._db.connection() as connection:
            connection.execute(
                "UPDATE items SET indexed_scope = %s WHERE uri = ANY(%s) AND lifecycle = 'hidden'",
                [WITHHELD, sorted(set(uris))],
            )


_MISS: Final = """
    UPDATE items SET lifecycle = 'hidden', reason = %(reason)s, noticed_at = coalesce(items.noticed_at, %(at)s),
        misses = items.misses + (items.missed_at IS DISTINCT FROM %(at)s)::int, missed_at = %(at)s
    FROM (SELECT uri, lifecycle FROM items WHERE uri = ANY(%(uris)s) AND lifecycle <> 'deleted'
          ORDER BY uri FOR UPDATE) old
    WHERE items.uri = old.uri
    RETURNING items.uri, items.misses, old.lifecycle AS before
"""
