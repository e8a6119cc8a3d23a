"""The measuring programs run to their end at a small size, and check what they measure."""

from __future__ import annotations

from pathlib import Path

from benchmarks import acl_change, deliveries, obeyed
from benchmarks.obeyed import Case
from tests.sandbox import small
from tests.sandbox.small import allow, item, message
from tests.support.postgres import FreshDatabase
from tests.support.quick_embedder import QuickEmbedder


def test_a_change_of_a_rule_is_obeyed_before_its_scope_is_rewritten(
    tmp_path: Path, fresh_database: FreshDatabase
) -> None:
    found = acl_change.measure(1_200, 16, tmp_path, dsns=(fresh_database.ingest_dsn, fresh_database.query_dsn))
    assert found["scopes_pending"] == 1
    assert all(found[k] > 0 for k in ("next_question_shut_ms", "revocation_rewritten_seconds", "grant_found_seconds"))


def test_every_delivery_that_was_acknowledged_is_kept(tmp_path: Path, fresh_database: FreshDatabase) -> None:
    found = deliveries.measure(tmp_path, senders=[1, 2], seconds=0.3, dsn=fresh_database.ingest_dsn)
    assert [run["senders"] for run in found["runs"]] == [1, 2]
    assert all(run["deliveries"] > 0 for run in found["runs"])


def test_a_change_that_a_service_tells_of_is_obeyed_without_polling(
    tmp_path: Path, fresh_database: FreshDatabase
) -> None:
    teams = {"Crew": {"members": ["ann", "ben"], "channels": {"General": {"messages": [message("m1", "Hello")]}}}}
    world = small.world({"acl": allow("ann", "ben"), "work_items": [item(1)]}, teams=teams)
    leave, join = ({kind: {"team": "Crew", "who": "ben"}} for kind in ("remove_member", "add_member"))
    cases = [
        Case("leaves", leave, join, "ben", "message:Crew/General/m1"),
        Case("not told", {}, {}, "ben", "work_item:1", told=False),
    ]
    urls = {"postgres_url": fresh_database.ingest_dsn, "postgres_query_url": fresh_database.query_dsn}
    found = obeyed.measure(
        world,
        tmp_path,
        rounds=1,
        interval=1,
        cases=cases,
        ways=["webhook"],
        embedder=QuickEmbedder(),
        stores=lambda: urls,
    )
    assert set(found["seconds"]["webhook"]) == {"leaves"}
    assert found["seconds"]["webhook"]["leaves"]["gone"]["max"] > 0
