"""The one place that builds filters: what an asker may read, for Qdrant Edge and for qdrant-client alike.

Qdrant's filters fail open: an empty filter, or an empty list in one, matches everything. So every filter of ours is
built here, always with a `must` that names principals, and `assert_trimmed` looks at what is about to be sent: the
access rule stands at the root of a request, in each of its prefetches, and around its document frequencies.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol
from uuid import UUID

from core.access import LateBinding, ScopeId, Trim, Unconfirmed
from core.errors import InvariantError
from core.items import Source

ALLOWED: Final = "allowed"
SCOPE: Final = "scope"
URI: Final = "uri"
SOURCE: Final = "source"
KIND: Final = "kind"
LABEL: Final = "label"
CREATED_AT: Final = "created_at"

KEYWORD_FIELDS: Final = (ALLOWED, SCOPE, URI, SOURCE, KIND, LABEL)
# No label is spelt like this: a list of labels with it in is never empty, and an empty one is read as no condition.
_NO_LABEL: Final = "\x1f"
INTEGER_FIELDS: Final = (CREATED_AT,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowing:
    """Where to look among what may be read. An empty field narrows nothing; `created_until` leaves out what has no
    time of creation, since nobody can say that it existed."""

    sources: tuple[Source, ...] = ()
    uris: tuple[str, ...] = ()
    created_until: int | None = None
    ids: frozenset[UUID] | None = None


EVERYWHERE: Final = Narrowing()


class Dialect(Protocol):
    """How one engine spells conditions."""

    def any_of(self, key: str, values: Sequence[str]) -> Any:
        """The field holds one of the values."""
        ...

    def other_than(self, key: str, values: Sequence[str]) -> Any:
        """The field holds something, and none of these values."""
        ...

    def at_most(self, key: str, value: int) -> Any:
        """The field holds a number up to `value`; a point without one does not match."""
        ...

    def has_id(self, ids: Iterable[UUID]) -> Any:
        """The point is one of these."""
        ...

    def all_of(self, must: list[Any], must_not: list[Any]) -> Any:
        """Every `must` holds and no `must_not`."""
        ...


class EdgeDialect:
    """Conditions of qdrant-edge-py."""

    def __init__(self) -> None:
        import qdrant_edge

        self._q = qdrant_edge

    def any_of(self, key: str, values: Sequence[str]) -> Any:
        """See Dialect."""
        return self._q.FieldCondition(key, match=self._q.MatchAny(list(values)))

    def other_than(self, key: str, values: Sequence[str]) -> Any:
        """See Dialect."""
        return self._q.FieldCondition(key, match=self._q.MatchExcept(list(values)))

    def at_most(self, key: str, value: int) -> Any:
        """See Dialect."""
        return self._q.FieldCondition(key, range=self._q.RangeFloat(lte=value))

    def has_id(self, ids: Iterable[UUID]) -> Any:
        """See Dialect."""
        return self._q.HasIdCondition(set(ids))

    def all_of(self, must: list[Any], must_not: list[Any]) -> Any:
        """See Dialect."""
        return self._q.Filter(must=must, must_not=must_not or None)


class ServerDialect:
    """Conditions of qdrant-client."""

    def __init__(self) -> None:
        from qdrant_client import models

        self._q = models

    def any_of(self, key: str, values: Sequence[str]) -> Any:
        """See Dialect."""
        return self._q.FieldCondition(key=key, match=self._q.MatchAny(any=list(values)))

    def other_than(self, key: str, values: Sequence[str]) -> Any:
        """See Dialect."""
        return self._q.FieldCondition(key=key, match=self._q.MatchExcept(**{"except": list(values)}))

    def at_most(self, key: str, value: int) -> Any:
        """See Dialect."""
        return self._q.FieldCondition(key=key, range=self._q.Range(lte=value))

    def has_id(self, ids: Iterable[UUID]) -> Any:
        """See Dialect."""
        return self._q.HasIdCondition(has_id=sorted(str(x) for x in ids))

    def all_of(self, must: list[Any], must_not: list[Any]) -> Any:
        """See Dialect."""
        return self._q.Filter(must=must, must_not=must_not or None)


def readable(dialect: Dialect, trim: Trim, narrowing: Narrowing = EVERYWHERE) -> Any:
    """Return the filter of what the trim lets through, narrowed. Raises InvariantError where it names nobody."""
    return _rule(dialect, trim, narrowing, [], _unverified(dialect, trim.late) if trim.late is not None else [])


def to_confirm(dialect: Dialect, unconfirmed: Unconfirmed, narrowing: Narrowing = EVERYWHERE) -> Any:
    """Return the filter of what the rule lets through and its source is still to be asked about. Raises
    InvariantError where it names nobody."""
    return _rule(dialect, unconfirmed.trim, narrowing, [_late_label(dialect, unconfirmed.free)], [])


def _rule(dialect: Dialect, trim: Trim, narrowing: Narrowing, also: list[Any], never: list[Any]) -> Any:
    if not trim.matching:
        raise InvariantError("an access filter names at least one principal")
    must = [dialect.any_of(ALLOWED, trim.matching), *also]
    if narrowing.sources:
        must.append(dialect.any_of(SOURCE, narrowing.sources))
    if narrowing.uris:
        must.append(dialect.any_of(URI, narrowing.uris))
    if narrowing.created_until is not None:
        must.append(dialect.at_most(CREATED_AT, narrowing.created_until))
    if narrowing.ids is not None:
        if not narrowing.ids:
            raise InvariantError("a filter by ids names at least one id")
        must.append(dialect.has_id(narrowing.ids))
    return dialect.all_of(must, [*([dialect.any_of(SCOPE, trim.blocked)] if trim.blocked else []), *never])


def _late_label(dialect: Dialect, free: Sequence[str]) -> Any:
    """The label is one that asks for the source's word."""
    return dialect.other_than(LABEL, (*free, _NO_LABEL))


