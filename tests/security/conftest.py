"""Fixtures that tests of security share."""

from tests.support.border_fixture import at_the_border

__all__ = ["at_the_border"]
