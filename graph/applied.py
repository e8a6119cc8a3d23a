"""Snapshots of access that would change nothing, so that the same one need not be compared with the tables again.

Only the record itself vouches for it: a digest stands there only as long as nothing was written to the tables that the
snapshot speaks of, by whatever process or hand. Triggers see to that, under the lock of whoever compares.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable
from typing import Any, Final, Literal

from psycopg import Connection
from psycopg.rows import DictRow

from core.access import Scope
from core.directory import Container, DirectoryPerson

Part = Literal["directory", "scopes"]

# A connector's snapshots of several kinds (all of it, memberships alone, a few places) take turns.
_KEPT: Final = 8
_NOTE: Final = """
    INSERT INTO applied_snapshots (part, source, digest) VALUES (%(part)s, %(source)s, %(digest)s)
    ON CONFLICT DO NOTHING
"""
_DROP: Final = """
    DELETE FROM applied_snapshots WHERE part = %(part)s AND source = %(source)s AND id <= (
        SELECT id FROM applied_snapshots WHERE part = %(part)s AND source = %(source)s
        ORDER BY id DESC OFFSET %(kept)s LIMIT 1
    )
"""


def would_change_nothing(connection: Connection[DictRow], part: Part, source: str, digest: str) -> bool:
    """Whether the tables are known to be what the snapshot of that digest makes of them. The caller holds the lock of
    the part, and writes in this transaction."""
    found = connection.execute(
        "SELECT 1 FROM applied_snapshots WHERE part = %s AND source = %s AND digest = %s", [part, source, digest]
    ).fetchone()
    return found is not None


def note_applied(connection: Connection[DictRow], part: Part, source: str, digest: str) -> None:
    """The tables are what that snapshot makes of them: the last statement before the transaction's end."""
    values = {"part": part, "source": source, "digest": digest, "kept": _KEPT}
    connection.execute(_NOTE, values)
    connection.execute(_DROP, values)


def directory_digest(
    people: Iterable[DirectoryPerson], containers: Iterable[Container], *, complete: bool, kinds: Collection[str] | None
) -> str:
    """Differs wherever two snapshots of a directory say something else, or prune otherwise."""
    return _digest(
        [complete, None if kinds is None else sorted(kinds)],
        [
            [p.principal, p.name, p.kind, p.enabled, p.upn, p.title, p.department, p.manager]
            for p in sorted(people, key=lambda p: p.principal)
        ],
        [
            [c.principal, c.name, c.kind, None if c.members is None else sorted(c.members), c.partial]
            for c in sorted(containers, key=lambda c: c.principal)
        ],
    )


def scopes_digest(scopes: Iterable[Scope], *, complete: bool) -> str:
    """Differs wherever two lists of scopes say something else, or close otherwise."""
    return _digest(
        complete,
        [
            [s.id, s.source, s.kind, s.name, s.acl.to_json(), s.label, sorted(s.attributes.items())]
            for s in sorted(scopes, key=lambda s: s.id)
        ],
    )


def _digest(*facts: Any) -> str:
    text = json.dumps(facts, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
