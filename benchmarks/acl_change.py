"""One change of one rule over a scope of 100,000 chunks: seconds until it is obeyed, and until the index is rewritten.

    .venv/bin/python -m benchmarks.acl_change [--chunks 100000] [--size 384] [--data DIR] [--json]

Chunks with made-up vectors in the embedded index, one rule in the embedded Postgres. Obeyed means: the trim of somebody
who was let in until now is worked out anew and finds nothing. Until the payloads are rewritten too, the scope is in
every question's list of blocked ones; and whom a new rule lets in is found only then.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np

from benchmarks.report import machine, tell
from context_engine.embedded import QUERY_ROLE
from context_engine.postgres import EmbeddedPostgres
from core import principals
from core.access import Gate, Layer, Scope, ScopeAcl, ScopeId, Trim
from core.index.edge import EdgeIndex
from core.index.port import IndexPoint, SparseVector
from core.items import Source
from core.principals import Principal, issue_asker, issue_principal_set
from graph.db import Database
from graph.migrate import migrate
from graph.scopes import ScopeStore

TENANT = "t"
ASKER = principals.user(TENANT, "asker")
CREW, OTHERS = principals.group(TENANT, "crew"), principals.group(TENANT, "others")
_BATCH = 500


def rule(*allowed: Principal) -> tuple[Scope, ...]:
    """The one scope, open to these."""
    acl = ScopeAcl((Gate("object", (Layer("repo", allow=frozenset(allowed)),)),))
    return (Scope(id=ScopeId("repo"), source="code", kind="repo", name="repo", acl=acl),)


def fill(index: EdgeIndex, chunks: int, size: int) -> None:
    """Write so many chunks of one scope, a file of 500 at a time."""
    drawn = np.random.default_rng(1)
    for start in range(0, chunks, _BATCH):
        uri = f"ctx://ado/o/repos/r/files/{start}"
        dense = drawn.standard_normal((_BATCH, size)).astype(np.float32)
        points = [
            IndexPoint(
                id=UUID(int=start + n + 1),
                uri=uri,
                ordinal=n,
                source=Source.CODE,
                kind="file",
                scope=ScopeId("repo"),
                allowed=(CREW,),
                acl_version=1,
                label=None,
                digest=f"{start + n}",
                title="A file",
                heading=(),
                text=f"words of a chunk, number {start + n}",
                part_uris=(uri,),
                created_at=0,
                modified_at=0,
                dense=dense[n],
                sparse=SparseVector((1, 2 + n), (1.0, 0.5)),
            )
            for n in range(min(_BATCH, chunks - start))
        ]
        index.writer.replace_item(uri, points)
    index.writer.flush()


def trim_of(scopes: ScopeStore) -> Trim:
    """What the asker, one of the crew, may read now."""
    asker = issue_asker(principal=ASKER, tenant=TENANT, agent=None, scopes=frozenset())
    return scopes.trim_for(issue_principal_set(asker, frozenset({ASKER, CREW})))


def measure(chunks: int, size: int, data: Path, *, dsns: tuple[str, str] | None = None) -> dict[str, Any]:
    """A revocation and a grant. `dsns` are those of an empty, migrated Postgres, for writing and for reading; None: an
    embedded one is started."""
    with ExitStack() as stack:
        if dsns is None:
            server = stack.enter_context(EmbeddedPostgres(data))
            migrate(server.ingest_dsn, query_role=QUERY_ROLE)
            dsns = server.ingest_dsn, server.query_dsn
        writing, reading = (stack.enter_context(closing(Database(dsn))) for dsn in dsns)
        index = EdgeIndex(data / "qdrant", embedder="made up", size=size)
        stack.callback(index.close)
        filled = _timed(lambda: fill(index, chunks, size))
        writer, reader = (ScopeStore(db, revocation_limit=timedelta(hours=1)) for db in (writing, reading))
        _apply(writer, rule(CREW))
        rewrite(writer, index)
        assert index.reader.count(trim_of(reader)) == chunks
        revoked = _timed(lambda: _apply(writer, rule(OTHERS)))
        shut = _timed(lambda: _assert(index.reader.count(trim_of(reader)) == 0))
        pending = len(writer.pending())
        with waiting(index, reader) as waits:
            rewritten = _timed(lambda: rewrite(writer, index))
        granted = _timed(lambda: _apply(writer, rule(OTHERS, CREW)))
        found = _timed(lambda: rewrite(writer, index))
        assert index.reader.count(trim_of(reader)) == chunks
        return {
            "chunks": chunks,
            "size": size,
            "fill_seconds": round(filled, 1),
            "revocation_written_ms": round(revoked * 1000, 1),
            "next_question_shut_ms": round(shut * 1000, 1),
            "scopes_pending": pending,
            "revocation_rewritten_seconds": round(rewritten, 2),
            "question_waited_ms": round(max(waits) * 1000, 1),
            "grant_written_ms": round(granted * 1000, 1),
            "grant_found_seconds": round(granted + found, 2),
            "machine": machine(),
            "date": datetime.now(UTC).date().isoformat(),
        }


@contextmanager
def waiting(index: EdgeIndex, scopes: ScopeStore) -> Iterator[list[float]]:
    """Ask again and again meanwhile, in another thread; seconds that each answer took."""
    stop, waits = threading.Event(), [0.0]

    def ask() -> None:
        while not stop.is_set():
            waits.append(_timed(lambda: _assert(index.reader.count(trim_of(scopes)) == 0)))

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield waits
    finally:
        stop.set()
        thread.join()


def rewrite(scopes: ScopeStore, index: EdgeIndex) -> None:
    """Bring the payloads up to the rules, as the sync does."""
    for scope, allowed, version in scopes.pending():
        index.writer.set_access(scope, allowed, version)
        scopes.mark_indexed(scope, version)
    index.writer.flush()


def _apply(scopes: ScopeStore, given: tuple[Scope, ...]) -> None:
    now = datetime.now(UTC)
    scopes.apply("azure_devops", given, complete=True, at=now)
    scopes.touch("azure_devops", now)


def _assert(right: bool) -> None:
    if not right:
        raise AssertionError("a revocation was not obeyed by the next question")


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def show(result: dict[str, Any]) -> None:
    """The result as Markdown."""
    print(f"{result['date']}, {result['machine']}; one scope of {result['chunks']:,} chunks\n")
    print("| step | |\n| --- | ---: |")
    print(f"| a revocation is written | {result['revocation_written_ms']} ms |")
    print(f"| the next question, trim worked out anew, finds nothing | {result['next_question_shut_ms']} ms |")
    print(f"| the index is rewritten after it | {result['revocation_rewritten_seconds']} s |")
    print(f"| the longest that a question waited meanwhile | {result['question_waited_ms']} ms |")
    print(f"| a grant is written and found | {result['grant_found_seconds']} s |")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--size", type=int, default=384, help="dimensions of a vector")
    parser.add_argument("--data", type=Path, help="where the stores are made (default: a folder that is removed)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="context-engine-benchmark-") as folder:
        result = measure(options.chunks, options.size, options.data or Path(folder))
    tell(result, show, as_json=options.json)


if __name__ == "__main__":
    main()
