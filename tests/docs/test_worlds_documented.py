"""docs/worlds.md: its examples are valid, and it names every key of golden questions."""

from __future__ import annotations

import re
from pathlib import Path

from context_engine.questions import Expect, FocusRef, Question, load_questions
from fixtures.sandbox.references import target
from fixtures.sandbox.state import SandboxState
from fixtures.sandbox.world import load_world

PAGE = (Path(__file__).parents[2] / "docs" / "worlds.md").read_text("utf-8")
WORLD, QUESTIONS = re.findall(r"```yaml\n(.+?)```", PAGE, re.DOTALL)


def test_the_example_is_a_world_with_golden_questions(tmp_path: Path) -> None:
    (tmp_path / "world.yaml").write_text(WORLD, "utf-8")
    (tmp_path / "questions.yaml").write_text(QUESTIONS, "utf-8")
    state = SandboxState(load_world(tmp_path))
    for question in load_questions(tmp_path / "questions.yaml").questions:
        assert question.as_ in state.world.people
        for reference in question.expect.evidence:
            assert target(state, reference).uri.startswith("ctx://")


def test_every_key_of_a_question_is_named() -> None:
    named = set(re.findall(r"`\{?(\w+)", PAGE))
    for model in (Question, Expect, FocusRef):
        assert {field.alias or name for name, field in model.model_fields.items()} - named - {"expect"} == set()
