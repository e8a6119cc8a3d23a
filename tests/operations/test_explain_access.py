"""explain-access says for every person and item what a search would do, and which entry and membership decide it."""

from __future__ import annotations

import ast
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from context_engine import cli
from context_engine.commands.explain import explainer, explanation_json, show
from context_engine.embedded import EmbeddedEngine
from context_engine.explain import Explainer, Explanation
from context_engine.postgres import EmbeddedPostgres
from context_engine.running import Running, announced
from context_engine.wiring import connector_names
from core import principals
from core.access import Outcome, ScopeId
from core.embedding.port import Embedder
from core.errors import IdentityError, InputError
from core.principals import Principal, issue_asker
from graph.db import Database
from graph.directory import DirectoryStore
from graph.membership_path import MembershipPaths
from graph.records import ItemStore
from graph.scopes import ScopeStore
from query.principals import PrincipalResolver
from tests.sandbox import small
from tests.sandbox.small import allow, deny, item, page
from tests.support.engines import WORLDS, LiveEngine, live_engine
from tests.support.postgres import PostgresServer

ROOT = Path(__file__).resolve().parents[2]


def explainer_of(engine: EmbeddedEngine) -> Explainer:
    """An explainer over an open engine's record, with the keys of its world."""
    assert engine.sandbox is not None
    state = engine.sandbox.state
    keys = {k: principals.user(str(state.tenant_id), state.oid(k)) for k in state.world.people}
    settings = engine.settings
    return explainer(engine.database, limit=settings.revocation_limit, required=connector_names(settings), keys=keys)


def printed(explanation: Explanation) -> list[str]:
    """The lines that a terminal shows."""
    text = StringIO()
    show(explanation, Console(width=80, file=text))
    return [line.rstrip() for line in text.getvalue().splitlines()]


# --- explanation and search can't disagree


def test_it_opens_for_every_person_and_scope_exactly_what_a_search_is_trimmed_to(world_engine: LiveEngine) -> None:
    engine = world_engine.engine
    assert engine.sandbox is not None
    limit = engine.settings.revocation_limit
    scopes = ScopeStore(engine.database, revocation_limit=limit)
    directory = DirectoryStore(engine.database, required=connector_names(engine.settings))
    explain = explainer_of(engine)
    with engine.database.connection() as connection:
        rows = connection.execute("SELECT id FROM scopes ORDER BY id").fetchall()
        shown = connection.execute(
            "SELECT DISTINCT ON (scope) scope, uri FROM items WHERE lifecycle <> 'deleted' ORDER BY scope, uri"
        ).fetchall()
    an_item = {r["scope"]: r["uri"] for r in shown}
    assert len(an_item) > 8
    opened = 0
    for key, person in engine.sandbox.state.world.people.items():
        who = principals.user(str(engine.sandbox.state.tenant_id), engine.sandbox.state.oid(key))
        asker = issue_asker(principal=who, tenant=str(engine.sandbox.state.tenant_id), agent=None, scopes=frozenset())
        try:
            trim = scopes.trim_for(PrincipalResolver(directory, scopes).resolve(asker))
        except IdentityError:
            trim = None
        for row in rows:
            standing = scopes.standing(ScopeId(row["id"]), directory.closure(who) | {who})
            assert standing is not None
            if trim is not None:
                assert standing.opens == (standing.scope.id in trim.readable), (key, row["id"])
            if (uri := an_item.get(row["id"])) is not None:
                told = explain.explain(uri, key)
                readable = trim is not None and uri in ItemStore(engine.database).visible(trim, [uri])
                assert told.may_read == (readable and person.kind != "service"), (key, uri)
                opened += told.may_read
    assert opened > 20


def test_every_path_that_it_names_is_a_chain_of_memberships_from_the_person_to_the_entry(
    world_engine: LiveEngine,
) -> None:
    engine = world_engine.engine
    assert engine.sandbox is not None
    with engine.database.connection() as connection:
        edges = {
            (r["member"], r["container"])
            for r in connection.execute("SELECT member, container FROM memberships").fetchall()
        }
        uris = connection.execute("SELECT DISTINCT ON (scope) uri FROM items WHERE shown ORDER BY scope").fetchall()
    longest = 0
    for key in engine.sandbox.state.world.people:
        for row in uris:
            told = explainer_of(engine).explain(row["uri"], key)
            for entry in (e for g in told.gates for e in g.entries):
                steps = [s.principal for s in entry.path]
                assert steps[0] == told.person.principal
                assert steps[-1] == entry.principal
                assert all(pair in edges for pair in pairwise(steps))
                longest = max(longest, len(steps))
    assert longest >= 3


