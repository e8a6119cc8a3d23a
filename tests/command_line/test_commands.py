"""The command line on a world: what a newcomer types works, and mistakes get a sentence, never a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from context_engine.commands.record import record_of
from context_engine.commands.target import Target
from graph.runs import RunStore
from tests.support.embedding_server import embedding_server, settings_of
from tests.support.engines import WORLDS

WORLD = WORLDS / "havenlicht"


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """One command in a process of its own, as a person would start it."""
    return subprocess.run(
        [sys.executable, "-m", "context_engine.cli", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env=environment(),
    )


def environment(**more: str) -> dict[str, str]:
    """This process's environment with the project importable from anywhere."""
    root = str(Path(__file__).resolve().parents[2])
    return {**os.environ, "PYTHONPATH": root, **more}


@pytest.fixture(scope="module")
def embedding() -> Iterator[None]:
    """Commands embed at a server; `demo` has a test with the model that ships."""
    with embedding_server() as url, pytest.MonkeyPatch.context() as patch:
        for name, value in settings_of(url).items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, embedding: None) -> Path:
    """A data folder with havenlicht synced into it by the command."""
    folder = tmp_path_factory.mktemp("command-line") / "data"
    done = run("sync", "--world", str(WORLD), "--data", str(folder), "--json", cwd=folder.parent)
    assert done.returncode == 0, done.stderr
    runs = json.loads(done.stdout)["runs"]
    assert {r["state"] for r in runs} == {"complete"}
    assert {r["connector"] for r in runs} == {"teams", "azure_devops"}
    return folder


def on(data: Path) -> list[str]:
    """The options that reach the synced world."""
    return ["--world", str(WORLD), "--data", str(data)]


def test_a_second_sync_embeds_nothing_again(data: Path) -> None:
    done = run("sync", *on(data), "--json", cwd=data.parent)
    counts: dict[str, int] = {}
    for r in json.loads(done.stdout)["runs"]:
        for word, n in r["counts"].items():
            counts[word] = counts.get(word, 0) + n
    assert counts.get("embedded", 0) == 0
    assert counts.get("deleted", 0) == 0


def test_ask_prints_the_whole_bundle_as_json_and_as_markdown(data: Path) -> None:
    asked = run("ask", "what is ETB?", "--as", "femke", *on(data), "--json", cwd=data.parent)
    assert asked.returncode == 0, asked.stderr
    bundle = json.loads(asked.stdout)
    assert bundle["schema"] == "context-bundle/1"
    assert bundle["glossary"]
    read = run("ask", "what is ETB?", "--as", "femke", *on(data), "--markdown", cwd=data.parent)
    assert "[G1]" in read.stdout
    assert "ETB" in read.stdout
    shown = run("ask", "what is ETB?", "--as", "femke", *on(data), cwd=data.parent)
    assert max(map(len, shown.stdout.splitlines())) <= 80


def test_doctor_says_what_is_reachable_and_fresh(data: Path) -> None:
    told = run("doctor", *on(data), "--json", cwd=data.parent)
    findings: list[dict[str, Any]] = json.loads(told.stdout)["findings"]
    by_name = {f["what"]: f for f in findings}
    assert by_name["postgres"]["health"] == "ok"
    assert by_name["qdrant"]["health"] == "ok"
    assert "permissions of teams" in by_name
    assert told.returncode == 0, told.stdout


def test_sources_tell_how_runs_ended_and_what_is_parked(data: Path) -> None:
    told = run("sources", "runs", *on(data), "--json", cwd=data.parent)
    runs = json.loads(told.stdout)["runs"]
    assert told.returncode == 0, told.stderr
    assert {r["state"] for r in runs} == {"complete"}
    assert all(r["checks"]["passed"] for r in runs if r["reader"] != "access")
    assert all(r["counts"]["requests"] > 0 for r in runs)
    shown = run("sources", "runs", *on(data), cwd=data.parent)
    assert max(map(len, shown.stdout.splitlines())) <= 80
    assert run("sources", "failures", *on(data), cwd=data.parent).stdout == "no item is parked\n"
    uri = "ctx://ado/havenlicht/work-items/1"
    target = Target.of(world=WORLD, data=data)
    with record_of(target) as database:
        store = RunStore(database)
        for _ in range(3):
            store.fail("work_items", uri, "the source failed (HTTP 503)", datetime.now(UTC))
    told = run("sources", "failures", *on(data), "--json", cwd=data.parent)
    assert told.returncode == 1
    [parked] = json.loads(told.stdout)["failures"]
    assert (parked["uri"], parked["attempts"]) == (uri, 3)
    assert parked["due_at"] is not None
    shown = run("sources", "failures", "--source", "work_items", *on(data), cwd=data.parent)
    assert uri in shown.stdout.splitlines()
    assert "3 tries" in shown.stdout
    assert run("sources", "failures", "--source", "wikis", *on(data), cwd=data.parent).returncode == 0
    assert "1 parked item will" in run("sources", "retry", *on(data), cwd=data.parent).stdout
    with record_of(target) as database:
        assert [f.due_at for f in RunStore(database).failures()] == [None]
        RunStore(database).clear_failures([uri])
    wrong = run("sources", "failures", "--source", "nothing", *on(data), cwd=data.parent)
    assert wrong.returncode == 64
    assert "work_items" in wrong.stderr


