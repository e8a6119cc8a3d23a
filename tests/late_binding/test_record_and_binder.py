"""Every trimmed reading of the record obeys late binding; the binder takes nobody's word for more than was asked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from itertools import combinations

import pytest

from context_engine.guards import labels_that_need_no_word
from context_engine.stores import Index
from core.access import Trim, Unconfirmed, issue_verified
from core.principals import PrincipalSet
from core.text.terms import term_key
from graph.edges import EdgeStore
from graph.glossary import GlossaryStore
from graph.records import ItemStore
from graph.scopes import ScopeStore
from graph.unconfirmed import ToConfirm, UnconfirmedItems
from query.bounded_pool import BoundedPool
from query.late_binding import LateBinder, Pace, Wanted
from tests.late_binding.conftest import Side
from tests.late_binding.harbour import on_behalf_of

LIMIT = timedelta(days=1)


@dataclass
class Stores:
    """The record of the organization, as late binding from Secret on sees it."""

    side: Side
    scopes: ScopeStore
    principals: PrincipalSet
    labels: dict[str, str | None]

    def trim(self, *verified: str) -> Trim:
        """Ben's trim, these items being confirmed."""
        word = issue_verified(self.principals, verified, asked=len(verified)) if verified else None
        return self.scopes.trim_for(self.principals, word)

    @property
    def secret(self) -> list[str]:
        """Addresses of what needs confirming."""
        return sorted(uri for uri, label in self.labels.items() if label == "Secret")

    def may_see(self, *verified: str) -> set[str]:
        """The rule, said naively: Ben's scopes hold all there is."""
        return {uri for uri, label in self.labels.items() if label != "Secret" or uri in verified}


@pytest.fixture
def stores(side: Side) -> Stores:
    engine = side.live.engine
    settings = engine.settings.model_copy(update={"late_binding": on_behalf_of(side.sandbox)})
    scopes = ScopeStore(engine.query_database, revocation_limit=LIMIT, free_labels=labels_that_need_no_word(settings))
    service = side.service()
    principals = service.resolver.resolve(side.asker(service, "ben"))
    with engine.database.connection() as connection:
        rows = connection.execute("SELECT uri, label FROM items WHERE shown").fetchall()
    return Stores(side, scopes, principals, {r["uri"]: r["label"] for r in rows})


def test_every_reading_of_the_record_lets_through_what_was_confirmed_and_nothing_else(stores: Stores) -> None:
    database = stores.side.live.engine.query_database
    items, edges, glossary = ItemStore(database), EdgeStore(database), GlossaryStore(database)
    every = sorted(stores.labels)
    assert len(stores.secret) >= 4
    for size in (0, 1, len(stores.secret)):
        for verified in list(combinations(stores.secret, size))[:4]:
            trim, may_see = stores.trim(*verified), stores.may_see(*verified)
            assert set(items.visible(trim, every)) == may_see
            assert {uri for uri in every if items.full(trim, uri) is not None} == may_see
            links = [*items.links_from(trim, every), *items.links_to(trim, every)]
            ends = {end for pair in links for end in pair[:2] if end in stores.labels}
            assert ends <= may_see
            assert {e.uri for e in edges.of_items(trim, every)} <= may_see
            assert {m.uri for m in glossary.meanings(trim, term_key("QCT"))} == {
                uri for uri in may_see if uri.endswith("/work-items/3")
            }
            assert {r.uri for r in items.find(trim, number="3")} == {u for u in may_see if u.endswith("/work-items/3")}


def test_what_is_to_be_confirmed_is_named_and_nothing_else(stores: Stores) -> None:
    found = UnconfirmedItems(stores.side.live.engine.query_database)
    asked = Unconfirmed(trim=stores.trim())
    assert [i.uri for i in found.some(asked, 100)] == stores.secret
    assert [i.uri for i in found.of(asked, sorted(stores.labels))] == stores.secret
    [third] = found.named(asked, ["3"], 10)
    assert third.endswith("/work-items/3")
    assert found.named(asked, ["1", "2", "Publish the quay crane tariff", "\x00"], 10) == []
    first = third.removesuffix("3") + "1"
    assert found.linked(asked, [first], 10) == [third]


