"""Help, and a word about a wrong option, wait for none of the libraries that the work of a command needs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from context_engine.cli import app
from tests.command_line.test_commands import environment, run

HEAVY = {"torch", "sentence_transformers", "qdrant_edge", "psycopg", "sqlalchemy", "fastapi", "celery", "httpx"}


def test_the_command_line_is_there_before_the_libraries_of_its_commands() -> None:
    told = "import json, sys; import context_engine.cli; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, env=environment(), check=True)
    loaded = set(json.loads(done.stdout))
    assert "typer" in loaded
    assert loaded & HEAVY == set()


def test_help_names_every_command(tmp_path: Path) -> None:
    names = {c.name or getattr(c.callback, "__name__", "").rstrip("_") for c in app.registered_commands}
    assert {"ask", "sync", "serve", "eval", "worker"} <= names
    shown = run("--help", cwd=tmp_path).stdout
    assert [name for name in names if f" {name} " not in shown] == []
