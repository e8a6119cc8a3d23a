"""What breaks half-way is told, keeps what came, and is made good by the next run."""

from __future__ import annotations

import pytest

from core.embedding.port import Embedder
from core.items import Source
from graph.records import ItemStore
from graph.runs import RunStore
from tests.invariants.test_who_asks import member
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
