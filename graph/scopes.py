"""Scopes and their exact rules; works out what one asker may read, and is the only issuer of a Trim.

A rule is one row: a revocation is obeyed by the next question, before any point in the index was rewritten. What else
keeps a scope shut is in `graph.standing` and `graph.moment`: permissions or a directory that were read longer ago than
the revocation limit, a deny that names a container whose members are not fully known, and having gone from its source.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from psycopg import Connection
from psycopg.rows import DictRow

from core.access import Scope, ScopeAcl, ScopeId, Trim, Verified, issue_trim
from core.clock import Clock, SystemClock
from core.errors import InvariantError
from core.principals import Principal, PrincipalSet
from graph.applied import note_applied, scopes_digest, would_change_nothing
from graph.db import Database
from graph.directory import unresolved_in
from graph.epoch import move_epoch, read_epoch, read_identity
from graph.leases import still_held
from graph.moment import Moment, moment_of
from graph.scope_rows import ScopeChange as ScopeChange
from graph.scope_rows import closed, names_of, scope_of, write_scope
from graph.standing import Standing, bars

CACHED_TRIMS: Final = 1024
_CACHED_RULES: Final = 8192
_APPLY_LOCK: Final = 0x73636F706573


@dataclass(frozen=True, slots=True)
class ScopeAccess:
    """What a point of the scope must carry."""

    allowed: tuple[Principal, ...]
    acl_version: int


@dataclass(frozen=True, slots=True)
class _Opened:
    """What a set of principals is let into, for whoever of them asks: it keeps nobody's proof, and nobody's token."""

    matching: tuple[Principal, ...]
    blocked: tuple[ScopeId, ...]
    readable: tuple[ScopeId, ...]


class ScopeStore:
    """Scopes. `revocation_limit` is how old the permissions of a source may be before its scopes close; `free_labels`,
    where late binding is on, are the labels whose items need no word of their source."""

    def __init__(
        self,
        db: Database,
        *,
        revocation_limit: timedelta,
        wall_clock: Clock | None = None,
        free_labels: tuple[str, ...] | None = None,
    ) -> None:
        self._db = db
        self._limit = revocation_limit
        self._free_labels = free_labels
        self._clock = wall_clock or SystemClock()
        self._opened: OrderedDict[tuple[str, frozenset[str] | None, Moment], _Opened] = OrderedDict()
        self._rules: dict[str, ScopeAcl] = {}
        self._digested: tuple[tuple[Scope, ...], bool, str] | None = None
        self._record_id: str | None = None
        self._lock = threading.Lock()

    def apply(self, source: str, scopes: Sequence[Scope], *, complete: bool, at: datetime) -> list[ScopeChange]:
        """Take over the scopes that `source` (a connector) lists, in one transaction.

        `complete`: scopes of it that are not listed are nobody's from now on. Otherwise they stay as they are.
        Returns what became of every scope listed or closed, in order of id; nothing where the record is known to hold
        just that, and was not compared. Raises InvariantError where another source has a scope of that id, and
        LeaseLostError where the lease was lost under which they were read.
        """
        digest = self._digest_of(scopes, complete)
        listed = {s.id: s for s in scopes}

        def work(connection: Connection[DictRow]) -> list[ScopeChange]:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [_APPLY_LOCK])
            still_held(connection)
            if would_change_nothing(connection, "scopes", source, digest):
                return []
            rows = connection.execute(
                "SELECT id, origin, source, kind, name, label, attributes, acl_digest, acl_version FROM scopes "
                "WHERE origin = %s OR id = ANY(%s)",
                [source, sorted(listed)],
            ).fetchall()
            known = {ScopeId(r["id"]): r for r in rows}
            changes = []
            for scope_id in sorted(listed.keys() | known.keys()):
                row, scope = known.get(scope_id), listed.get(scope_id)
                if row is not None and row["origin"] != source:
                    raise InvariantError(f"scope {scope_id} belongs to {row['origin']}, not to {source}")
                if scope is not None:
                    changes.append(write_scope(connection, source, scope, row, at))
                elif complete and row is not None:
                    changes.append(write_scope(connection, source, closed(row), row, at))
            note_applied(connection, "scopes", source, digest)
            if any(c.changed or c.renamed for c in changes):
                move_epoch(connection)
            return changes

        return self._db.retrying(work)

    def touch(self, source: str, at: datetime) -> None:
        """A pass over the permissions of `source` came to a good end at `at` (wall clock)."""
        with self._db.connection() as connection:
            connection.execute(
                "INSERT INTO permission_syncs (source, at) VALUES (%s, %s) "
                # Not the later of the two: a time that a clock which ran ahead has left would stand until then.
                "ON CONFLICT (source) DO UPDATE SET at = excluded.at",
                [source, at],
            )

    def ages(self) -> dict[str, datetime | None]:
        """When the permissions of each source were last read to their end; None: never."""
        with self._db.connection() as connection:
            rows = connection.execute(
                "SELECT source, s.at FROM (SELECT origin AS source FROM scopes UNION SELECT source FROM "
                "permission_syncs) known LEFT JOIN permission_syncs s USING (source) ORDER BY source"
            ).fetchall()
        return {r["source"]: r["at"] for r in rows}

    def pending(self) -> list[tuple[ScopeId, tuple[Principal, ...], int]]:
        """Scopes whose rule has not reached the index: id, who to write there, and under which version."""
        with self._db.connection() as connection:
            rows = connection.execute(
                "SELECT id, allowed, acl_version FROM scopes WHERE indexed_version <> acl_version ORDER BY id"
            ).fetchall()
        return [(ScopeId(r["id"]), names_of(r["allowed"]), r["acl_version"]) for r in rows]

    def mark_indexed(self, scope_id: ScopeId, acl_version: int) -> None:
        """Every point of the scope carries the rule of that version. Says nothing where the rule moved on meanwhile:
        it stays pending, and whoever may still stand in the index stays remembered."""
        with self._db.connection() as connection:
            connection.execute(
                "UPDATE scopes SET indexed_version = acl_version, indexed_allowed = allowed "
                "WHERE id = %s AND acl_version = %s",
                [scope_id, acl_version],
            )

    def get(self, scope_id: ScopeId) -> Scope | None:
        """The scope with its rule; None where there is none of that id."""
        with self._db.connection() as connection:
            row = connection.execute("SELECT * FROM scopes WHERE id = %s", [scope_id]).fetchone()
        return scope_of(row) if row is not None else None

    def acls(self, ids: Iterable[ScopeId]) -> dict[ScopeId, ScopeAcl]:
        """Rules by scope; a scope that is not there is left out (nobody's)."""
        with self._db.connection() as connection:
            rows = connection.execute("SELECT id, acl FROM scopes WHERE id = ANY(%s)", [sorted(ids)]).fetchall()
        return {ScopeId(r["id"]): ScopeAcl.from_json(r["acl"]) for r in rows}

    def access_of(self, scope_id: ScopeId) -> ScopeAccess | None:
        """What a point of the scope must carry now; None where there is no such scope."""
        with self._db.connection() as connection:
            row = connection.execute("SELECT allowed, acl_version FROM scopes WHERE id = %s", [scope_id]).fetchone()
        return ScopeAccess(names_of(row["allowed"]), row["acl_version"]) if row else None

    def epoch(self) -> int:
        """The access epoch: moves with every change of rules, memberships and what is deleted."""
        with self._db.connection() as connection:
            return read_epoch(connection)

    def record_id(self) -> str:
        """Which record this is: epochs of two databases say nothing of each other."""
        with self._lock:
            known = self._record_id
        if known is None:
            with self._db.connection() as connection:
                known = read_identity(connection)
            with self._lock:
                self._record_id = known
        return known

    def snapshot(self) -> AbstractContextManager[None]:
        """One moment for all that this thread reads of the database inside the block (see `Database.reading`)."""
        return self._db.reading()

    def trim_for(self, principals: PrincipalSet, verified: Verified | None = None) -> Trim:
        """Work out what the asker may read, all of it from one snapshot of the database. Where late binding is on,
        items that need their source's word are let through only where `verified` holds it.

        An application on its own is let into the spaces of its policy and no others, whatever else it was granted.
        Cached by principal set, policy and moment (the epoch, and what is fresh enough right now), so neither a change
        nor the mere passing of time is missed. Raises StoreUnavailableError.
        """
        with self._db.reading(), self._db.connection() as connection:
            moment = moment_of(connection, self._clock.now(), self._limit)
            key = (principals.digest, principals.asker.spaces, moment)
            with self._lock:
                opened = self._opened.get(key)
            if opened is None:
                opened = self._work_out(connection, principals, moment)
        with self._lock:
            self._opened[key] = opened
            self._opened.move_to_end(key)
            while len(self._opened) > CACHED_TRIMS:
                self._opened.popitem(last=False)
        # The same set may come through another agent: the proof is made for whoever asks now.
        return issue_trim(
            principals,
            matching=opened.matching,
            blocked=opened.blocked,
            readable=opened.readable,
            epoch=moment.epoch,
            free_labels=self._free_labels,
            verified=verified,
        )

    def standing(
        self, scope_id: ScopeId, mine: frozenset[Principal], *, spaces: frozenset[str] | None = None
    ) -> Standing | None:
        """How a scope stands to whoever counts as `mine`, for explanations: judged as for a Trim, and proof of
        nothing. `spaces` is the policy of an application on its own; None: a person. None where there is no such
        scope. Raises StoreUnavailableError."""
        with self._db.reading(), self._db.connection() as connection:
            row = connection.execute(
                "SELECT s.*, p.at AS read_at FROM scopes s LEFT JOIN permission_syncs p ON p.source = s.origin "
                "WHERE s.id = %s",
                [scope_id],
            ).fetchone()
            if row is None:
                return None
            moment = moment_of(connection, self._clock.now(), self._limit)
            unresolved = unresolved_in(connection) | moment.open
        scope = scope_of(row)
        return Standing(
            scope=scope,
            origin=row["origin"],
            bars=bars(row, scope.acl, mine, moment=moment, unresolved=unresolved, spaces=spaces),
            verdicts=scope.acl.explain(mine - moment.lapsed),
            read_at=row["read_at"],
            unread=tuple(sorted(unresolved.intersection(scope.acl.denied_principals()))),
            lapsed=tuple(sorted(mine & moment.lapsed)),
            indexed=row["indexed_version"] == row["acl_version"],
        )

    def _work_out(self, connection: Connection[DictRow], principals: PrincipalSet, moment: Moment) -> _Opened:
        mine = principals.principals
        unresolved = unresolved_in(connection) | moment.open
        # Whoever passes a rule is named by its `allowed`, so no other scope can be readable or match in the index.
        rows = connection.execute(
            "SELECT id, origin, source, kind, name, attributes, acl_digest, allowed, indexed_allowed, denied "
            "FROM scopes WHERE allowed && %(mine)s::text[] OR indexed_allowed && %(mine)s::text[]",
            {"mine": sorted(mine)},
        ).fetchall()
        readable: list[ScopeId] = []
        blocked: list[ScopeId] = []
        matching = set[str]()
        rules = self._known_rules(connection, {row["acl_digest"] for row in rows})
        for row in rows:
            matching.update(mine.intersection(row["allowed"]), mine.intersection(row["indexed_allowed"]))
            acl = rules[row["acl_digest"]]
            shut = bars(row, acl, mine, moment=moment, unresolved=unresolved, spaces=principals.asker.spaces)
            (blocked if shut else readable).append(ScopeId(row["id"]))
        return _Opened(tuple(Principal(x) for x in sorted(matching)), tuple(blocked), tuple(readable))

    def _digest_of(self, scopes: Sequence[Scope], complete: bool) -> str:
        """Their digest; not made again for the very tuple that the last one was made for."""
        with self._lock:
            last = self._digested
        if last is not None and last[0] is scopes and last[1] == complete:
            return last[2]
        digest = scopes_digest(scopes, complete=complete)
        if isinstance(scopes, tuple):
            with self._lock:
                self._digested = (scopes, complete, digest)
        return digest

    def _known_rules(self, connection: Connection[DictRow], digests: set[str]) -> dict[str, ScopeAcl]:
        """Rules by digest; only those that were never met before are fetched and read."""
        with self._lock:
            if len(self._rules) >= _CACHED_RULES:
                self._rules = {}
            known = dict(self._rules)
        unknown = digests - known.keys()
        if unknown:
            rows = connection.execute(
                "SELECT DISTINCT ON (acl_digest) acl_digest, acl FROM scopes WHERE acl_digest = ANY(%s)",
                [sorted(unknown)],
            ).fetchall()
            met = {row["acl_digest"]: ScopeAcl.from_json(row["acl"]) for row in rows}
            known |= met
            with self._lock:
                self._rules |= met
        return known
