"""The one place that builds access filters, and the look at what is about to be sent."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
import qdrant_edge as edge
from qdrant_client import models

from core.errors import InvariantError
from core.index import filters as f
from core.items import Source
from tests.contract import index_world as w

DIALECTS = [f.EdgeDialect(), f.ServerDialect()]


@pytest.fixture(params=DIALECTS, ids=["edge", "server"])
def dialect(request: pytest.FixtureRequest) -> f.Dialect:
    return request.param  # type: ignore[no-any-return]


def request_of(dialect: f.Dialect, filter: Any, *, corpus: Any = None, prefetch: Any = None) -> Any:
    """A request of either engine with this filter, and around it what is named."""
    if isinstance(dialect, f.EdgeDialect):
        idf = edge.IdfParams(corpus=corpus) if corpus is not None else None
        prefetches = [edge.Prefetch(limit=1, filter=prefetch)] if prefetch is not None else None
        return edge.QueryRequest(limit=1, filter=filter, params=edge.SearchParams(idf=idf), prefetches=prefetches)
    params = models.SearchParams(idf=models.IdfCorpusParams(corpus=corpus)) if corpus is not None else None
    nested = [models.Prefetch(prefetch=[models.Prefetch(filter=prefetch)], filter=filter)] if prefetch else None
    return models.QueryRequest(filter=filter, params=params, prefetch=nested)


def empty(dialect: f.Dialect) -> Any:
    return edge.Filter() if isinstance(dialect, f.EdgeDialect) else models.Filter()


def test_a_filter_that_names_nobody_is_never_built(dialect: f.Dialect) -> None:
    with pytest.raises(InvariantError):
        f.readable(dialect, w.trim(""))
    with pytest.raises(InvariantError):
        f.readable(dialect, w.trim("a"), f.Narrowing(ids=frozenset()))


def test_a_filter_for_writing_names_what_it_is_for(dialect: f.Dialect) -> None:
    for build in (
        lambda: f.of_items(dialect, []),
        lambda: f.of_items(dialect, [""]),
        lambda: f.of_scope(dialect, ""),  # type: ignore[arg-type]
        lambda: f.left_behind(dialect, "", []),
    ):
        with pytest.raises(InvariantError):
            build()


def test_whatever_is_narrowed_the_access_rule_stands(dialect: f.Dialect) -> None:
    trim = w.trim("ab", blocked=["s1", "s2"])
    narrowings = [
        f.EVERYWHERE,
        f.Narrowing(sources=(Source.CODE,), uris=("ctx://x",), created_until=5),
        f.Narrowing(ids=frozenset({UUID(int=1)})),
    ]
    for narrowing in narrowings:
        found = f.readable(dialect, trim, narrowing)
        f.assert_trimmed(request_of(dialect, found, corpus=f.readable(dialect, trim), prefetch=found), trim)


def test_a_request_without_the_rule_anywhere_is_stopped(dialect: f.Dialect) -> None:
    trim = w.trim("ab", blocked=["s1"])
    good = f.readable(dialect, trim)
    other = f.readable(dialect, w.trim("b", blocked=["s1"]))
    unblocked = f.readable(dialect, w.trim("ab"))
    broken = [
        request_of(dialect, None),
        request_of(dialect, empty(dialect)),
        request_of(dialect, other),
        request_of(dialect, unblocked),
        request_of(dialect, good, corpus=empty(dialect)),
        request_of(dialect, good, corpus=other),
        request_of(dialect, good, prefetch=unblocked),
        request_of(dialect, f.of_items(dialect, ["ctx://x"])),
    ]
    for request in broken:
        with pytest.raises(InvariantError):
            f.assert_trimmed(request, trim)
    f.assert_trimmed(request_of(dialect, good), trim)
