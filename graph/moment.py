"""How fresh what is known of access is at one moment: everything about it that the mere passing of time changes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from psycopg import Connection
from psycopg.rows import DictRow

from core.principals import Principal
from graph.directory import DIRECTORIES

# One statement, since each question asks it. A time that lies further ahead than the limit comes from a wrong clock,
# and proves nothing. `fresh_boxes` are few at any time: containers that grew since a directory was last read to its
# end, and hold a group that none lists.
_MOMENT: Final = """
    WITH RECURSIVE lapsed(principal) AS (
        SELECT principal FROM containers WHERE unresolved_since < %(oldest)s
        UNION
        SELECT m.container FROM memberships m JOIN lapsed l ON m.member = l.principal
    ), directories AS (
        SELECT seen_at, completed_at FROM directory_syncs WHERE source = ANY(%(directories)s)
    ), fresh_boxes AS (
        SELECT c.principal FROM containers c WHERE c.grew_at > (SELECT max(completed_at) FROM directories)
        AND EXISTS (
            SELECT 1 FROM memberships m WHERE m.source = c.source AND m.container = c.principal
            AND m.member LIKE 'group:%%' AND NOT EXISTS (SELECT 1 FROM containers g WHERE g.principal = m.member)
        )
    ), open(principal) AS (
        SELECT principal FROM fresh_boxes
        UNION
        SELECT m.container FROM memberships m JOIN open o ON m.member = o.principal
    )
    SELECT (SELECT epoch FROM access_epoch) AS epoch,
        ARRAY(SELECT source FROM permission_syncs WHERE at BETWEEN %(oldest)s AND %(newest)s) AS fresh,
        (SELECT coalesce(bool_and(seen_at BETWEEN %(oldest)s AND %(newest)s), true) FROM directories) AS directory,
        ARRAY(SELECT principal FROM lapsed) AS lapsed,
        ARRAY(
            SELECT id FROM scopes WHERE changed_at > (SELECT max(completed_at) FROM directories) AND EXISTS (
                SELECT 1 FROM unnest(denied) AS who WHERE who LIKE 'group:%%'
                AND NOT EXISTS (SELECT 1 FROM containers c WHERE c.principal = who)
            )
        ) AS unlisted,
        ARRAY(SELECT principal FROM open) AS open
"""


@dataclass(frozen=True, slots=True)
class Moment:
    """What holds for everybody at one moment, and may hold no longer a second later although nothing was written.

    `fresh`: the sources whose permissions are no older than the limit. `directory`: whether the tenant's own directory
    was read that recently; where not, nobody's memberships are worth anything. `lapsed`: containers that could not be
    read for longer than the limit, and what contains them; a membership in one lets nobody in any more. `unlisted`:
    scopes whose rule denies a group that no directory listed, and that is newer than the last whole reading of one.
    `open`: containers with such a group inside, put there after that reading: nobody knows yet who came with it.
    """

    epoch: int
    fresh: frozenset[str]
    directory: bool
    lapsed: frozenset[Principal]
    unlisted: frozenset[str]
    open: frozenset[Principal]


def moment_of(connection: Connection[DictRow], now: datetime, limit: timedelta) -> Moment:
    """The moment as this transaction sees it; `limit` is how old what is known may be."""
    row = connection.execute(
        _MOMENT, {"oldest": now - limit, "newest": now + limit, "directories": sorted(DIRECTORIES)}
    ).fetchone()
    assert row is not None
    return Moment(
        epoch=int(row["epoch"]),
        fresh=frozenset(row["fresh"]),
        directory=row["directory"],
        lapsed=frozenset(Principal(x) for x in row["lapsed"]),
        unlisted=frozenset(row["unlisted"]),
        open=frozenset(Principal(x) for x in row["open"]),
    )
