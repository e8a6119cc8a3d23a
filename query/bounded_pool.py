"""A fixed number of threads for calls that may hang: what finds no free one is refused, never queued without end.

A call can't be stopped from outside. So whoever asks waits no longer than they want to, and a call that hangs keeps its
thread until it comes back; the others go on, and where all of them hang, new work is refused at once.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from typing import Final

log = logging.getLogger(__name__)

Work = Callable[[], None]


# A thread that had nothing to do for so long ends.
_IDLE_SECONDS: Final = 30.0


class BoundedPool:
    """At most `size` threads, made when they are needed; they end when they are not, and never keep the process alive.
    At most `waiting` calls stand in line for them. Thread-safe."""

    def __init__(self, size: int, *, waiting: int, name: str, idle: float = _IDLE_SECONDS) -> None:
        self._size, self._name, self._idle = size, name, idle
        self._line: queue.Queue[Work | None] = queue.Queue()
        self._lock = threading.Lock()
        self._room = threading.BoundedSemaphore(size + waiting)
        self._threads = 0
        self._undone = 0
        self._closed = False

    def submit(self, work: Work) -> bool:
        """Have `work` done by one of the threads; False where all are busy and the line is full, or after `close`."""
        if not self._room.acquire(blocking=False):
            return False
        with self._lock:
            if self._closed:
                self._room.release()
                return False
            self._undone += 1
            self._line.put(work)
            if self._undone > self._threads and self._threads < self._size:
                self._threads += 1
                threading.Thread(target=self._serve, name=self._name, daemon=True).start()
        return True

    def close(self) -> None:
        """Take no more work, and let the threads end after what they do now."""
        with self._lock:
            self._closed = True
            for _ in range(self._threads):
                self._line.put(None)

    def _serve(self) -> None:
        while True:
            work = self._next()
            if work is None:
                return
            try:
                work()
            except Exception as e:
                # Whoever handed it in learns of it by getting no answer.
                log.error("work in %s failed: %s", self._name, type(e).__name__)
            finally:
                # A thread that waits keeps nothing of what it did: it may have held somebody's token.
                del work
                with self._lock:
                    self._undone -= 1
                self._room.release()

    def _next(self) -> Work | None:
        """The next call; None where there was none for a while, or there will be no more."""
        while True:
            try:
                return self._line.get(timeout=self._idle)
            except queue.Empty:
                with self._lock:
                    # Never fewer threads than calls: one may have come just now.
                    if self._undone < self._threads:
                        self._threads -= 1
                        return None
