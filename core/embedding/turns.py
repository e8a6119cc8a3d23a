"""Puts work in a row in which a question goes before documents."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class Turns:
    """One at a time; who is patient lets everyone pass who is urgent and waiting."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._busy = False
        self._urgent = 0

    @contextlib.contextmanager
    def urgent(self) -> Iterator[None]:
        """Take the next turn."""
        with self._changed:
            self._urgent += 1
            try:
                self._changed.wait_for(lambda: not self._busy)
                self._busy = True
            finally:
                self._urgent -= 1
        try:
            yield
        finally:
            self._done()

    @contextlib.contextmanager
    def patient(self) -> Iterator[None]:
        """Take a turn when nobody urgent waits."""
        with self._changed:
            self._changed.wait_for(lambda: not self._busy and not self._urgent)
            self._busy = True
        try:
            yield
        finally:
            self._done()

    def _done(self) -> None:
        with self._changed:
            self._busy = False
            self._changed.notify_all()
