"""A reader round another one, for what is to be done otherwise with all that a reader gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from core.items import Source
from ingestion.connector import Batch, Change, Reader, Unlisted


class Around:
    """Passes everything on; see `ingestion.connector.Reader`. What is made of it overrides what is to differ."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    @property
    def name(self) -> str:
        """The reader's own."""
        return self._reader.name

    @property
    def source(self) -> Source:
        """The reader's own."""
        return self._reader.source

    def read(self, checkpoint: Mapping[str, Any] | None) -> Iterator[Batch]:
        """What the reader reads."""
        return self._reader.read(checkpoint)

    def fetch(self, uris: Sequence[str]) -> Iterator[Change]:
        """What the reader fetches."""
        return self._reader.fetch(uris)

    def present(self) -> Iterator[str | Unlisted] | None:
        """What the reader lists."""
        return self._reader.present()
