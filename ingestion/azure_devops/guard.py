"""One item that can't be read is a failure of that item; a source that fails again and again ends the run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from core.errors import SourceAuthError, SourceError, SourceNotFoundError, SourceThrottledError
from ingestion.around import Around
from ingestion.azure_devops.client import AdoClient
from ingestion.azure_devops.faults import ODD_SHAPE, odd_shape, shaped
from ingestion.connector import Batch, Change, Failure, Unlisted

_IN_A_ROW = 4


class Guard:
    """Runs the reading of items one by one and turns what goes wrong into Failures, which the sync tries again.

    A refused credential or a long throttle ends the run at once. After some failures of the source in a row it is asked
    something else: where it does not answer that either, it is not the items, and the run ends. Where it does, they
    fail one by one and the rest is read; until one succeeds, none is worth several tries.
    """

    def __init__(self, client: AdoClient) -> None:
        self._client = client
        self._in_a_row = 0

    def run(self, uri: str, read: Callable[[], Iterable[Change]]) -> list[Change]:
        """The changes that `read` yields, or one Failure for `uri`."""
        try:
            with self._client.trying(once=self._in_a_row >= _IN_A_ROW):
                changes = list(read())
        except (SourceAuthError, SourceThrottledError):
            raise
        except SourceNotFoundError as e:
            self._in_a_row = 0
            return [Failure(uri, str(e), hide=True)]
        except SourceError as e:
            self._in_a_row += 1
            if e.retryable and self._in_a_row % _IN_A_ROW == 0 and not self._client.answers():
                raise
            return [Failure(uri, str(e))]
        except ODD_SHAPE as e:
            self._in_a_row = 0
            return [Failure(uri, odd_shape(e))]
        self._in_a_row = 0
        return changes


class Sound(Around):
    """A reader whose lists, where they are of an unexpected shape, end its run as any other failure of the source."""

    def read(self, checkpoint: Mapping[str, Any] | None) -> Iterator[Batch]:
        """What the reader reads."""
        with shaped(self.name):
            yield from super().read(checkpoint)

    def fetch(self, uris: Sequence[str]) -> Iterator[Change]:
        """What the reader fetches."""
        with shaped(self.name):
            yield from super().fetch(uris)

    def present(self) -> Iterator[str | Unlisted] | None:
        """What the reader lists."""
        listed = super().present()
        return self._soundly(listed) if listed is not None else None

    def _soundly(self, listed: Iterator[str | Unlisted]) -> Iterator[str | Unlisted]:
        with shaped(self.name):
            yield from listed


class Troubles:
    """What went wrong with single repos or wikis while the others were read."""

    def __init__(self) -> None:
        self._found: list[str] = []

    def note(self, name: str, error: SourceError) -> None:
        """Keep an error for the end of the run; one that ends the run is raised."""
        if isinstance(error, SourceAuthError | SourceThrottledError):
            raise error
        self._found.append(f"{name}: {error}")

    def raise_any(self) -> None:
        """End the run as failed where something went wrong: what came is kept, and nothing counts as gone."""
        if self._found:
            raise SourceError("; ".join(self._found[:10]))
