"""Fixtures that tests of random histories share."""

from tests.support.histories import hooked_sandbox, turned_clock

__all__ = ["hooked_sandbox", "turned_clock"]