def _unverified(dialect: Dialect, late: LateBinding) -> list[Any]:
    """What must not match: a label that asks for the source's word, on an item that it did not confirm."""
    confirmed = [dialect.any_of(URI, sorted(late.verified))] if late.verified else []
    return [dialect.all_of([_late_label(dialect, late.free)], confirmed)]


def of_items(dialect: Dialect, uris: Sequence[str]) -> Any:
    """Return the filter of all points of these items, for writing. Raises InvariantError where it names none."""
    return dialect.all_of([dialect.any_of(URI, _some(uris))], [])


def of_source(dialect: Dialect, source: Source) -> Any:
    """Return the filter of all points of a source, for comparing the index with the record."""
    return dialect.all_of([dialect.any_of(SOURCE, (source.value,))], [])


def left_behind(dialect: Dialect, uri: str, kept: Iterable[UUID]) -> Any:
    """Return the filter of an item's points other than `kept`, for writing."""
    kept = frozenset(kept)
    return dialect.all_of([dialect.any_of(URI, _some((uri,)))], [dialect.has_id(kept)] if kept else [])


def of_scope(dialect: Dialect, scope: ScopeId, ids: Iterable[UUID] | None = None) -> Any:
    """Return the filter of all points of a scope, or of those among `ids`, for writing."""
    among = [dialect.has_id(ids)] if ids is not None else []
    return dialect.all_of([dialect.any_of(SCOPE, _some((scope,))), *among], [])


def assert_trimmed(request: Any, trim: Trim) -> None:
    """Raise InvariantError unless `request` (either engine's) carries the access rule at its root, in every prefetch
    at any depth, and as the corpus of its document frequencies."""
    _assert_filter(getattr(request, "filter", None), trim)
    corpus = getattr(getattr(getattr(request, "params", None), "idf", None), "corpus", None)
    if corpus is not None:
        _assert_filter(corpus, trim)
    prefetches = getattr(request, "prefetches", None) or getattr(request, "prefetch", None) or []
    for prefetch in prefetches if isinstance(prefetches, list) else [prefetches]:
        assert_trimmed(prefetch, trim)


def _assert_filter(found: Any, trim: Trim) -> None:
    _assert_rule(found, trim)
    if trim.late is not None and not any(_keeps_out(c, trim.late) for c in found.must_not or []):
        raise InvariantError("a search whose filter lets through what its source did not confirm")


def _assert_rule(found: Any, trim: Trim) -> None:
    if found is None or not trim.matching:
        raise InvariantError("a search without an access filter")
    if found.should is not None or found.min_should is not None:
        raise InvariantError("an access filter has no alternatives")
    if not any(_named(c, ALLOWED) == frozenset(trim.matching) for c in found.must or []):
        raise InvariantError("a search whose filter does not name the asker's principals")
    if trim.blocked and not any(_named(c, SCOPE) == frozenset(trim.blocked) for c in found.must_not or []):
        raise InvariantError("a search whose filter lets blocked scopes through")


def assert_unconfirmed(request: Any, unconfirmed: Unconfirmed) -> None:
    """Raise InvariantError unless `request` carries the access rule, and finds nothing but what is to be confirmed."""
    found: Any = getattr(request, "filter", None)
    _assert_rule(found, unconfirmed.trim)
    if not any(_excepts(c, LABEL) == frozenset((*unconfirmed.free, _NO_LABEL)) for c in found.must or []):
        raise InvariantError("a search for late binding that finds other things too")


def _keeps_out(condition: Any, late: LateBinding) -> bool:
    """Whether a condition that must not hold is: such a label, and none of the confirmed addresses."""
    must, must_not = getattr(condition, "must", None) or [], getattr(condition, "must_not", None) or []
    if getattr(condition, "should", None) is not None or len(must) != 1 or len(must_not) > 1:
        return False
    named = _named(must_not[0], URI) if must_not else frozenset[str]()
    return _excepts(must[0], LABEL) == frozenset((*late.free, _NO_LABEL)) and named == late.verified


def _excepts(condition: Any, key: str) -> frozenset[str]:
    """The values that a match-except condition on `key` leaves out; none where it is another condition."""
    match = getattr(condition, "match", None)
    if getattr(condition, "key", None) != key or "Except" not in type(match).__name__:
        return frozenset()
    values = getattr(match, "except_", None) or getattr(match, "value", None)
    return frozenset(values) if isinstance(values, list) else frozenset()


def _named(condition: Any, key: str) -> frozenset[str]:
    """The values that a match-any condition on `key` names; none where it is another condition."""
    if getattr(condition, "key", None) != key:
        return frozenset()
    match = getattr(condition, "match", None)
    if "Except" in type(match).__name__:
        return frozenset()
    values = getattr(match, "any", None) or getattr(match, "value", None)
    return frozenset(values) if isinstance(values, list) else frozenset()


def _some(values: Sequence[str]) -> Sequence[str]:
    if not values or not all(values):
        raise InvariantError("a filter for writing names what it is for")
    return values
