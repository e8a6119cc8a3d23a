"""Cases that went wrong elsewhere, each through the sandbox: who may read what."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import principals
from core.embedding.port import Embedder
from fixtures.sandbox.server import SandboxServer
from fixtures.sandbox.state_events import apply_event
from fixtures.sandbox.world import build_world
from graph.directory import DirectoryStore
from ingestion.azure_devops.connector import AzureDevOpsConnector
from tests.ingestion.azure_devops.case_world import CANARY, GROUPS, IRIS_OID, OPEN, PROJECTS, repo, world
from tests.ingestion.azure_devops.support import connect
from tests.invariants.test_non_interference import comparable
from tests.sandbox.small import TENANT, allow, deny
from tests.support.engines import LiveEngine, live_engine
from tests.support.postgres import PostgresServer


@pytest.fixture(scope="module")
def live(postgres: PostgresServer, embedder: Embedder) -> Iterator[LiveEngine]:
    """The world, synced; its two events belong to one test each."""
    with live_engine(build_world(world()), postgres, embedder) as made:
        yield made


def count(live: LiveEngine, who: str, *, repo: str | None = None, number: int | None = None) -> int:
    """How many items of a repo, or whether a work item, the API opens to somebody."""
    with live.engine.database.connection() as connection:
        rows = connection.execute("SELECT uri FROM items WHERE uri LIKE %s", [pattern(live, repo, number)]).fetchall()
    assert rows
    return sum(live.expand(who, r["uri"]).status_code == 200 for r in rows)


def allowed(live: LiveEngine, *, repo: str | None = None, number: int | None = None) -> set[str]:
    """Names of the groups that the points of a repo's items, or of a work item, let in; other principals as such."""
    with live.engine.database.connection() as connection:
        rows = connection.execute(
            "SELECT DISTINCT coalesce(c.name, who) AS name FROM items i JOIN scopes s ON s.id = i.scope "
            "CROSS JOIN unnest(s.indexed_allowed) AS who LEFT JOIN containers c ON c.principal = who "
            "WHERE i.uri LIKE %s",
            [pattern(live, repo, number)],
        ).fetchall()
    return {r["name"] for r in rows}


def pattern(live: LiveEngine, repo: str | None, number: int | None) -> str:
    """What the addresses of a repo's items, or of a work item, are like."""
    assert live.engine.sandbox is not None
    key = f"repos/{live.engine.sandbox.state.git(repo).id}/%" if repo else f"work-items/{number}"
    return f"ctx://ado/novaruud/{key}"


def happens(live: LiveEngine, event_id: str) -> None:
    """One event and nothing else; then permissions alone are read again."""
    assert live.engine.sandbox is not None
    state = live.engine.sandbox.state
    with state.lock:
        apply_event(state, next(e for e in state.world.events if e.id == event_id))
    assert {r.state for r in live.engine.sync_access()} == {"complete"}


def test_a_grant_on_one_repo_is_not_copied_to_its_siblings(live: LiveEngine) -> None:
    """C003"""
    assert count(live, "iris", repo="repo-a") == 3
    assert count(live, "iris", repo="repo-b") == 0
    assert count(live, "teo", repo="repo-a") == 0
    assert count(live, "teo", repo="repo-b") == 3
    assert (allowed(live, repo="repo-a"), allowed(live, repo="repo-b")) == ({"Audit"}, {"Core"})


def test_a_child_of_a_cut_node_takes_the_cut_node_s_readers(live: LiveEngine) -> None:
    """C004"""
    assert count(live, "teo", number=4101) == 0
    assert count(live, "iris", number=4101) == 1
    assert allowed(live, number=4101) == {"[Fjordline]\\Payroll"}


def test_a_deny_in_one_group_beats_an_allow_in_another(live: LiveEngine) -> None:
    """C005"""
    assert count(live, "iris", repo="repo-deny") == 0
    assert count(live, "teo", repo="repo-deny") == 3


