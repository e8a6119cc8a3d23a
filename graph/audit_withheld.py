"""Questions that wait to be looked into, and what was found withheld from their answers: the audit plane's own.

A question goes in the transaction that stores what came of it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg import Connection
from psycopg.rows import DictRow

from core.access import ScopeId
from core.items import Source
from core.principals import Principal
from core.spaces import Space
from graph.audit_reading import Withheld
from graph.db import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingQuestion:
    """A question in full, with what its entry says of the answer. `epochs` are those under which access was checked;
    `spaces` is the policy of an application that asked on its own."""

    seq: int
    asker: Principal
    question: str
    as_of: datetime | None
    focus: tuple[str, ...]
    spaces: frozenset[Space] | None
    uris: frozenset[str]
    epochs: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveItem:
    """What of an item says who may read it, and its title."""

    uri: str
    source: Source
    scope: ScopeId
    label: str | None
    title: str


class QuestionStore:
    """Waiting questions. Raises StoreUnavailableError where Postgres does not answer."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def waiting(self, *, after: int, most: int) -> list[WaitingQuestion]:
        """The next of them behind entry `after`, the oldest first."""
        with self._db.connection() as connection:
            rows = connection.execute(
                "SELECT q.seq, a.asker, q.question, q.as_of, q.focus, q.spaces, a.uris, a.checks "
                "FROM audit_questions q JOIN audit a USING (seq) WHERE seq > %s ORDER BY seq LIMIT %s",
                [after, most],
            ).fetchall()
        return [
            WaitingQuestion(
                seq=r["seq"],
                asker=Principal(r["asker"]),
                question=r["question"],
                as_of=r["as_of"],
                focus=tuple(r["focus"]),
                spaces=frozenset(Space(s) for s in r["spaces"]) if r["spaces"] is not None else None,
                uris=frozenset(r["uris"]),
                epochs=frozenset(int(c["epoch"]) for c in r["checks"]),
            )
            for r in rows
        ]

    def settle(
        self,
        seq: int,
        outcome: str,
        *,
        epoch: int | None = None,
        same_epoch: bool | None = None,
        looked_at: int = 0,
        withheld: Sequence[Withheld] = (),
    ) -> None:
        """Store what came of a question, and remove it. Nothing is done where it is gone: it has expired, or another
        process was faster."""

        def work(connection: Connection[DictRow]) -> None:
            if connection.execute("DELETE FROM audit_questions WHERE seq = %s", [seq]).rowcount == 0:
                return
            connection.execute(
                "INSERT INTO audit_examinations (seq, outcome, epoch, same_epoch, looked_at, withheld) "
                "VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
                [seq, outcome, epoch, same_epoch, looked_at, len(withheld)],
            )
            for one in withheld:
                connection.execute(
                    "INSERT INTO audit_withheld (seq, rank, uri, source, scope, relevance, bars, gates) "
                    "VALUES (%s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
                    [seq, one.rank, one.uri, one.source, one.scope, one.relevance, list(one.bars), list(one.gates)],
                )

        self._db.retrying(work)

    def forget_expired(self) -> int:
        """Remove questions that have waited for too long, and note that; how many there were."""
        return forget_expired(self._db)

    def items(self, uris: Collection[str]) -> dict[str, LiveItem]:
        """Those of these items that are there for whoever may read them, by address."""
        with self._db.connection() as connection:
            rows = connection.execute(
                "SELECT uri, source, scope, label, title FROM items WHERE shown AND uri = ANY(%s)", [sorted(uris)]
            ).fetchall()
        return {
            r["uri"]: LiveItem(
                uri=r["uri"],
                source=Source(r["source"]),
                scope=ScopeId(r["scope"]),
                label=r["label"],
                title=r["title"],
            )
            for r in rows
        }


def forget_expired(db: Database) -> int:
    """See `QuestionStore.forget_expired`. For the ingestion plane's upkeep, too, so that it does not hang on one
    process alone."""
    with db.connection() as connection:
        row = connection.execute("SELECT audit_forget_questions() AS n").fetchone()
    return int(row["n"]) if row is not None else 0
