"""demo: a world shown to somebody who has just arrived, whatever happened in it before."""

from __future__ import annotations

from pathlib import Path

from tests.command_line.test_commands import run

WORLD = """
format: 1
name: harbour
now: 2026-03-02T09:00:00Z
tenant_id: 3b0e7a52-6c1d-4f89-a2f4-95d1c7e08b36
people:
  ada: {name: Ada Vos, upn: ada@harbour.example}
  ben: {name: Ben Kok, upn: ben@harbour.example}
teams:
  Harbour:
    members: [ada, ben]
    channels:
      General:
        messages:
          - {key: m1, by: ben, at: 2026-03-01T10:00:00Z, body: Berth 4 is closed until Friday.}
events:
  - {id: ben-gone, after: 1h, disable_person: {who: ben}}
"""
QUESTIONS = """
world: harbour
questions:
  - {id: berth, as: ada, ask: is berth 4 open?, expect: {evidence: ["message:Harbour/General/m1"]}}
  - {id: berth-ben, as: ben, ask: which berth is closed?, expect: {evidence: ["message:Harbour/General/m1"]}}
"""


def test_a_person_who_may_not_ask_any_more_is_told_as_such_and_the_demo_goes_on(tmp_path: Path) -> None:
    world = tmp_path / "world"
    world.mkdir()
    (world / "world.yaml").write_text(WORLD, "utf-8")
    (world / "questions.yaml").write_text(QUESTIONS, "utf-8")
    on = ["--world", str(world), "--data", str(tmp_path / "data")]
    assert run("event", "ben-gone", *on, cwd=tmp_path).returncode == 0
    shown = run("demo", *on, cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "Ben Kok is given nothing: HTTP 401: The bearer token was refused" in shown.stdout
    assert "as Ada Vos" in shown.stdout
    assert "How to go on" in shown.stdout