# --- what it says


PROJECT: dict[str, Any] = {
    "acl": allow("group:ops", "gil", "dan", "bot"),
    "areas": {"/Pay": {"inherit": False, "acl": allow("cat")}, "/Shut": {"acl": [*allow("ann"), *deny("group:staff")]}},
    "work_items": [
        *(item(1, title="Tide table"), item(2, "/Pay", title="Bonus")),
        *(item(3, "/Shut", title="Twice"), item(4, title="Twice")),
    ],
    "wikis": {"Handbook": {"pages": {"Start": page("Begin here.")}}},
    "repos": {
        "crane": {
            "commits": [small.commit("k", crane_py="lift()")],
            "pull_requests": [{"id": 88, "title": "Lift", "created": small.stamp(), "source": "x"}],
        }
    },
}


@pytest.fixture(scope="module")
def harbour(postgres: PostgresServer, embedder: Embedder) -> Iterator[LiveEngine]:
    """A small world, synced. Only the test that says so changes it, and puts it back."""
    with live_engine(small.world(PROJECT), postgres, embedder) as live:
        yield live


@pytest.fixture
def explain(harbour: LiveEngine) -> Callable[[str, str], Explanation]:
    """Explain an item to a person in that world."""
    return explainer_of(harbour.engine).explain


Explain = Callable[[str, str], Explanation]


def test_an_allow_is_told_with_node_entry_and_path_of_membership(explain: Explain) -> None:
    told = explain("1", "ben")
    assert told.may_read
    assert [g.gate for g in told.gates] == ["project", "object", "licence"]
    project = told.gates[0]
    assert (project.outcome, project.node) == (Outcome.ALLOWED, "project P")
    assert [s.name for s in project.entries[0].path] == ["Ben Baker", "Inner", "[Small]\\Ops"]
    assert [s.name for s in told.gates[2].entries[0].path] == ["Ben Baker", "basic access to small"]
    lines = printed(told)
    assert lines[0] == "YES  Ben Baker may read “Tide table”"
    assert "      Ben Baker → Inner → [Small]\\Ops" in lines


def test_a_deny_is_told_with_the_group_that_it_names(explain: Explain) -> None:
    told = explain("3", "ann")
    assert not told.may_read
    assert told.gates[1].outcome is Outcome.DENIED
    assert (told.gates[1].node, told.gates[1].looked_at) == ("area P\\Shut", ("area P\\Shut",))
    assert [e.name for e in told.gates[1].entries] == ["Staff"]
    assert told.obstacles == ()
    assert "  ✗ object: area P\\Shut denies Staff" in printed(told)


def test_where_nobody_of_theirs_is_named_it_says_whom_the_gate_would_let_in(explain: Explain) -> None:
    told = explain("Bonus", "ann")
    assert told.gates[1].outcome is Outcome.NOT_NAMED
    assert [s.name for s in told.gates[1].would_admit] == ["Cat Castle"]
    assert told.gates[1].looked_at == ("area P\\Pay",)
    assert "  ✗ object: no entry for them on area P\\Pay" in printed(told)
    assert "      it would let in Cat Castle" in printed(told)


def test_a_level_that_does_not_suffice_is_told_as_the_licence_gate(explain: Explain) -> None:
    told = explain("!88", "cat")
    assert [g.outcome for g in told.gates] == [Outcome.ALLOWED, Outcome.ALLOWED, Outcome.NOT_NAMED]
    assert [s.name for s in told.gates[2].would_admit] == ["basic access to small"]
    assert "  ✗ licence: they hold no access level that opens it" in printed(told)
    assert explain("!88", "ben").may_read


@pytest.mark.parametrize(
    ("person", "kind"), [("eve", "account_disabled"), ("bot", "service_account"), ("user:t/nobody", "account_unknown")]
)
def test_an_account_that_can_t_ask_is_told_whatever_the_rule_says(person: str, kind: str, explain: Explain) -> None:
    told = explain("1", person)
    assert not told.may_read
    assert kind in [o.kind for o in told.obstacles]


