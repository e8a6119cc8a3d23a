"""What lies in a data folder: nothing of others is touched there, and what is damaged is mended or told."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from context_engine import running, worlds
from core.errors import ConfigError
from fixtures.sandbox.server import SandboxServer
from tests.command_line.test_commands import run
from tests.support.engines import WORLDS

WORLD = WORLDS / "havenlicht"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder as an engine on the world leaves it, with something of the user's in it."""
    worlds.forget_if_changed(WORLD, tmp_path)
    for name in ("postgres", "qdrant", "sandbox"):
        (tmp_path / name).mkdir()
    (tmp_path / "thesis.txt").write_text("years of work")
    return tmp_path


def test_a_changed_world_takes_its_stores_away_and_nothing_else(data: Path) -> None:
    (data / "owner.lock").write_text("held")
    (data / "world.json").write_text('{"world": "another", "digest": ""}')
    assert worlds.forget_if_changed(WORLD, data)
    assert sorted(p.name for p in data.iterdir()) == ["owner.lock", "thesis.txt", "world.json"]
    assert not worlds.forget_if_changed(WORLD, data)


@pytest.mark.parametrize("text", ["", "{", "null", "[]"])
def test_a_mark_that_says_nothing_is_a_changed_world(data: Path, text: str) -> None:
    (data / "world.json").write_text(text)
    assert worlds.forget_if_changed(WORLD, data)
    assert not (data / "postgres").exists()


def test_a_world_that_is_its_own_data_folder_survives(tmp_path: Path) -> None:
    world = tmp_path / "world"
    shutil.copytree(WORLD, world)
    worlds.forget_if_changed(world, world)
    (world / "postgres").mkdir()
    (world / "sandbox").mkdir()
    (world / "postgres" / "log").write_text("stores are no part of the world")
    assert not worlds.forget_if_changed(world, world)
    (world / "world.yaml").write_text((world / "world.yaml").read_text("utf-8") + "\n# changed\n", "utf-8")
    assert worlds.forget_if_changed(world, world)
    assert (world / "world.yaml").exists()
    assert (world / "files").is_dir()


def test_stores_of_an_organization_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "postgres").mkdir()
    with pytest.raises(ConfigError, match="organization"):
        worlds.forget_if_changed(WORLD, tmp_path)
    assert (tmp_path / "postgres").exists()


@pytest.mark.parametrize(
    "said",
    ["", "null", "\udcff", '{"pid": 0, "api": "x", "sandbox": null}', '{"pid": 1e30, "api": "x", "sandbox": null}',
     json.dumps({"pid": 10**30, "api": "x", "sandbox": None}), json.dumps({"pid": 1, "api": 5, "sandbox": None})],
)  # fmt: skip
def test_a_damaged_announcement_is_none(tmp_path: Path, said: str) -> None:
    (tmp_path / "running.json").write_bytes(said.encode("utf-8", "surrogateescape"))
    assert running.find(tmp_path) is None


@pytest.mark.parametrize(
    ("name", "said"),
    [("applied.json", "null"), ("applied.json", '{"applied": 5}'), ("applied.json", '{"applied": [["a"]]}'),
     ("port", "-1"), ("port", "99999999")],
)  # fmt: skip
def test_a_damaged_sandbox_folder_starts(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "sandbox").mkdir()
    (tmp_path / "sandbox" / name).write_text(said)
    with SandboxServer(WORLD, tmp_path) as sandbox:
        assert sandbox.port > 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("token", "joost", "--world", str(WORLD), "--data", "/dev/null"),
        ("token", "joost", "--world", str(WORLD), "--data", "/proc/x"),
        ("sync", "--config", "/"),
        ("serve", "--world", str(WORLD), "--data", "data", "--port", "99999999"),
        ("eval", "/", "--world", str(WORLD), "--data", "data"),
    ],
)
def test_a_path_that_can_not_be_used_gets_a_sentence(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode in {64, 65}, done.stderr
    assert "Traceback" not in done.stderr
    assert os.linesep not in done.stderr.strip() or "port" in done.stderr


def test_an_eval_takes_away_its_own_stores_alone_and_none_that_are_in_use(data: Path) -> None:
    from context_engine.commands.evaluation import _fresh
    from context_engine.embedded import owned

    with owned(data), pytest.raises(ConfigError, match="in use"):
        _fresh(data)
    assert (data / "postgres").exists()
    _fresh(data)
    assert sorted(p.name for p in data.iterdir()) == ["owner.lock", "thesis.txt"]
