"""What breaks half-way is told, keeps what came, and is made good by the next run."""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from context_engine.embedded import EmbeddedEngine
from core.embedding.openai_http import OpenAIEmbedder
from core.embedding.port import Embedder
from core.items import Source
from graph.records import ItemStore
from graph.runs import RunStore
from tests.command_line.test_commands import environment
from tests.invariants.test_who_asks import member
from tests.support.embedding_server import MODEL, embedding_server, settings_of
from tests.support.engines import WORLDS, LiveEngine, live_engine
from tests.support.postgres import PostgresServer

WORLD = WORLDS / "havenlicht"


def test_a_postgres_that_is_down_is_503_and_told_by_readiness(postgres: PostgresServer, embedder: Embedder) -> None:
    with live_engine(WORLD, postgres, embedder) as live:
        person = member(live)
        assert live.post(person, {"question": "where is the guide?"}).status_code == 200
        live.engine.query_database.close()
        answer = live.post(person, {"question": "where is the guide?"})
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) >= 1
        assert answer.headers["content-type"] == "application/problem+json"
        assert "password" not in answer.text.lower()
        ready = live.client.get("/readyz")
        assert ready.status_code == 503
        assert ready.json()["stores"]["postgres"] == "down"


def test_an_index_that_is_down_is_503(postgres: PostgresServer, embedder: Embedder) -> None:
    with live_engine(WORLD, postgres, embedder) as live:
        person = member(live)
        live.engine.index.writer.close()
        answer = live.post(person, {"question": "where is the guide?"})
        assert answer.status_code == 503
        assert "retry-after" in answer.headers
        assert live.client.get("/readyz").json()["stores"]["qdrant"] == "down"


@pytest.mark.parametrize(
    ("path", "source"), [(r".*/_apis/wiki/wikis/[^/]+/pages", Source.WIKIS), (r".*/messages", Source.TEAMS)]
)
def test_a_source_that_fails_half_way_keeps_what_came_and_goes_on_in_the_next_run(
    path: str, source: Source, engines: dict[str, LiveEngine], postgres: PostgresServer, embedder: Embedder
) -> None:
    wanted = ItemStore(engines["havenlicht"].engine.database).uris(source)
    with live_engine(WORLD, postgres, embedder, sync=False) as live:
        sandbox = live.engine.sandbox
        assert sandbox is not None
        sandbox.faults.fail(path, 403, None, None)
        reports = {r.reader: r for r in live.engine.sync()}
        broken = reports[source.value]
        assert broken.state in {"failed", "partial"}
        assert broken.reason
        assert reports["work_items"].state == "complete"
        items, runs = ItemStore(live.engine.database), RunStore(live.engine.database)
        assert items.uris(Source.WORK_ITEMS)
        assert next(r for r in runs.last() if r.reader == source.value).state == broken.state
        sandbox.faults.clear()
        again = {r.reader: r for r in live.engine.sync()}
        assert again[source.value].state == "complete", again[source.value]
        assert items.uris(source) == wanted
        assert runs.failures(source.value) == []


def snapshot(engine: EmbeddedEngine) -> tuple[Any, ...]:
    """What the stores hold: live items with their digests, and how many points the index has."""
    items = ItemStore(engine.database)
    held = {uri: items.digest_of(uri) for source in Source for uri in items.uris(source)}
    return held, engine.index.writer.count_points(), list(items.not_indexed())


@pytest.fixture
def embeddings() -> Iterator[str]:
    """An embedder that any process can reach, and no process has to load."""
    with embedding_server() as url:
        yield url


def test_a_sync_that_is_killed_anywhere_loses_and_doubles_nothing(
    tmp_path: Path, postgres: PostgresServer, embeddings: str
) -> None:
    embedder = OpenAIEmbedder(embeddings, MODEL)
    with live_engine(WORLD, postgres, embedder) as whole:
        clean, points, behind = snapshot(whole.engine)
    assert behind == []
    data = tmp_path / "data"
    command = [sys.executable, "-m", "context_engine.cli", "sync", "--world", str(WORLD), "--data", str(data)]
    chance, deaths = random.Random(20270312), 0
    for _ in range(3):
        process = subprocess.Popen(
            command,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            env=environment(**settings_of(embeddings)),
            cwd=tmp_path,
        )
        assert process.stderr is not None
        stop_after = f"synced {chance.choice(['permissions (DevOps)', 'Teams threads', 'work items', 'wikis'])}"
        for line in process.stderr:
            if line.startswith(stop_after):
                break
        # In the midst of a reader that follows.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=chance.uniform(0.02, 0.2))
        process.send_signal(signal.SIGKILL)
        deaths += process.wait() == -signal.SIGKILL
        process.stderr.close()
    assert deaths
    with EmbeddedEngine(data=data, world=WORLD, embedder=embedder) as engine:
        for report in engine.sync():
            assert report.state == "complete", report
        held, count, behind = snapshot(engine)
    assert behind == []
    assert held.keys() == clean.keys()
    assert count == points
    assert {u: d for u, (d, _) in held.items()} == {u: d for u, (d, _) in clean.items()}
