"""docs/invariants.md and the marks of tests say the same."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "invariants.md"


def documented() -> dict[str, set[str]]:
    """The files of tests that the page names for each invariant."""
    found: dict[str, set[str]] = {}
    for section in re.split(r"^## ", PAGE.read_text("utf-8"), flags=re.M)[1:]:
        found[section.partition(":")[0]] = set(re.findall(r"^- `(tests/[\w/]+\.py)`$", section, re.M))
    return found


def marked() -> dict[str, set[str]]:
    """The files of tests that are marked with each invariant."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if "mark.invariant" in text else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "invariant":
                for argument in node.args:
                    assert isinstance(argument, ast.Constant), path
                    found[str(argument.value)].add(str(path.relative_to(ROOT)))
    return found


def test_each_invariant_has_an_id_and_a_test_that_holds_it() -> None:
    assert list(documented()) == [f"INV-{n}" for n in range(1, 13)]
    assert all(documented().values())
    assert all((ROOT / path).is_file() for paths in documented().values() for path in paths)


def test_the_page_names_exactly_the_tests_that_are_marked() -> None:
    assert documented() == dict(marked())
