"""Admission: a source is enabled only with an answer to each of the six questions, and an item only where its label
may be stored at all."""

from __future__ import annotations

from dataclasses import fields

from core.errors import ConfigError
from ingestion.connector import Admission, Connector


def admit(connector: Connector) -> None:
    """Raise ConfigError where the connector leaves one of the six admission questions unanswered."""
    answers: Admission = connector.admission
    missing = [f.name for f in fields(answers) if not str(getattr(answers, f.name)).strip()]
    if missing:
        raise ConfigError(
            f"the source can't be enabled: no answer to {', '.join(missing)}",
            where=connector.name,
            mend="A source needs per-item permissions, a deletion feed, stable ids, times, authors and a purpose",
        )


class LabelGate:
    """Which sensitivity labels may be stored. Labels stand least sensitive first; an unknown label is taken as the
    most sensitive, since a name that nobody configured can't be judged."""

    def __init__(self, labels: tuple[str, ...], never_index: str | None) -> None:
        if never_index is not None and never_index not in labels:
            raise ConfigError(
                f"{never_index!r} is none of the labels",
                where="never_index_label",
                mend=f"Known labels: {', '.join(labels) or 'none; set `labels`'}",
            )
        self._rank = {label: i for i, label in enumerate(labels)}
        self._limit = self._rank[never_index] if never_index is not None else None

    def may_store(self, label: str | None) -> bool:
        """Whether an item with this label may be stored; no label: yes."""
        if self._limit is None or label is None:
            return True
        return self._rank.get(label, len(self._rank)) < self._limit
