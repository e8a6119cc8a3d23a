"""A fixed number of threads for calls that may hang: what finds no free one is refused, never queued without end.

A call can't be stopped from outside. So whoever asks waits no longer than they want to, and a call that hangs keeps its
thread until it comes back; the others go on, and where all of them hang, new work is refused at once.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

log = logging.getLogger(__name__)

Work = Callable[[], None]


class BoundedPool:
    """`size` threads, made when first needed; they never keep the process alive. At most `waiting` calls stand in line
    for them. Thread-safe."""

    def __init__(self, size: int, *, waiting: int, name: str) -> None:
        self._size, self._name = size, name
        self._line: queue.Queue[Work | None] = queue.Queue()
        self._lock = threading.Lock()
        self._room = threading.BoundedSemaphore(size + waiting)
        self._threads: list[threading.Thread] = []
        self._closed = False

    def submit(self, work: Work) -> bool:
        """Have `work` done by one of the threads; False where all are busy and the line is full, or after `close`."""
        if not self._room.acquire(blocking=False):
            return False
        with self._lock:
            if self._closed:
                self._room.release()
                return False
            self._line.put(work)
            if len(self._threads) < self._size:
                thread = threading.Thread(target=self._serve, name=f"{self._name}-{len(self._threads)}", daemon=True)
                self._threads.append(thread)
                thread.start()
        return True

    def close(self) -> None:
        """Take no more work, and let the threads end after what they do now."""
        with self._lock:
            self._closed = True
            for _ in self._threads:
                self._line.put(None)

    def _serve(self) -> None:
        while (work := self._line.get()) is not None:
            try:
                work()
            except Exception as e:
                # Whoever handed it in learns of it by getting no answer.
                log.error("work in %s failed: %s", self._name, type(e).__name__)
            finally:
                self._room.release()
