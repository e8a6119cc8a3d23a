"""Hints: what a delivery tells us to look at again. A hint carries addresses and versions, never a text: what it names
is read again at its source, with our own credentials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class HintKind(StrEnum):
    """What to do. ITEM: read `uri` again; READER: run `reader` from its checkpoint; ACCESS: read again who may read
    `place` (None: everything of the connector); SUBSCRIPTION: see to the subscription `place`, `note` says why."""

    ITEM = "item"
    READER = "reader"
    ACCESS = "access"
    SUBSCRIPTION = "subscription"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """One thing to look at again.

    `gone`: the source said that the item was deleted, at `version` where it told one: it is withheld until the source
    was asked. `reader` is the name of a reader of the connector.
    """

    connector: str
    kind: HintKind
    reader: str | None = None
    uri: str | None = None
    gone: bool = False
    version: str | None = None
    place: str | None = None
    note: str | None = None

    def to_json(self) -> dict[str, Any]:
        """As it is kept."""
        return {k: v for k, v in asdict(self).items() if v is not None and v is not False}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Hint:
        """Read what `to_json` wrote. Raises TypeError or ValueError for anything else."""
        return Hint(**{**data, "kind": HintKind(data["kind"])})
