"""Says of evidence what replaces it, and of pages that they may have gone stale, each with the reason in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from core.bundle import Intent
from core.items import ItemKind, Source
from core.times import ago
from core.tuning import Tuning
from graph.records import ItemRow
from graph.supersession import Supersession
from query.interpret import Reading
from query.rank import is_closed, moment

_DECLARED = "declared"
# From this confidence on a mined successor demotes what it replaces; below, the mark alone is shown.
_GOOD_GROUNDS = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What replaces an item (`by` is its address), how that is known, and with which confidence (1 if declared)."""

    by: str
    kind: str
    confidence: float

    @property
    def words(self) -> str:
        """ "declared", or "mined, confidence 0.80"."""
        return self.kind if self.kind == _DECLARED else f"{self.kind}, confidence {self.confidence:.2f}"


def marks(rows: Iterable[Supersession]) -> dict[str, Mark]:
    """The best known successor of each item: a declared before a mined one, then the surer, then by address."""
    best: dict[str, Mark] = {}
    for row in sorted(rows, key=lambda r: (r.kind != _DECLARED, -r.confidence, r.new_uri)):
        if row.old_uri != row.new_uri:
            best.setdefault(row.old_uri, Mark(by=row.new_uri, kind=str(row.kind), confidence=row.confidence))
    return _without_circles(best)


def _without_circles(best: dict[str, Mark]) -> dict[str, Mark]:
    """Drop marks on a circle: two things can't replace each other."""
    kept = dict(best)
    for uri in sorted(best):
        seen = [uri]
        at = best[uri].by
        while at in best and at not in seen:
            seen.append(at)
            at = best[at].by
        if at == uri:
            kept.pop(uri, None)
    return kept


def outdated(rows: Iterable[ItemRow], marked: Mapping[str, Mark]) -> frozenset[str]:
    """Addresses of what is deprecated, or superseded by declaration or on good grounds."""
    return frozenset(
        r.uri
        for r in rows
        if r.deprecated
        or (r.uri in marked and (marked[r.uri].kind == _DECLARED or marked[r.uri].confidence >= _GOOD_GROUNDS))
    )


def staleness(
    row: ItemRow, *, mark: Mark | None, successor: ItemRow | None, now: datetime, reading: Reading, tuning: Tuning
) -> str | None:
    """A warning in words where there is a reason for one, else None."""
    reasons = []
    if row.deprecated:
        reasons.append("it is marked as deprecated")
    if mark is not None and successor is not None:
        when = moment(successor)
        known = "replaced by" if mark.kind == _DECLARED else "a later text seems to replace it:"
        reasons.append(f"{known} “{successor.title}”{f' ({ago(when, now)})' if when else ''}")
    at = moment(row)
    if at is not None and now - at > tuning.stale_after:
        if row.kind is ItemKind.WIKI_PAGE:
            vouched = "last validated" if row.validated_at is not None else "never validated, last changed"
            reasons.append(f"{vouched} {ago(at, now)} ({at:%Y-%m-%d})")
        elif (
            row.source is Source.TEAMS
            and now - at > tuning.stale_chat_after
            and reading.intent is not Intent.HISTORICAL
        ):
            reasons.append(f"said {ago(at, now)} ({at:%Y-%m-%d})")
        elif row.kind is ItemKind.WORK_ITEM and not is_closed(row):
            reasons.append(f"open, but last touched {ago(at, now)} ({at:%Y-%m-%d})")
    if row.modified_at is not None and reading.as_of is not None and row.modified_at > reading.as_of:
        reasons.append(f"changed since the time asked about ({row.modified_at:%Y-%m-%d}): it may have read otherwise")
    if not reasons:
        return None
    text = "; ".join(reasons)
    return text[0].upper() + text[1:]
