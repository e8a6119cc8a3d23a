"""`serve` on a world: what happens in Teams and Azure DevOps is obeyed because the sandbox tells of it, as the services
would; here nothing is polled in time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest

from context_engine.commands.serving import scheduled
from context_engine.embedded import EmbeddedEngine
from graph.jobs import JobStore
from graph.runs import RunStore
from graph.subscriptions import SubscriptionStore
from tests.support.chance import Chance
from tests.support.postgres import PostgresServer
from tests.support.quick_embedder import QuickEmbedder
from tests.support.small_organization import small_organization

SELDOM = {f"{what}_interval": 3000 for what in ("permission", "membership", "content")}


@pytest.fixture
def engine(postgres: PostgresServer, tmp_path: Path) -> Iterator[EmbeddedEngine]:
    """One that serves, as far as the schedule and the receiver go."""
    database = postgres.fresh_database()
    overrides = {
        "postgres_url": database.ingest_dsn,
        "postgres_query_url": database.query_dsn,
        "revocation_sla": 6000,
        **SELDOM,
    }
    with ExitStack() as stack:
        stack.callback(postgres.drop, database)
        made = EmbeddedEngine(
            data=tmp_path, world=small_organization(teams=True), embedder=QuickEmbedder(), overrides=overrides
        )
        stack.enter_context(made)
        made.bring_up_to_date()
        scheduled(made, stack)
        subscriptions = SubscriptionStore(made.database)
        until(lambda: {"/users", "/teams/getAllMessages"} <= {s.resource for s in subscriptions.all() if s.id})
        yield made


def until(found: Callable[[], object]) -> None:
    """Wait until something is the case."""
    waited = threading.Event()
    for _ in range(1500):
        if found():
            return
        waited.wait(0.02)
    raise AssertionError("it did not come about")


def texts(engine: EmbeddedEngine) -> str:
    """All that is shown to anybody."""
    with engine.database.connection() as connection:
        rows = connection.execute("SELECT text FROM chunks JOIN items USING (uri) WHERE shown").fetchall()
    return " ".join(r["text"] for r in rows)


def test_deliveries_are_obeyed_where_nothing_is_polled(engine: EmbeddedEngine) -> None:
    assert engine.sandbox is not None
    happens = Chance(engine.sandbox.state, Random(3))
    polled = {j.name: j.runs for j in JobStore(engine.database).states().values() if "hints" not in j.name}
    happens.happen(
        post={
            "channel": "channel:Core/General",
            "message": {"key": "n1", "by": "ann", "at": engine.sandbox.state.now.isoformat(), "body": "A yak."},
        }
    )
    happens.happen(edit={"item": "work_item:1", "by": "ann", "fields": {"description": "A zebra."}})
    until(lambda: "yak" in texts(engine) and "zebra" in texts(engine))
    happens.happen(delete={"item": "work_item:2"})
    until(lambda: "A second" not in texts(engine))
    happens.happen(remove_member={"channel": "Core/Board", "who": "dan"})
    until(lambda: any(r.reader == "access/hints" for r in RunStore(engine.database).recent(50, "teams")))
    now = {j.name: j.runs for j in JobStore(engine.database).states().values() if j.name in polled}
    assert {name: now[name] for name in polled if "content" in name or "permissions" in name} == {
        name: n for name, n in polled.items() if "content" in name or "permissions" in name
    }
