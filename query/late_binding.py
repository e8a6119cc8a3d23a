"""Late binding: from a label on, an item is confirmed by its source for this asker, for each question anew.

Before anything is searched, the items that the question might lead to are named (no more than their addresses and
places is read), their sources are asked about all of them at once, and the trim of the question lets through those that
were confirmed within the deadline. What was refused, failed, or did not answer in time is not there, for the search and
everything derived alike.

What is asked does not depend on any answer, nothing ends early, and the stage ends at a multiple of its pace: a no
takes as long as a yes.
"""

from __future__ import annotations

import logging
import math
import queue
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from core.access import Unconfirmed, Verified, issue_verified
from core.index.port import HybridQuery, IndexReader
from core.principals import PrincipalSet
from graph.scopes import ScopeStore
from graph.unconfirmed import ToConfirm, UnconfirmedItems
from query.bounded_pool import BoundedPool
from query.retrieve import Vectors

log = logging.getLogger(__name__)


class SourceVerifier(Protocol):
    """Asks the sources themselves."""

    def batches(self, items: Sequence[ToConfirm]) -> Sequence[Sequence[ToConfirm]]:
        """How to ask about these items: each batch by one call of `confirmed`, the same whatever the answers."""
        ...

    def confirmed(self, principals: PrincipalSet, batch: Sequence[ToConfirm], deadline: float) -> frozenset[str]:
        """Addresses of those that the asker may read now, by their source's own word.

        `deadline` is on the monotonic clock; a call should not last much longer. Any exception means: none.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a question might lead to: `uris` and `names` that it states, and its vectors, made when they are needed."""

    uris: Sequence[str] = ()
    names: Sequence[str] = ()
    vectors: Callable[[], Vectors] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """`deadline`: seconds for the sources to answer; `step`: the stage ends at a multiple of so many seconds."""

    deadline: float
    step: float
    now: Callable[[], float] = field(default=time.monotonic)
    sleep: Callable[[float], None] = field(default=time.sleep)

    def rest(self, started: float) -> None:
        """Wait for the next step after `started`."""
        passed = self.now() - started
        left = max(1, math.ceil(passed / self.step)) * self.step - passed
        if left > 0:
            self.sleep(left)


class LateBinder:
    """Asks sources about what a question might lead to. `most`: items that are asked about for one question."""

    def __init__(
        self,
        *,
        scopes: ScopeStore,
        items: UnconfirmedItems,
        index: IndexReader,
        verifier: SourceVerifier,
        pool: BoundedPool,
        pace: Pace,
        most: int,
    ) -> None:
        self._scopes, self._items, self._index = scopes, items, index
        self._verifier, self._pool = verifier, pool
        self._pace, self._most = pace, most

    def confirm(self, principals: PrincipalSet, wanted: Wanted) -> Verified:
        """Return the sources' word for this asker and this question. Raises StoreUnavailableError."""
        started = self._pace.now()
        try:
            # Let go of the snapshot before the sources are asked: the question gets a new one, and with it whatever
            # was learnt meanwhile.
            with self._scopes.snapshot():
                candidates = self._candidates(principals, wanted)
            confirmed = self._ask(principals, candidates)
        finally:
            self._pace.rest(started)
        return issue_verified(principals, confirmed, asked=len(candidates))

    def _candidates(self, principals: PrincipalSet, wanted: Wanted) -> list[ToConfirm]:
        """All items that need confirming, where they are few: then nothing among them has a say in whether another is
        asked about. Of many, those that are named, then those nearest to the question."""
        trim = self._scopes.trim_for(principals)
        if trim.sees_nothing:
            return []
        asked = Unconfirmed(trim=trim)
        some = self._items.some(asked, self._most + 1)
        if len(some) <= self._most:
            return some
        chosen = dict.fromkeys(self._items.named(asked, [*wanted.uris, *wanted.names], self._most))
        chosen |= dict.fromkeys(self._items.linked(asked, wanted.uris, self._most))
        if wanted.vectors is not None:
            vectors = wanted.vectors()
            query = HybridQuery(
                dense=vectors.dense, sparse=vectors.sparse, legs=(), created_until=vectors.created_until
            )
            chosen |= dict.fromkeys(self._index.nearest_unconfirmed(asked, query, self._most))
        return self._items.of(asked, list(chosen)[: self._most])

    def _ask(self, principals: PrincipalSet, candidates: Sequence[ToConfirm]) -> set[str]:
        deadline = self._pace.now() + self._pace.deadline
        answers: queue.SimpleQueue[frozenset[str] | None] = queue.SimpleQueue()
        batches = [tuple(batch) for batch in self._verifier.batches(candidates)] if candidates else []
        taken = sum(self._pool.submit(_Call(self, principals, batch, deadline, answers)) for batch in batches)
        confirmed = set[str]()
        silent = len(batches) - taken
        for answered in range(taken):
            try:
                answer = answers.get(timeout=max(0.0, deadline - self._pace.now()))
            except queue.Empty:
                silent += taken - answered
                break
            if answer is None:
                silent += 1
            else:
                confirmed |= answer
        if silent:
            log.warning("late binding: %d of %d calls to sources were not answered", silent, len(batches))
        return confirmed

    def ask_one(self, principals: PrincipalSet, batch: Sequence[ToConfirm], deadline: float) -> frozenset[str] | None:
        """One call to a source; None where it gave no answer. A source speaks for what it was asked about only."""
        if self._pace.now() >= deadline:
            return None
        try:
            return self._verifier.confirmed(principals, batch, deadline) & {item.uri for item in batch}
        except Exception as e:
            # Whatever went wrong, the item is not confirmed. What it says may quote the source: its kind is enough.
            log.info("late binding: a source gave no answer: %s", type(e).__name__)
            return None


@dataclass(frozen=True, slots=True)
class _Call:
    """One call to a source, for the pool. An answer after the deadline finds nobody waiting."""

    binder: LateBinder
    principals: PrincipalSet
    batch: tuple[ToConfirm, ...]
    deadline: float
    answers: queue.SimpleQueue[frozenset[str] | None]

    def __call__(self) -> None:
        self.answers.put(self.binder.ask_one(self.principals, self.batch, self.deadline))


def free_labels(labels: Sequence[str], bound_from: str) -> tuple[str, ...]:
    """The labels, least sensitive first, that come before `bound_from`. Raises ValueError where it is none of them."""
    return tuple(labels[: list(labels).index(bound_from)])
