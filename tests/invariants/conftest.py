"""Fixtures that tests of invariants share."""

from tests.support.border_fixture import at_the_border
from tests.support.histories import hooked_sandbox, turned_clock

__all__ = ["at_the_border", "hooked_sandbox", "turned_clock"]
