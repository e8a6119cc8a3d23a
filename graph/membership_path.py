"""How somebody came to count as a principal: the shortest chain of memberships from them to it."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import Final

from core.principals import Principal
from graph.db import Database

# Every membership on any way up from one principal. UNION ends cycles; the closure is as large as the asker's own.
_EDGES: Final = """
    WITH RECURSIVE up(principal) AS (
        SELECT %s::text COLLATE "C"
        UNION
        SELECT m.container FROM memberships m JOIN up ON m.member = up.principal
    )
    SELECT DISTINCT m.member, m.container FROM memberships m JOIN up ON m.member = up.principal
    ORDER BY m.member, m.container
"""
# A directory's own words for a principal before those of a source that only names it.
_NAMES: Final = """
    SELECT DISTINCT ON (principal) principal, name FROM (
        SELECT principal, name, source, 0 AS rank FROM people
        UNION ALL SELECT principal, name, source, 1 FROM containers
    ) named WHERE principal = ANY(%s) ORDER BY principal, rank, source DESC
"""


class MembershipPaths:
    """Chains of memberships over the synced directory. For administrators: it knows no trim."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def from_(self, who: Principal, to: Collection[Principal]) -> dict[Principal, tuple[Principal, ...]]:
        """The shortest chain from `who` to each principal, both ends in it; of equally short ones the first in
        order of names. What cannot be reached is left out. Raises StoreUnavailableError."""
        with self._db.connection() as connection:
            rows = connection.execute(_EDGES, [who]).fetchall()
        above: dict[Principal, list[Principal]] = {}
        for row in rows:
            above.setdefault(Principal(row["member"]), []).append(Principal(row["container"]))
        came_from: dict[Principal, Principal | None] = {who: None}
        waiting = deque([who])
        while waiting:
            here = waiting.popleft()
            for container in above.get(here, ()):
                if container not in came_from:
                    came_from[container] = here
                    waiting.append(container)
        return {target: _back(came_from, target) for target in sorted(to) if target in came_from}

    def names(self, principals: Collection[Principal]) -> dict[Principal, str]:
        """Shown names of people and containers; those that have none are left out."""
        with self._db.connection() as connection:
            rows = connection.execute(_NAMES, [sorted(principals)]).fetchall()
        return {Principal(r["principal"]): str(r["name"]) for r in rows}


def _back(came_from: dict[Principal, Principal | None], target: Principal) -> tuple[Principal, ...]:
    steps = [target]
    while (before := came_from[steps[-1]]) is not None:
        steps.append(before)
    return tuple(reversed(steps))