def test_token_prints_a_token_and_nothing_else(data: Path) -> None:
    printed = run("token", "femke", *on(data), cwd=data.parent)
    assert printed.stdout.strip().count(".") == 2
    assert len(printed.stdout.strip().split()) == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["ask", "x", "--as", "nobody-of-that-name"], ["nobody-of-that-name"]),
        (["ask", "x"], ["--as"]),
        (["token", "nobody"], ["nobody"]),
        (["event", "no-such-event"], ["no-such-event"]),
        (["sync", "--world", "/nowhere"], ["/nowhere", "world.yaml"]),
        (["eval", "/nowhere/questions.yaml"], ["/nowhere/questions.yaml"]),
    ],
)
def test_a_mistake_gets_a_sentence_and_no_traceback(data: Path, arguments: list[str], says: list[str]) -> None:
    options = on(data) if "--world" not in arguments else []
    done = run(*arguments, *options, cwd=data.parent)
    assert done.returncode not in {0, 1, 2}
    assert "Traceback" not in done.stderr + done.stdout
    for words in says:
        assert words in done.stderr


def test_an_unknown_setting_is_named_with_the_one_that_was_meant(tmp_path: Path) -> None:
    config = tmp_path / "settings.toml"
    config.write_text("revocation_slo = 5\n", "utf-8")
    done = run("doctor", "--config", str(config), cwd=tmp_path)
    assert "revocation_slo" in done.stderr
    assert "revocation_sla" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_person_of_no_world_is_refused_before_anything_is_opened(tmp_path: Path) -> None:
    config = tmp_path / "settings.toml"
    config.write_text(f'data = "{tmp_path / "data"}"\n', "utf-8")
    done = run("ask", "what is ETB?", "--as", "femke", "--config", str(config), cwd=tmp_path)
    assert done.returncode == 64
    assert "--token" in done.stderr
    assert not (tmp_path / "data").exists()


def test_eval_takes_questions_from_anywhere_and_tells_a_leak_by_its_exit_status(data: Path, tmp_path: Path) -> None:
    questions = tmp_path / "mine.yaml"
    readable = "wiki:Walstroom.wiki/Connecting a vessel"
    questions.write_text(
        "world: havenlicht\n"
        "questions:\n"
        "  - {id: fine, as: femke, ask: 'what is ETB?', expect: {intent: definition}}\n"
        "  - {id: wrong, as: joost, ask: 'How do I connect a vessel?', "
        f"expect: {{first: '{readable}', intent: status}}}}\n",
        "utf-8",
    )
    own = tmp_path / "eval-data"
    done = run("eval", str(questions), "--world", str(WORLD), "--data", str(own), "--json", cwd=tmp_path)
    report = json.loads(done.stdout)
    assert done.returncode == 1
    assert [q["passed"] for q in report["questions"]] == [True, False]
    assert set(report["totals"]) == {"asked", "passed", "leaks", "recall_at_10", "mrr", "latency_ms"}
    questions.write_text(
        f"world: havenlicht\nquestions:\n  - {{id: leak, as: joost, ask: 'How do I connect a vessel?', "
        f"expect: {{absent: ['{readable}']}}}}\n",
        "utf-8",
    )
    done = run("eval", str(questions), "--world", str(WORLD), "--data", str(own), "--json", cwd=tmp_path)
    assert done.returncode == 2, done.stdout


@pytest.mark.parametrize("arguments", [("eval", "--nope"), ("ask",), ("nothing",)])
def test_a_wrong_use_is_not_taken_for_a_leak(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 64
    assert "Usage" in done.stderr
    assert "Traceback" not in done.stderr