def test_an_application_with_a_policy_is_judged_by_what_it_was_granted_and_by_its_spaces(
    harbour: LiveEngine, explain: Explain
) -> None:
    engine, bot = harbour.engine, explain("1", "bot").person.principal

    def within(item: str, space: str) -> Explanation:
        policies = {bot: frozenset({space})}
        return explainer(engine.database, limit=engine.settings.revocation_limit, policies=policies).explain(item, bot)

    assert within("1", "kind:area").may_read
    granted_to_others = within("2", "kind:area")
    assert not granted_to_others.may_read
    assert granted_to_others.obstacles == ()
    elsewhere = within("1", "kind:repo")
    assert not elsewhere.may_read
    assert [o.kind for o in elsewhere.obstacles] == ["outside_policy"]
    assert any("none of the spaces" in line for line in printed(elsewhere))


@pytest.mark.parametrize(
    "name",
    [
        "1",
        "#1",
        "AB#1",
        "tide TABLE",
        "ctx://ado/small/work-items/1",
        "ctx://ado/small/work-items/1/comments/1",
        "https://dev.azure.com/Small/P/_workitems/edit/1",
        "https://dev.azure.com/small/P/_boards/board?workitem=1",
    ],
)
def test_an_item_answers_to_its_number_title_and_addresses(name: str, explain: Explain) -> None:
    assert explain(name, "ben").item.uri == "ctx://ado/small/work-items/1"


def test_other_items_answer_to_their_path_and_web_address(explain: Explain) -> None:
    file = explain("crane.py", "ben").item
    assert file.uri.endswith("/files/crane.py")
    assert explain("https://dev.azure.com/Small/P/_git/crane?path=/crane.py", "ben").item == file
    assert explain("https://dev.azure.com/Small/P/_git/crane/pullrequest/88", "ben").item == explain("!88", "ben").item


@pytest.mark.parametrize("name", ["ben", "person:ben", "BEN@small.example"])
def test_a_person_answers_to_key_sign_in_name_object_id_and_principal(name: str, explain: Explain) -> None:
    who = explain("1", name).person
    assert who.name == "Ben Baker"
    assert explain("1", who.principal).person == who
    assert explain("1", who.principal.rpartition("/")[2].upper()).person == who


@pytest.mark.parametrize(
    ("item_name", "person", "says"),
    [
        ("Twice", "ben", "several items answer to that: ctx://ado/small/work-items/3, ctx://ado/small/work-items/4"),
        ("No such title", "ben", "no item of the record"),
        ("!404", "ben", "no item of the record"),
        ("1", "nobody@small.example", "no source lists such an account"),
        ("1", "user:", "not a principal"),
    ],
)
def test_what_is_not_one_thing_gets_a_sentence(item_name: str, person: str, says: str, explain: Explain) -> None:
    with pytest.raises(InputError, match=says.replace("(", r"\(")):
        explain(item_name, person)


def test_an_address_that_the_record_does_not_know_is_told_as_such(explain: Explain) -> None:
    told = explain("ctx://ado/small/work-items/999", "ben")
    assert not told.may_read
    assert [o.kind for o in told.obstacles] == ["item_unknown"]
    assert explanation_json(told)["scope"] is None


def test_an_item_that_is_hidden_deleted_or_not_indexed_is_shut_to_those_whom_the_rule_lets_in(
    harbour: LiveEngine, explain: Explain
) -> None:
    uri, kinds = explain("4", "ben").item.uri if explain("4", "ben").may_read else "", []
    for change in (
        "lifecycle = 'hidden', reason = 'it was not listed'",
        "indexed_digest = NULL",
        "lifecycle = 'deleted', reason = 'gone'",
    ):
        with harbour.engine.database.connection() as connection:
            before = connection.execute("SELECT lifecycle, reason, indexed_digest FROM items WHERE uri = %s", [uri])
            row = before.fetchone()
            assert row is not None
            connection.execute(f"UPDATE items SET {change} WHERE uri = %s", [uri])  # type: ignore[arg-type]
        told = explain(uri, "ben")
        kinds.append([o.kind for o in told.obstacles])
        assert not told.may_read
        assert [g.outcome for g in told.gates] == [Outcome.ALLOWED] * 3
        with harbour.engine.database.connection() as connection:
            connection.execute(
                "UPDATE items SET lifecycle = %s, reason = %s, indexed_digest = %s WHERE uri = %s",
                [row["lifecycle"], row["reason"], row["indexed_digest"], uri],
            )
    assert kinds == [["item_hidden"], ["item_not_indexed"], ["item_deleted"]]
    assert explain(uri, "ben").may_read


