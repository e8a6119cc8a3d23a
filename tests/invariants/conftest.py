"""Fixtures that tests of invariants share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import border
from tests.support.guard_checks import Border
from tests.support.histories import hooked_sandbox, turned_clock
from tests.support.laboratory import issuer_of, laboratory
from tests.support.postgres import PostgresServer
from tests.support.quick_embedder import QuickEmbedder

__all__ = ["at_the_border", "hooked_sandbox", "turned_clock"]


@pytest.fixture(scope="session")
def at_the_border(postgres: PostgresServer) -> Iterator[Border]:
    """The company at the border, whole and without what its asker may not read. What a test changes it puts back."""
    embedder = QuickEmbedder()
    with (
        issuer_of(border.PEOPLE) as issuer,
        laboratory(postgres, embedder, issuer) as whole,
        laboratory(postgres, embedder, issuer) as without,
    ):
        items = border.stand_up(whole)
        border.stand_up(without, hidden=False)
        yield Border(whole, without, items)
