"""The audit log of an embedded engine: its role is made in old data folders too, and it is read without the engine."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg
import pytest

from context_engine.commands import audit
from context_engine.commands.target import DEMO_WORLD, Target
from context_engine.postgres import EmbeddedPostgres
from graph.audit import AuditLog
from graph.db import Database
from tests.audit.support import entry, refused


def test_a_data_folder_of_an_earlier_version_gets_the_role_and_its_log_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    credentials = tmp_path / "postgres" / "credentials.json"
    with (
        EmbeddedPostgres(tmp_path, durable=False) as server,
        psycopg.connect(server.superuser_dsn, autocommit=True) as admin,
    ):
        admin.execute("DROP ROLE context_audit")
    known = json.loads(credentials.read_text("utf-8"))
    del known["audit"]
    credentials.write_text(json.dumps(known), "utf-8")
    target = Target(tmp_path, DEMO_WORLD, None)
    # Nothing serves: the command starts the server, brings the schema up to date, and stops it again.
    assert audit.verify_log(target, None, as_json=True) == 0
    assert json.loads(capsys.readouterr().out)["entries"] == 0
    with EmbeddedPostgres(tmp_path, durable=False) as server:
        asking = Database(server.query_dsn)
        AuditLog(asking).append(entry())
        asking.close()
        assert refused(server.audit_dsn, "DELETE FROM audit")
        assert refused(server.query_dsn, "SELECT 1 FROM audit")
    assert audit.show(target, audit.selection(entry=1), last=1, only_withheld=False, as_json=False) == 0
    assert "größe" in capsys.readouterr().out
