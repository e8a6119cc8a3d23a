"""One row a scope: how a rule is written down, and what a point of the scope must carry after it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from psycopg import Connection
from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from core.access import NOBODY, Scope, ScopeAcl, ScopeId
from core.principals import Principal
from core.spaces import Space, spaces_of
from graph.db import clean, clean_json


@dataclass(frozen=True, slots=True)
class ScopeChange:
    """What `apply` made of one scope: who an allow names now, under which version, and whether that is new. `renamed`:
    what it is called or lies in is new, on which policies of applications hang."""

    scope_id: ScopeId
    allowed: tuple[Principal, ...]
    acl_version: int
    changed: bool
    renamed: bool = False


def write_scope(
    connection: Connection[DictRow], source: str, scope: Scope, row: DictRow | None, at: datetime
) -> ScopeChange:
    """Insert or update the row of a scope; `row` is what is known of it (None: new)."""
    allowed = tuple(sorted(scope.acl.allowed_principals()))
    attributes = clean_json(dict(scope.attributes))
    values = {
        "id": scope.id,
        "origin": source,
        "source": scope.source,
        "kind": scope.kind,
        "name": clean(scope.name),
        "label": scope.label,
        "attributes": Jsonb(attributes),
        "acl": Jsonb(scope.acl.to_json()),
        "acl_digest": scope.acl.digest,
        "allowed": list(allowed),
        "denied": sorted(scope.acl.denied_principals()),
        "at": at,
    }
    if row is None:
        # Nothing of the scope is in the index yet, but items may come before the first payload rewrite.
        connection.execute(_INSERT, values)
        return ScopeChange(scope.id, allowed, 1, True)
    if row["acl_digest"] == values["acl_digest"]:
        renamed = _described(row) != (scope.source, scope.kind, values["name"], scope.label, attributes)
        if renamed:
            connection.execute(_DESCRIBE, values)
        return ScopeChange(scope.id, allowed, row["acl_version"], False, renamed)
    updated = connection.execute(_UPDATE, values).fetchone()
    assert updated is not None
    return ScopeChange(scope.id, allowed, updated["acl_version"], True)


def _described(row: DictRow) -> tuple[Any, ...]:
    return (row["source"], row["kind"], row["name"], row["label"], row["attributes"])


def closed(row: DictRow) -> Scope:
    """A scope that its source no longer lists, as it is kept: nobody's."""
    return Scope(
        id=ScopeId(row["id"]),
        source=row["source"],
        kind=row["kind"],
        name=row["name"],
        acl=NOBODY,
        label=row["label"],
        attributes=row["attributes"],
    )


_INSERT: Final = """
    INSERT INTO scopes (id, origin, source, kind, name, label, attributes, acl, acl_digest, acl_version, allowed,
        denied, indexed_allowed, changed_at)
    VALUES (%(id)s, %(origin)s, %(source)s, %(kind)s, %(name)s, %(label)s, %(attributes)s, %(acl)s, %(acl_digest)s, 1,
        %(allowed)s, %(denied)s, %(allowed)s, %(at)s)
"""

_DESCRIBE: Final = """
    UPDATE scopes SET source = %(source)s, kind = %(kind)s, name = %(name)s, label = %(label)s,
        attributes = %(attributes)s
    WHERE id = %(id)s
"""

# Points may carry any list of names that was current since the last full rewrite: they stay remembered until then.
_UPDATE: Final = """
    UPDATE scopes SET source = %(source)s, kind = %(kind)s, name = %(name)s, label = %(label)s,
        attributes = %(attributes)s, acl = %(acl)s, acl_digest = %(acl_digest)s, denied = %(denied)s,
        allowed = %(allowed)s,
        indexed_allowed = ARRAY(SELECT DISTINCT x FROM unnest(indexed_allowed || allowed || %(allowed)s::text[]) x),
        acl_version = acl_version + 1, changed_at = %(at)s
    WHERE id = %(id)s RETURNING acl_version
"""


def spaces_of_row(row: DictRow) -> frozenset[Space]:
    """The spaces that the scope of a row lies in."""
    return spaces_of(
        scope=row["id"], source=row["source"], kind=row["kind"], name=row["name"], attributes=row["attributes"]
    )


def names_of(names: Iterable[str]) -> tuple[Principal, ...]:
    """A column of principals."""
    return tuple(Principal(x) for x in names)


def scope_of(row: DictRow) -> Scope:
    """The scope that a row holds."""
    return Scope(
        id=ScopeId(row["id"]),
        source=row["source"],
        kind=row["kind"],
        name=row["name"],
        acl=ScopeAcl.from_json(row["acl"]),
        label=row["label"],
        attributes=row["attributes"],
    )