def test_permissions_that_are_too_old_are_told_with_their_age(harbour: LiveEngine) -> None:
    engine = harbour.engine
    stale = explainer(engine.database, limit=timedelta(microseconds=1), required=connector_names(engine.settings))
    told = stale.explain("1", "ben@small.example")
    assert not told.may_read
    assert [o.kind for o in told.obstacles] == ["permissions_too_old", "memberships_too_old"]
    assert "revocation_sla" in told.obstacles[0].says


def test_nothing_that_it_prints_is_wider_than_a_terminal_but_an_address_which_stays_whole(explain: Explain) -> None:
    for name in ("1", "2", "3", "!88", "crane.py", "ctx://ado/small/work-items/999"):
        for person in small.PEOPLE:
            told = explain(name, person)
            lines = printed(told)
            assert lines.pop(1) == f"  item    {told.item.uri}"
            assert max(map(len, lines)) <= 80


def test_a_line_that_does_not_fit_goes_on_below_its_own_beginning(explain: Explain) -> None:
    told = replace(explain("1", "ben"), notes=("a note of some length " * 5,))
    first, second = printed(told)[-2:]
    assert first.startswith("  note a note of some length")
    assert second.startswith("       ")


# --- paths


def test_a_path_is_the_shortest_and_of_equals_always_the_same(ingest_db: Database) -> None:
    def edges(*pairs: tuple[str, str]) -> None:
        with ingest_db.connection() as connection:
            for member, container in pairs:
                connection.execute("INSERT INTO memberships VALUES ('teams', %s, %s)", [container, member])

    # Two ways of equal length to d, a longer one, and a cycle that leads nowhere.
    edges(("user:t/u", "group:t/c"), ("user:t/u", "group:t/b"), ("group:t/b", "group:t/d"), ("group:t/c", "group:t/d"))
    edges(("group:t/d", "group:t/b"), ("group:t/c", "group:t/e"), ("group:t/e", "group:t/d"))
    who, goal = Principal("user:t/u"), Principal("group:t/d")
    paths = MembershipPaths(ingest_db)
    assert paths.from_(who, [goal]) == {goal: (who, Principal("group:t/b"), goal)}
    assert paths.from_(who, [who, Principal("group:t/x")]) == {who: (who,)}


# --- the command


@pytest.fixture(scope="module")
def synced(embedder: Embedder) -> Iterator[Path]:
    """A data folder that havenlicht was synced into."""
    folder = Path(tempfile.mkdtemp(prefix="context-engine-explain-"))
    with EmbeddedEngine(data=folder, world=WORLDS / "havenlicht", embedder=embedder) as engine:
        assert {r.state for r in engine.sync()} == {"complete"}
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def run(*arguments: str, data: Path) -> Any:
    """The command on that folder."""
    options = ["--world", str(WORLDS / "havenlicht"), "--data", str(data)]
    return CliRunner().invoke(cli.app, ["explain-access", *arguments, *options])


def test_the_command_ends_with_0_for_yes_and_1_for_no_and_prints_json(synced: Path) -> None:
    yes = run("117", "joost", "--json", data=synced)
    assert yes.exit_code == 0, yes.output
    told = json.loads(yes.stdout)
    assert told["may_read"] is True
    assert told["gates"][0]["entries"][0]["path"][-1]["name"] == "Walstroom engineers"
    no = run("117", "mees", data=synced)
    assert no.exit_code == 1
    assert no.stdout.startswith("NO  Mees Dijkstra may not read “Shore power")


def test_beside_a_serving_engine_it_reads_that_engine_s_record(synced: Path) -> None:
    with EmbeddedPostgres(synced), announced(synced, Running(os.getpid(), "http://127.0.0.1:1", None)):
        assert run("117", "joost", data=synced).exit_code == 0
    # Its owner is gone, and another takes the folder as if nothing had been.
    assert run("117", "joost", data=synced).exit_code == 0


def test_where_nothing_was_synced_it_says_so(tmp_path: Path) -> None:
    done = run("117", "joost", data=tmp_path / "new")
    assert "nothing was synced into it yet" in str(done.exception)
    assert not (tmp_path / "new").exists()


def test_the_query_plane_has_no_way_to_look_without_a_trim() -> None:
    for package in ("query", "ingestion"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.ImportFrom):
                    assert node.module not in {"graph.item_lookup", "graph.membership_path", "graph.standing"}, path
