"""Clocks, counters and memory samples on an engine while it syncs."""

from __future__ import annotations

import functools
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import psycopg

from benchmarks.get_context import Spans
from context_engine.embedded import EmbeddedEngine
from ingestion.sync import RunReport

_WRITES = (
    "replace_item",
    "delete_items",
    "move_item",
    "set_access",
    "vectors_of",
    "flush",
    "count_points",
)


class Memory(NamedTuple):
    """MB that are resident, and how many of them are mapped files."""

    resident: float
    mapped: float


@dataclass
class Leg:
    """One run of one reader, or of the permission export, less what is nested in it."""

    name: str
    seconds: float = 0.0
    requests: Counter[str] = field(default_factory=Counter)
    report: RunReport | None = None


@dataclass
class Watch:
    """Clocks and counters on an engine, and its memory as the sync goes on."""

    spans: Spans = field(default_factory=Spans)
    legs: list[Leg] = field(default_factory=list)
    memory: list[tuple[float, Memory]] = field(default_factory=list)
    _open: list[Leg] = field(default_factory=list)

    def watch_legs(self, synchronizer: Any, method: str) -> None:
        """Note each run of a reader: permissions are read again in the middle of a long one."""
        original: Callable[..., RunReport] = getattr(synchronizer, method)

        @functools.wraps(original)
        def run(connector: Any, *rest: Any, **options: Any) -> RunReport:
            leg = Leg(f"{connector.name}/{rest[0].name if rest else 'access'}")
            self._open.append(leg)
            self.legs.append(leg)
            started = time.perf_counter()
            try:
                leg.report = original(connector, *rest, **options)
                return leg.report
            finally:
                took = time.perf_counter() - started
                leg.seconds += took
                self._open.pop()
                if self._open:
                    self._open[-1].seconds -= took

        setattr(synchronizer, method, run)

    def begin(self) -> None:
        """Forget what was before."""
        self.legs = []
        self.spans.take()

    @contextmanager
    def sampling(self) -> Iterator[None]:
        """Sample the memory of this process, once in a while."""
        stop, started = threading.Event(), time.perf_counter()

        def sample() -> None:
            while not stop.wait(0.25):
                self.memory.append((time.perf_counter() - started, memory_now()))

        thread = threading.Thread(target=sample, daemon=True)
        self.memory.append((0.0, memory_now()))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
            self.memory.append((time.perf_counter() - started, memory_now()))

    def attach(self, engine: EmbeddedEngine) -> None:
        """Put clocks on everything that a sync waits for."""
        for method in ("sync_access", "sync_reader"):
            self.watch_legs(engine.synchronizer, method)
        self.spans.watch(engine.embedder, "embed_documents", "embedding")
        for method in _WRITES:
            if hasattr(engine.index.writer, method):
                self.spans.watch(engine.index.writer, method, "index")
        self.spans.watch(psycopg.Connection, "wait", "postgres")
        send = httpx.Client.send

        def counted(client: httpx.Client, request: httpx.Request, **options: Any) -> httpx.Response:
            if self._open:
                self._open[-1].requests[kind_of(request.url.path)] += 1
            with self.spans.step("source"):
                return send(client, request, **options)

        httpx.Client.send = counted  # type: ignore[method-assign, assignment]


def kind_of(path: str) -> str:
    """What a request asks for, without the names in it: `git/repositories/commits/changes`."""
    parts = path.partition("/_apis/")[2].split("/") if "/_apis/" in path else path.strip("/").split("/")
    kept = [p for p in parts if re.fullmatch(r"[A-Za-z]+(\$?[A-Za-z])*", p) and not re.fullmatch(r"[0-9a-f]{7,}", p)]
    return "/".join(kept).lower().removeprefix("graph/v")


def memory_now() -> Memory:
    """Memory of this process: the files that are mapped are the index's, and the system takes them back at need."""
    text = Path("/proc/self/status").read_text()
    values = {name: int(kb) / 1024 for name, kb in re.findall(r"(VmRSS|RssFile):\s+(\d+)", text)}
    return Memory(values["VmRSS"], values["RssFile"])
