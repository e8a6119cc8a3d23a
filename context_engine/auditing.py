"""The audit plane's work: finds out what was withheld from answers, after they were given, and prunes the log.

It looks past the asker's access, which neither the query plane nor a request may do; what it finds is for auditors.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import date, datetime, time
from time import monotonic
from types import TracebackType
from typing import Final

from core.access import GateVerdict, Outcome, ScopeId
from core.clock import Clock, SystemClock
from core.embedding.port import Embedder
from core.errors import ContextEngineError, StoreUnavailableError, UnresolvedIdentityError
from core.index.privileged import PrivilegedHit, PrivilegedQuery, PrivilegedReader
from core.principals import Principal
from core.text.tokens import sparse_query
from core.tuning import DEFAULT
from graph.audit_reading import Retention, Withheld
from graph.audit_withheld import LiveItem, QuestionStore, WaitingQuestion
from graph.directory import DirectoryStore
from graph.scopes import ScopeStore

log = logging.getLogger(__name__)

# Bars beside those of `graph.standing`: no rule is known; its source has to confirm it for each request (it did not, or
# it did and there was no room for the item).
NO_SCOPE: Final = "no_rule"
NEEDS_CONFIRMATION: Final = "needs_confirmation"

_AT_ONCE: Final = 50
# Chunks that are asked for to find one item among them.
_CHUNKS_AN_ITEM: Final = 8
_REASON: Final = "what was withheld from an answer is worked out for auditors"
# Seconds that a stop waits for the question in hand, and between two beats.
_PATIENCE: Final = 60.0
_BEAT: Final = 10.0


@dataclass(frozen=True, slots=True)
class Shut:
    """What keeps an item from somebody, and which gates of its scope's rule did not let them in."""

    bars: tuple[str, ...]
    gates: tuple[str, ...] = ()


class Examiner:
    """Works out what was withheld: searches for the question without the asker's filter, and asks of each of the best
    `most` items what keeps it from them. `free_labels` are those that need no confirmation; None: none needs one."""

    def __init__(
        self,
        *,
        questions: QuestionStore,
        directory: DirectoryStore,
        scopes: ScopeStore,
        index: PrivilegedReader,
        embedder: Embedder,
        most: int,
        free_labels: Collection[str] | None = None,
    ) -> None:
        self._questions = questions
        self._directory = directory
        self._scopes = scopes
        self._index = index
        self._embedder = embedder
        self._most = most
        self._free_labels = frozenset(free_labels) if free_labels is not None else None

    def work_off(self, stopping: Callable[[], bool] = lambda: False) -> int:
        """Look into every question that waits; how many were settled. One whose asker's memberships are not fully known
        now, or that something is wrong with, goes on waiting until it expires. Raises StoreUnavailableError."""
        self._questions.forget_expired()
        settled = after = 0
        while waiting := self._questions.waiting(after=after, most=_AT_ONCE):
            for question in waiting:
                if stopping():
                    return settled
                try:
                    self._examine(question)
                    settled += 1
                except UnresolvedIdentityError as e:
                    log.warning("a question goes on waiting to be looked into: %s", e)
                except StoreUnavailableError:
                    raise
                except Exception as e:
                    # It keeps no later one waiting. What the error says may quote it.
                    log.error("a question can't be looked into: %s", type(e).__name__)
                after = question.seq
        return settled

    def _examine(self, question: WaitingQuestion) -> None:
        best = self._best(question)
        with self._scopes.snapshot():
            epoch = self._scopes.epoch()
            account = self._directory.account(question.asker)
            known = account is not None and account.enabled
            withheld = self._withheld(question, best) if known else []
        self._questions.settle(
            question.seq,
            "examined" if known else "no_account",
            epoch=epoch,
            same_epoch=question.epochs == {epoch},
            looked_at=len(best) if known else 0,
            withheld=withheld,
        )

    def _best(self, question: WaitingQuestion) -> list[tuple[LiveItem, float]]:
        """The best items for a question, whoever may read them, each with its relevance (0 to 1)."""
        focus = self._questions.items(question.focus)
        words = " ".join([*question.question.split(), *(focus[uri].title for uri in question.focus if uri in focus)])
        hits = self._index.nearest(
            PrivilegedQuery(
                dense=self._embedder.embed_query(words),
                sparse=sparse_query(words),
                limit=self._most * _CHUNKS_AN_ITEM,
                created_until=int(question.as_of.timestamp()) if question.as_of is not None else None,
            ),
            reason=_REASON,
        )
        relevance = _relevance(hits)
        live = self._questions.items(relevance)
        ranked = sorted((uri for uri in relevance if uri in live), key=lambda uri: (-relevance[uri], uri))
        return [(live[uri], relevance[uri]) for uri in ranked[: self._most]]

    def _withheld(self, question: WaitingQuestion, best: Sequence[tuple[LiveItem, float]]) -> list[Withheld]:
        mine = self._directory.closure(question.asker) | {question.asker}
        known: dict[ScopeId, Shut] = {}
        found: list[Withheld] = []
        for rank, (item, relevance) in enumerate(best, start=1):
            if item.scope not in known:
                known[item.scope] = self._shut(item.scope, mine, question)
            shut = known[item.scope]
            if not shut.bars and self._needs_confirmation(item) and item.uri not in question.uris:
                shut = Shut((NEEDS_CONFIRMATION,))
            if shut.bars:
                found.append(
                    Withheld(
                        rank=rank,
                        uri=item.uri,
                        source=item.source.value,
                        scope=item.scope,
                        relevance=relevance,
                        bars=shut.bars,
                        gates=shut.gates,
                    )
                )
        return found

    def _shut(self, scope_id: ScopeId, mine: frozenset[Principal], question: WaitingQuestion) -> Shut:
        standing = self._scopes.standing(scope_id, mine, spaces=question.spaces)
        if standing is None:
            return Shut((NO_SCOPE,))
        gates = tuple(_told(v) for v in standing.verdicts if v.outcome is not Outcome.ALLOWED)
        return Shut(tuple(bar.value for bar in standing.bars), gates if standing.bars else ())

    def _needs_confirmation(self, item: LiveItem) -> bool:
        return self._free_labels is not None and item.label is not None and item.label not in self._free_labels