@dataclass
class Said:
    """A source that says what it is told to."""

    says: Callable[[ToConfirm], bool]
    before: Callable[[], None] = lambda: None
    asked: list[str] = field(default_factory=list)

    def batches(self, items: Sequence[ToConfirm]) -> Sequence[Sequence[ToConfirm]]:
        """Each by itself."""
        return [(item,) for item in items]

    def confirmed(self, principals: PrincipalSet, batch: Sequence[ToConfirm], deadline: float) -> frozenset[str]:
        """What it was told, and something that nobody asked about."""
        self.asked += [item.uri for item in batch]
        self.before()
        return frozenset(item.uri for item in batch if self.says(item)) | {"ctx://ado/small/work-items/1000"}


@contextmanager
def binder(stores: Stores, source: Said, *, pace: Pace, threads: int = 8, waiting: int = 8) -> Iterator[LateBinder]:
    engine = stores.side.live.engine
    assert isinstance(engine.index, Index)
    pool = BoundedPool(threads, waiting=waiting, name="test-binder")
    yield LateBinder(
        scopes=stores.scopes,
        items=UnconfirmedItems(engine.query_database),
        index=engine.index.reader,
        verifier=source,
        pool=pool,
        pace=pace,
        most=100,
    )
    pool.close()


def test_a_source_confirms_what_it_was_asked_about_and_no_more(stores: Stores) -> None:
    source = Said(lambda item: item.uri == stores.secret[0])
    with binder(stores, source, pace=Pace(deadline=10, step=0.001)) as late:
        word = late.confirm(stores.principals, Wanted())
    assert word.uris == {stores.secret[0]}
    assert word.asked == len(stores.secret)
    assert sorted(source.asked) == stores.secret


def test_where_every_call_hangs_the_rest_is_refused_at_once_and_nothing_is_confirmed(stores: Stores) -> None:
    hangs = threading.Event()

    def hang() -> None:
        hangs.wait(30)

    source = Said(lambda _: True, before=hang)
    with binder(stores, source, pace=Pace(deadline=0.05, step=0.01), threads=1, waiting=1) as late:
        for _ in range(2):
            word = late.confirm(stores.principals, Wanted())
            assert word.uris == frozenset()
            assert word.asked == len(stores.secret)
        hangs.set()


class Moved:
    """A clock that the source moves on, and that a rest moves to its end."""

    def __init__(self) -> None:
        self.at, self.lock = 50.0, threading.Lock()

    def now(self) -> float:
        return self.at

    def move(self, seconds: float) -> None:
        with self.lock:
            self.at += seconds


@pytest.mark.parametrize("pace", [0.5, 2.0])
def test_a_yes_a_no_and_an_error_end_at_the_same_moment(stores: Stores, pace: float) -> None:
    ends = set()
    # A yes takes longer than a no.
    for says, takes in ((True, 0.09), (False, 0.01), (None, 0.0)):
        clock = Moved()
        source = Said(partial(_answer, says), before=partial(_pass_or_fail, clock, says, takes))
        with binder(stores, source, pace=Pace(deadline=2.0, step=pace, now=clock.now, sleep=clock.move)) as late:
            word = late.confirm(stores.principals, Wanted())
        assert bool(word.uris) is bool(says)
        ends.add(round(clock.at, 6))
    assert ends == {50.0 + pace}


def _answer(says: bool | None, _: ToConfirm) -> bool:
    return bool(says)


def _pass_or_fail(clock: Moved, says: bool | None, takes: float) -> None:
    clock.move(takes)
    if says is None:
        raise ConnectionError
