"""The command line shows, verifies, exports and prunes the audit log; no token stands in it, nor in a log."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from context_engine import cli
from context_engine.auditing import last_kept
from context_engine.commands.audit_log import audit_log_of
from context_engine.commands.target import Target
from context_engine.metrics import serve_metrics
from context_engine.worlds import AUDIENCE
from core.errors import ConfigError, InputError
from core.settings import load_settings
from graph.db import Database
from tests.audit.support import NOW, Tamperer, entries_of
from tests.audit.test_withheld import BONUS, PROJECT, QUESTION
from tests.sandbox import small
from tests.support.engines import LiveEngine, live_engine
from tests.support.postgres import FreshDatabase, PostgresServer
from tests.support.quick_embedder import QuickEmbedder


@pytest.fixture(scope="module")
def live(postgres: PostgresServer) -> Iterator[LiveEngine]:
    with live_engine(small.world(PROJECT), postgres, QuickEmbedder()) as engine:
        engine.ask("ann", QUESTION)
        engine.expand("ann", BONUS)
        engine.ask("cat", QUESTION)
        assert engine.engine.audit_plane is not None
        engine.engine.audit_plane.turn()
        yield engine


@pytest.fixture
def run(live: LiveEngine, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run `context-engine audit …` on an auditor's machine: all that it has is the role."""
    url = live.engine.settings.postgres_audit_url
    assert url is not None
    monkeypatch.setenv("CONTEXT_ENGINE_POSTGRES_AUDIT_URL", url.get_secret_value())

    def invoke(*arguments: str, exit_code: int = 0) -> str:
        result = CliRunner().invoke(cli.app, ["audit", *arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == exit_code, result.output
        return result.stdout

    return invoke


def test_show_tells_who_asked_what_and_what_was_withheld(run: Any) -> None:
    lines = run("show").splitlines()
    assert max(len(line) for line in lines if "ctx://" not in line and "user:" not in line) <= 80
    text = "\n".join(lines)
    assert "context  0 shown, 2 withheld" in text
    assert "item  not_found" in text
    [entry] = json.loads(run("show", "1", "--json"))["entries"]
    assert entry["withheld"]["items"][0]["uri"] == BONUS
    assert entry["checks"][0]["readable"] >= 1
    whole = run("show", "1")
    assert BONUS in whole
    assert "its rule does not let them in" in whole
    assert "object: names none of theirs" in whole
    assert [e["seq"] for e in json.loads(run("show", "--withheld", "--json"))["entries"]] == [1]
    assert run("show", "99", exit_code=1) == ""
    assert json.loads(run("show", "99", "--json", exit_code=1)) == {"entries": []}


def test_verify_says_that_the_log_is_whole_and_prints_its_head(run: Any) -> None:
    told = json.loads(run("verify", "--json"))
    assert told["holds"]
    assert told["entries"] == 3
    assert "the log is whole: 3 entries" in run("verify", "--head", told["head"])
    other = "2:" + "0" * 64
    assert "entry 2" in run("verify", "--head", other, exit_code=1)
    assert json.loads(run("verify", "--head", other, "--json", exit_code=1))["findings"][0]["fault"] == "other_head"
    with pytest.raises(InputError):
        run("verify", "--head", "nonsense")


def test_an_export_is_a_new_file_that_verifies_by_itself(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    run("export", "--output", str(file))
    assert file.stat().st_mode & 0o777 == 0o600
    assert "the log is whole: 3 entries" in run("verify", "--file", str(file))
    with pytest.raises(ConfigError):
        run("export", "--output", str(file))
    table = tmp_path / "audit.csv"
    run("export", "--format", "csv", "--output", str(table), "--from", "2020-01-01", "--to", "2020-01-02")
    assert table.read_text("utf-8").count("\n") == 1
    changed = file.read_text("utf-8").replace('"not_found"', '"ok"')
    (tmp_path / "changed.jsonl").write_text(changed, "utf-8")
    assert "it was changed" in run("verify", "--file", str(tmp_path / "changed.jsonl"), exit_code=1)
    for bad in (("--from", "yesterday"), ("--asker", "ann")):
        with pytest.raises(InputError):
            run("export", *bad)
    with pytest.raises(ConfigError):
        run("export", "--format", "xml")


def test_prune_wants_to_know_how_long_and_says_what_went(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError):
        run("prune")
    assert json.loads(run("prune", "--days", "30", "--json"))["pruned"] == 0
    monkeypatch.setenv("CONTEXT_ENGINE_AUDIT_KEEP_DAYS", "1")
    assert "0 entries from before" in run("prune")


def test_whole_days_are_kept() -> None:
    assert last_kept(NOW, 1) == NOW.replace(hour=0) - timedelta(days=1)
    assert last_kept(NOW + timedelta(hours=14), 1) == last_kept(NOW, 1)


def test_the_work_of_a_turn_prunes_by_the_setting(
    postgres: PostgresServer, query_db: Database, audit_db: Database, fresh_database: FreshDatabase
) -> None:
    from context_engine.auditing import AuditPlane
    from graph.audit_reading import Retention
    from tests.audit.support import appended

    appended(query_db, 3)
    tamperer = Tamperer(fresh_database)
    tamperer.aged(entries_of(audit_db), timedelta(days=9), timedelta(days=5), timedelta(0))
    tamperer.close()
    AuditPlane(None, Retention(audit_db), keep_days=0).turn()
    assert len(entries_of(audit_db)) == 3
    plane = AuditPlane(None, Retention(audit_db), keep_days=7)
    plane.turn()
    plane.turn()
    assert [(e.seq, e.operation) for e in entries_of(audit_db)] == [(2, "context"), (3, "context"), (4, "prune")]


def test_without_the_auditor_s_role_nothing_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    target = Target(tmp_path, None, load_settings(environ={"CONTEXT_ENGINE_POSTGRES_URL": "postgresql://x"}))
    with pytest.raises(ConfigError) as caught, audit_log_of(target):
        pass
    assert caught.value.where == "postgres_audit_url"
    with pytest.raises(ConfigError), audit_log_of(Target(tmp_path, None, load_settings(environ={}))):
        pass


def test_neither_tokens_nor_what_a_source_answered_stand_in_the_log_or_a_log(
    live: LiveEngine, caplog: pytest.LogCaptureFixture
) -> None:
    token = live.token("ann")
    with caplog.at_level(logging.DEBUG):
        for headers in ({"Authorization": f"Bearer {token}"}, {"Authorization": f"Bearer {token}x"}, {}):
            live.client.post("/v1/context", json={"question": "zyxquark canary"}, headers=headers)
        assert live.engine.audit_plane is not None
        live.engine.audit_plane.turn()
    with live.engine.database.connection() as connection:
        tables = ("audit", "audit_questions", "audit_examinations", "audit_withheld")
        rows = [str(r) for t in tables for r in connection.execute(f"SELECT x::text AS x FROM {t} x").fetchall()]  # type: ignore[arg-type]
    stored = "\n".join(rows)
    for piece in token.split("."):
        assert piece not in stored
        assert piece not in caplog.text
    assert "zyxquark canary" not in caplog.text


def test_whoever_is_turned_away_for_their_token_is_counted_and_not_audited(
    live: LiveEngine, fresh_database: FreshDatabase
) -> None:
    with live.engine.database.connection() as connection:
        before = connection.execute("SELECT count(*) AS n FROM audit").fetchone()
    counts = live.engine.services.service.refused.counts
    known = counts()
    sandbox = live.engine.sandbox
    assert sandbox is not None
    no_right = sandbox.token("ann", audience=AUDIENCE, scopes=["user.read"])
    for token, status in ((None, 401), ("x.y.z", 401), (no_right, 403)):
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        assert live.client.post("/v1/context", json={"question": "who?"}, headers=headers).status_code == status
    with live.engine.database.connection() as connection:
        assert connection.execute("SELECT count(*) AS n FROM audit").fetchone() == before
    more = {reason: n - known[reason] for reason, n in counts().items() if n != known[reason]}
    assert more == {"missing_token": 1, "malformed_token": 1, "forbidden": 1}
    settings = load_settings(environ={}).model_copy(update={"metrics_port": _free_port()})
    with serve_metrics(settings, live.engine.database, refused=counts) as port:
        text = httpx.get(f"http://127.0.0.1:{port}/metrics").text
    assert f'context_engine_refused_callers_total{{reason="forbidden"}} {counts()["forbidden"]:.1f}' in text


def _free_port() -> int:
    from context_engine.postgres_folder import free_port

    return free_port()