class AuditPlane:
    """Everything that the audit plane does by itself, a turn at a time."""

    def __init__(
        self, examiner: Examiner | None, retention: Retention, *, keep_days: int, clock: Clock | None = None
    ) -> None:
        self._examiner = examiner
        self._retention = retention
        self._keep_days = keep_days
        self._clock = clock or SystemClock()

    def turn(self, stopping: Callable[[], bool] = lambda: False) -> None:
        """Look into what waits, and remove what has been kept for long enough. Raises StoreUnavailableError."""
        if self._examiner is not None:
            self._examiner.work_off(stopping)
        if self._keep_days and not stopping():
            self._retention.prune(last_kept(self._clock.now(), self._keep_days))


class AuditSchedule(AbstractContextManager["AuditSchedule"]):
    """Takes a turn every `every` seconds while the context is open; `beat` is called meanwhile, every few seconds."""

    def __init__(self, plane: AuditPlane, *, every: float, beat: Callable[[], None] = lambda: None) -> None:
        self._plane = plane
        self._every = every
        self._beat = beat
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="audit", daemon=True)

    def __enter__(self) -> AuditSchedule:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(timeout=_PATIENCE)

    def _run(self) -> None:
        due = monotonic()
        while not self._stopping():
            if monotonic() >= due:
                self._turn()
                due = monotonic() + self._every
            self._stop.wait(min(_BEAT, max(0.0, due - monotonic())))

    def _turn(self) -> None:
        try:
            self._plane.turn(self._stopping)
        except ContextEngineError as e:
            log.error("the audit plane waits: %s", e)
        except Exception as e:
            # Nothing of a question may get into a log, as it would by a traceback of a library that quotes it.
            log.error("the audit plane met an error of ours: %s", type(e).__name__)

    def _stopping(self) -> bool:
        self._beat()
        return self._stop.is_set()


def last_kept(now: datetime, days: int) -> datetime:
    """From when on entries are kept: whole days (UTC), so that there is at most one pruning a day. More days than there
    have been keep everything."""
    return datetime.combine(date.fromordinal(max(1, now.date().toordinal() - days)), time(), now.tzinfo)


def _relevance(hits: Sequence[PrivilegedHit]) -> Mapping[str, float]:
    """The relevance of each item by its best chunk, made of both scores as the query plane makes it."""
    best_dense = max((h.dense_score for h in hits), default=0.0)
    best_sparse = max((h.sparse_score for h in hits), default=0.0)
    weight = DEFAULT.dense_weight
    found: dict[str, float] = {}
    for hit in hits:
        dense = max(0.0, hit.dense_score) / best_dense if best_dense > 0 else 0.0
        keyword = hit.sparse_score / best_sparse if best_sparse > 0 else 0.0
        relevance = round(weight * dense + (1 - weight) * keyword, 6)
        found[hit.uri] = max(found.get(hit.uri, 0.0), relevance)
    return found


def _told(verdict: GateVerdict) -> str:
    if verdict.outcome is Outcome.NOT_NAMED:
        return f"{verdict.gate}: names none of theirs"
    return f"{verdict.gate}: {verdict.outcome.value} at {verdict.node} by {', '.join(verdict.named)}"
