"""What must always hold, tried on a small company at a border; `test_mutants` shows that each check can fail."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import border, guard_checks
from tests.support.guard_checks import Border

CHECKS: dict[str, Callable[[Border], None]] = {
    name: check
    for name, check in vars(guard_checks).items()
    if name.startswith("assert_") and name.count("_a_statement_") == 0
}


@pytest.mark.invariant("INV-1", "INV-3", "INV-4", "INV-5", "INV-6", "INV-7", "INV-8", "INV-10")
@pytest.mark.parametrize("name", sorted(CHECKS))
def test_it_holds(name: str, at_the_border: Border) -> None:
    CHECKS[name](at_the_border)


def test_the_border_hides_something_in_every_way(at_the_border: Border) -> None:
    assert not any(border.ACCESS.may_read(border.ASKER, scope) for scope in border.HIDING)
    assert {i.scope for i in at_the_border.items} == set(border.ACCESS.rules)


def test_every_module_with_trimmed_statements_is_known() -> None:
    root = Path(__file__).resolve().parents[2]
    found = {
        ".".join(path.relative_to(root).with_suffix("").parts)
        for package in ("graph", "query")
        for path in (root / package).rglob("*.py")
        if re.search(r"(?<!def )\btrimmed\(", path.read_text("utf-8"))
    }
    assert found == {module.__name__ for module in guard_checks.STATEMENT_MODULES}