def test_the_order_of_entries_groups_and_members_changes_nothing(tmp_path_factory: pytest.TempPathFactory) -> None:
    """C005: twenty shuffles, one rule and the same members."""
    chance, readings, folder = Random(5), set(), tmp_path_factory.mktemp("sandbox")
    entries = [*deny("group:blocked"), *allow("group:release"), *allow("adm"), *deny("lena")]
    groups = [(k, v) for k, v in GROUPS.items() if "project" not in v]
    for _ in range(20):
        chance.shuffle(entries)
        chance.shuffle(groups)
        shuffled = {k: v | {"members": chance.sample(v["members"], len(v["members"]))} for k, v in groups}
        project = {"acl": OPEN, "repos": repo("repo-deny", acl=list(entries))}
        devops = {"organization": "NovaRuud", "projects": {"Deny": project}}
        made = build_world(world(azure_devops=devops, groups=shuffled, events=[]))
        with SandboxServer(made, folder, remember=False) as server:
            readings.add(reading_of(connect(server), "repo"))
    assert len(readings) == 1


def reading_of(connector: AzureDevOpsConnector, kind: str) -> tuple[str, frozenset[tuple[str, frozenset[str]]]]:
    """The digest of the one scope of a kind, and the members of each group."""
    with closing(connector):
        read = connector.access()
    rule = next(s.acl.digest for s in read.scopes if s.kind == kind)
    return rule, frozenset((c.principal, frozenset(c.members or ())) for c in read.containers)


def test_an_administrator_who_is_denied_has_no_way_past(live: LiveEngine) -> None:
    """C006"""
    assert count(live, "adm", repo="repo-adm") == 0


def test_valid_users_of_a_project_read_and_guests_outside_of_them_do_not(live: LiveEngine) -> None:
    """C008"""
    assert count(live, "iris", repo="repo-d") == 3
    assert count(live, "lena", repo="repo-d") == 0


def test_no_route_shows_what_one_person_may_read_to_another(live: LiveEngine) -> None:
    """C009: every route of the OpenAPI document is called with what would match."""
    uri = "ctx://ado/novaruud/work-items/9"
    seen = {who: answers(live, who, uri) for who in ("iris", "teo", "lena", "adm")}
    assert len(seen["iris"]) >= 4
    assert any(CANARY in text for text in seen["iris"].values())
    for who in ("teo", "lena", "adm"):
        assert [route for route, text in seen[who].items() if CANARY in text or "Lamp schedule" in text] == []


def answers(live: LiveEngine, who: str, uri: str) -> dict[str, str]:
    """What each route answers to somebody who asks for an item by what it holds, and by its address."""
    document = live.client.get("/openapi.json").json()
    header = {"Authorization": f"Bearer {live.token(who)}"}
    found = {}
    for path, methods in document["paths"].items():
        for method, about in methods.items():
            query = {p["name"]: uri for p in about.get("parameters", []) if p["in"] == "query"}
            filled = path
            for p in about.get("parameters", []):
                filled = filled.replace("{" + p["name"] + "}", uri)
            body = {"question": "what is on the quay in the schedule?", "focus": {"item": uri}, "explain": True}
            answer = live.client.request(
                method, filled, params=query, json=body if "requestBody" in about else None, headers=header
            )
            found[f"{method} {path}"] = answer.text
    return found


def test_a_container_s_name_is_known_to_its_readers_alone(live: LiveEngine) -> None:
    """C011"""
    questions = ("merger of the yards", "who works on the merger?", "what is MW?", "which wikis are there?")
    told = {who: [json.dumps(live.ask(who, q)).lower() for q in questions] for who in ("iris", "teo")}
    assert any("walrus" in text for text in told["iris"])
    assert not any("walrus" in text for text in told["teo"])
    with live.engine.database.connection() as connection:
        rows = connection.execute("SELECT uri FROM items WHERE container ILIKE '%walrus%'").fetchall()
    assert rows
    for row in rows:
        there, nowhere = live.expand("teo", row["uri"]), live.expand("teo", "ctx://ado/novaruud/work-items/404404")
        assert there.status_code == nowhere.status_code == 404
        assert there.json() == nowhere.json()


