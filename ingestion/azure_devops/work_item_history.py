"""How a work item's state went: when it was closed, by whom and why, and whether it was opened again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from core.items import Contribution, Part, PersonRef, Role, TextFormat
from ingestion.azure_devops.identities import Identities
from ingestion.azure_devops.shapes import mapping, when
from ingestion.azure_devops.texts import scalar

# The newest changes are told one by one, older ones as a number: history must not drown what the item says.
MOST_TOLD = 8
_CLOSED_DATE = "Microsoft.VSTS.Common.ClosedDate"
# Where a process keeps no date of closing.
_FINAL = frozenset({"closed", "done", "completed", "removed"})


@dataclass(frozen=True, slots=True)
class StateChange:
    """One change of state; `closed` and `reopened` say what it did to the item, at most one of them."""

    at: datetime | None
    by: PersonRef | None
    old: str
    new: str
    reason: str | None
    closed: bool
    reopened: bool

    @property
    def told(self) -> str:
        """The change as a line of text."""
        what = "closed" if self.closed else "reopened" if self.reopened else "changed"
        who = f" by {self.by.name}" if self.by else ""
        why = f" ({self.reason})" if self.reason and self.reason.casefold() != self.new.casefold() else ""
        day = f"{self.at:%Y-%m-%d}: " if self.at else ""
        return f"{day}{what}{who}, {self.old} → {self.new}{why}"


def state_changes(updates: Iterable[Mapping[str, Any]], identities: Identities) -> tuple[StateChange, ...]:
    """The changes of state, oldest first. The first revision's state is no change."""
    rows = sorted(updates, key=lambda u: int(u.get("rev") or u.get("id") or 0))
    dated = any(_CLOSED_DATE in mapping(u.get("fields")) for u in rows)
    found = []
    for update in rows:
        fields = mapping(update.get("fields"))
        state, closing = mapping(fields.get("System.State")), mapping(fields.get(_CLOSED_DATE))
        old, new = scalar(state.get("oldValue")), scalar(state.get("newValue"))
        if not old or not new:
            continue
        if dated:
            closed, reopened = bool(closing.get("newValue")), bool(closing) and not closing.get("newValue")
        else:
            closed, reopened = new.casefold() in _FINAL, old.casefold() in _FINAL
        # An update's own date is when the next one came; the current one's lies at the end of the calendar.
        at = when(_new(fields, "System.ChangedDate")) or when(update.get("revisedDate"))
        by = identities.person(update.get("revisedBy") or _new(fields, "System.ChangedBy"))
        reason = scalar(_new(fields, "System.Reason"))
        found.append(StateChange(at, by, old, new, reason, closed=closed, reopened=reopened and not closed))
    return tuple(found)


def history_part(changes: tuple[StateChange, ...], uri: str) -> tuple[Part, ...]:
    """The history as a short text of its own; none where the state never changed."""
    if not changes:
        return ()
    earlier = len(changes) - MOST_TOLD
    lines = [f"- {change.told}" for change in changes[-MOST_TOLD:]]
    if earlier > 0:
        lines.insert(0, f"- {earlier} earlier changes of state")
    last = changes[-1]
    text = "\n".join(lines)
    return (Part(uri=uri, text=text, format=TextFormat.PLAIN, heading=("State history",), author=last.by, at=last.at),)


def history_contributions(changes: tuple[StateChange, ...]) -> tuple[Contribution, ...]:
    """For each person the last time that they closed the item, and the last time that they opened it again."""
    found: dict[tuple[str, str | None, Role], Contribution] = {}
    for change in changes:
        if change.by is None or not (change.closed or change.reopened):
            continue
        role, note = (Role.CLOSED, change.reason or "") if change.closed else (Role.EDITED, "reopened")
        key = (change.by.name, change.by.principal, role)
        found[key] = Contribution(person=change.by, role=role, at=change.at, note=note)
    return tuple(found.values())


def _new(fields: Mapping[str, Any], name: str) -> Any:
    return mapping(fields.get(name)).get("newValue")
