"""Server mode, started by hand: the API, the receiver, two workers and beat over real stores that fail and come back.

The tests share one organization and go on from each other; the last one compares what is left with a fresh read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

import psycopg
import pytest

from core.access import WITHHELD
from core.embedding.openai_http import OpenAIEmbedder
from core.embedding.port import Embedder
from graph.dead_letters import DeadLetters
from graph.jobs import JobStore
from tests.support.chance import Chance
from tests.support.embedding_server import MODEL
from tests.support.ingest_side import IngestSide, whole_read
from tests.support.postgres import PostgresServer
from tests.support.random_events import change
from tests.support.server_stack import PROCESSES, ServerStack, server_stack, until
from tests.support.small_organization import small_organization
from tests.support.state_dump import differences, record_dump

BOARD = "Costs"
CONTENT = {"work_items", "wikis", "code", "pull_requests", "teams"}
VECTORS = ("dense", "keywords")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerStack]:
    """Polls of access are far between, so what is obeyed soon is obeyed because of a delivery."""
    with server_stack(
        small_organization(teams=True),
        tmp_path_factory.mktemp("server"),
        REVOCATION_SLA="3600",
        PERMISSION_INTERVAL="600",
        MEMBERSHIP_INTERVAL="600",
        CONTENT_INTERVAL="2",
        RECONCILE_INTERVAL="0",
        RETRY_FAILED_AFTER="0",
        LEASE="2",
    ) as made:
        yield made


def happen(stack: ServerStack, **what: object) -> None:
    """Something happens at the sources."""
    Chance(stack.sandbox.state, Random(7)).happen(**what)


def says(stack: ServerStack, key: str, channel: str, body: str) -> None:
    """Somebody says something in a channel."""
    said = {"key": key, "by": "cat", "at": stack.sandbox.state.now.isoformat(), "body": body}
    happen(stack, post={"channel": f"channel:{channel}", "message": said})


def settled(stack: ServerStack) -> None:
    """Wait until every reader has begun and ended a run from now on, and nothing waits in the inbox."""
    since = max((r.id for r in stack.runs.recent(1)), default=0)

    def done() -> bool:
        ended = {r.reader for r in stack.runs.recent(500) if r.id > since and r.state == "complete"}
        with stack.database.connection() as connection:
            waits = connection.execute("SELECT 1 FROM inbox WHERE state = 'pending' LIMIT 1").fetchone()
        return ended >= CONTENT and waits is None

    until(done, "every reader ends another run", stack)


def access_read(stack: ServerStack) -> None:
    """Have permissions and memberships read now, and wait until they are: whoever takes over from a worker that was
    killed waits for its lease first, while readers of content go on."""
    since = max((r.id for r in stack.runs.recent(1)), default=0)
    jobs = JobStore(stack.database)
    jobs.bring_forward([name for name in jobs.states() if name.endswith(("/permissions", "/memberships"))])
    wanted = {(source, reader) for source in ("azure_devops", "teams") for reader in ("access", "memberships")}

    def done() -> bool:
        return wanted <= {
            (r.source, r.reader) for r in stack.runs.recent(500) if r.id > since and r.state == "complete"
        }

    until(done, "permissions and memberships are read again", stack)


def outcomes(stack: ServerStack) -> dict[str, int]:
    """How many deliveries ended how."""
    with stack.database.connection() as connection:
        rows = connection.execute("SELECT outcome, sum(n)::int AS n FROM deliveries GROUP BY outcome").fetchall()
    return {r["outcome"]: r["n"] for r in rows}


def in_channels(uris: set[str]) -> set[str]:
    """Those that are threads."""
    return {uri for uri in uris if "/channels/" in uri}


def test_a_question_is_answered_over_http_with_what_its_asker_may_read(stack: ServerStack) -> None:
    private = in_channels(stack.found("ann", BOARD) & stack.found("dan", BOARD)) - stack.found("cat", BOARD)
    assert private
    assert not private & stack.found("ben", BOARD)
    assert stack.client.post("/v1/context", json={"question": BOARD}).status_code == 401


def test_what_was_withheld_is_found_by_a_process_of_its_own_and_seen_by_auditors(stack: ServerStack) -> None:
    private = in_channels(stack.found("ann", BOARD)) - stack.found("cat", BOARD)
    with psycopg.connect(stack.postgres.audit_dsn, autocommit=True) as auditor:

        def told() -> bool:
            return private <= {uri for (uri,) in auditor.execute("SELECT uri FROM audit_withheld").fetchall()}

        until(told, "what cat was not shown is found", stack)
    assert stack.run("audit", "audit", "verify").returncode == 0


def test_no_process_tries_what_its_keys_forbid(stack: ServerStack) -> None:
    assert stack.running() == set(PROCESSES)
    assert stack.qdrant.refused == []
    assert "Traceback" not in stack.logs()


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="this system does not tell what a process has loaded")
def test_what_does_not_survive_a_fork_is_not_loaded_before_one(stack: ServerStack) -> None:
    for name in ("worker-access", "worker-content"):
        assert not [word for word in ("qdrant_edge", "libtorch") if word in stack.loads(name)]


def test_an_administrator_looks_with_the_settings_of_a_worker(stack: ServerStack) -> None:
    told = stack.run("worker-content", "doctor", "--json")
    findings = {f["what"]: f for f in json.loads(told.stdout)["findings"]}
    assert {findings[name]["health"] for name in ("postgres", "qdrant", "azure_devops", "graph")} == {"ok"}
    assert "permissions of teams" in findings
    assert not {"issuers", "engine"} & findings.keys()
    told = stack.run("api", "sources", "runs")
    assert (told.returncode, told.stderr.count("\n")) == (64, 1)
    assert "Use the settings of a worker" in told.stderr


def test_a_change_in_teams_is_obeyed_because_the_receiver_was_told(stack: ServerStack) -> None:
    private = in_channels(stack.found("dan", BOARD)) - stack.found("cat", BOARD)
    assert private
    happen(stack, remove_member={"channel": "Core/Board", "who": "dan"})
    until(lambda: not private & stack.found("dan", BOARD), "dan is refused the channel that he left", stack)
    assert private <= stack.found("ann", BOARD)
    assert any(r.reader == "access/hints" and r.state == "complete" for r in stack.runs.recent(50, "teams"))
    until(lambda: outcomes(stack).get("accepted", 0) > 0, "deliveries are counted", stack)
    assert set(outcomes(stack)) <= {"accepted", "doubled"}


def test_a_broker_that_comes_back_empty_costs_some_seconds_and_nothing_else(stack: ServerStack) -> None:
    stack.redis.kill()
    stack.redis.forget()
    stack.redis.start()
    happen(stack, edit={"item": "work_item:1", "by": "ann", "fields": {"description": "The zebra settles."}})
    until(lambda: "ctx://ado/small/work-items/1" in stack.found("ann", "zebra"), "the edit is found", stack)
    settled(stack)


def test_a_record_that_is_restarted_is_found_again_by_every_process(stack: ServerStack) -> None:
    stack.postgres.stop()
    down = stack.post("ann", BOARD)
    assert (down.status_code, down.json()["type"].rpartition(":")[2]) == (503, "store-unavailable")
    stack.postgres.start()
    until(lambda: stack.post("ann", BOARD).status_code == 200, "questions are answered again", stack)
    says(stack, "z1", "Core/General", "A yak came by.")
    until(lambda: in_channels(stack.found("ann", "yak")), "the message is found", stack)
    settled(stack)


def test_an_index_that_is_gone_is_said_to_be_and_used_again_when_it_is_back(stack: ServerStack) -> None:
    stack.qdrant.stop()
    down = stack.post("ann", BOARD)
    assert (down.status_code, down.headers["Retry-After"]) == (503, "5")
    happen(stack, edit={"item": "work_item:3", "by": "ann", "fields": {"description": "A walrus."}})
    stack.qdrant.start()
    assert stack.post("ann", BOARD).status_code == 200
    until(lambda: "ctx://ado/small/work-items/3" in stack.found("ann", "walrus"), "the edit is found", stack)
    settled(stack)


def test_graph_that_throttles_is_waited_for(stack: ServerStack) -> None:
    stack.sandbox.faults.throttle("/graph", times=4, retry_after=1)
    says(stack, "z2", "Side/General", "An ibex came by.")
    until(lambda: in_channels(stack.found("cat", "ibex")), "the message is found", stack)


def test_workers_that_are_killed_in_the_midst_of_crawls_lose_and_double_nothing(
    stack: ServerStack, postgres: PostgresServer
) -> None:
    chance = Random(20270319)
    stack.sandbox.hooks.mode = "hold"  # what changes now is found by polls
    for _ in range(12):
        change(stack.sandbox.state, chance.randrange(10**6))
    stack.sandbox.faults.clear()
    stack.sandbox.faults.slow(20, "/ado", times=60)
    asked = stack.sandbox.faults.seen
    until(lambda: sum(list(asked.values())) >= 40, "a crawl goes on", stack)
    for name in ("worker-content", "worker-access"):
        stack.kill(name)
        stack.start(name)
    access_read(stack)
    settled(stack)
    settled(stack)  # what a first look misses is gone for good with the second

    class Fresh(IngestSide):
        """An engine that begins with nothing, with the embedder of the others."""

        def make_embedder(self) -> Embedder:
            return OpenAIEmbedder(stack.embeddings, MODEL)

    left, right = record_dump(stack.database), whole_read(stack.sandbox, postgres, Fresh)
    points = {key: {k: v for k, v in p.items() if k not in VECTORS} for key, p in right.pop("points").items()}
    assert differences(left, right) == []
    held = {k: {n: v for n, v in p.items() if n != "acl_version"} for k, p in stack.qdrant.payloads().items()}
    assert {k: p for k, p in held.items() if p["scope"] != WITHHELD} == points
    assert DeadLetters(stack.database).all() == []
    assert stack.qdrant.refused == []


def test_every_process_ends_in_good_order_when_it_is_asked_to(stack: ServerStack) -> None:
    assert set(stack.stop().values()) == {0}