def test_a_question_for_a_container_s_name_is_answered_as_if_there_were_none(
    live: LiveEngine, postgres: PostgresServer, embedder: Embedder
) -> None:
    """C011: whoever may not read the project learns as much of it as of one that never was."""
    without = {name: project for name, project in PROJECTS.items() if name != "Merger Walrus"}
    devops = {"organization": "NovaRuud", "projects": without}
    with live_engine(build_world(world(azure_devops=devops)), postgres, embedder) as bare:
        for question in ("walrus", "Merger Walrus", "what is MW?", "who works on the walrus-repo?"):
            body = {"question": question, "explain": True}
            assert comparable(live.ask("teo", body)) == comparable(bare.ask("teo", body)), question
            assert comparable(live.ask("iris", body)) != comparable(bare.ask("iris", body)), question


def test_a_stakeholder_reads_work_items_and_no_code_until_they_hold_basic(live: LiveEngine) -> None:
    """C012"""
    assert count(live, "stake", repo="repo-stake") == 0
    assert count(live, "stake", number=12) == 1
    happens(live, "basic")
    assert count(live, "stake", repo="repo-stake") == 3


def test_groups_of_one_name_are_two_groups_and_a_new_name_changes_nothing(live: LiveEngine) -> None:
    """C018"""
    assert [count(live, who, number=18) for who in ("iris", "teo", "adm")] == [1, 0, 0]
    assert [count(live, who, number=19) for who in ("iris", "teo", "adm")] == [0, 1, 0]
    happens(live, "renamed")
    assert [count(live, who, number=18) for who in ("iris", "teo", "adm")] == [1, 0, 0]
    names = DirectoryStore(live.engine.database).containers_of(principals.user(TENANT, IRIS_OID))
    assert "[Names]\\Harbour Contributors" in names.values()


def test_a_directory_group_in_a_rule_is_one_principal_and_lets_in_whom_the_directory_has_in_it(
    live: LiveEngine,
) -> None:
    """C024: on the node itself, and inside a group of Azure DevOps."""
    assert count(live, "new", repo="repo-direct") == 3
    assert count(live, "new", repo="repo-nested") == 3
    assert count(live, "teo", repo="repo-direct") == 0
    with live.engine.database.connection() as connection:
        said = connection.execute(
            "SELECT DISTINCT unnest(allowed || denied) AS who FROM scopes "
            "UNION SELECT member FROM memberships UNION SELECT container FROM memberships"
        ).fetchall()
    assert [r["who"] for r in said if "aadgp." in r["who"]] == []


def test_an_object_id_in_capitals_is_the_same_person(live: LiveEngine) -> None:
    """C029: the directory spells Iris's id in capitals; her token and every rule lead to the same principal."""
    assert IRIS_OID.lower() != IRIS_OID
    assert count(live, "iris", repo="repo-a") == 3
    with live.engine.database.connection() as connection:
        rows = connection.execute("SELECT principal FROM people WHERE name = 'Iris Okonjo'").fetchall()
    assert {r["principal"] for r in rows} == {f"user:{TENANT}/{IRIS_OID.lower()}"}


@given(kind=st.sampled_from(sorted(principals.KINDS)), rest=st.text(min_size=1, max_size=40), spaces=st.booleans())
def test_a_principal_has_one_spelling(kind: str, rest: str, spaces: bool) -> None:
    """C029: what was normalised once stays as it is."""
    try:
        once = principals.parse(f"  {kind.upper()}: {rest} " if spaces else f"{kind}:{rest}")
    except ValueError:
        return
    assert principals.parse(once) == once
    assert once.startswith(f"{kind}:")
