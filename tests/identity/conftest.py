"""An issuer of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.identity.issuer import TestIssuer, serving


@pytest.fixture
def issuer() -> Iterator[TestIssuer]:
    """A new issuer with one key, `one`."""
    with serving() as made:
        yield made
