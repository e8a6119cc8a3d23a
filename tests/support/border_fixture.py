"""The company at the border as a fixture: whole, and without what its asker may not read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from core.trust import ApplicationSettings
from tests.sandbox import small
from tests.support import border
from tests.support.guard_checks import Border
from tests.support.laboratory import issuer_of, laboratory
from tests.support.postgres import PostgresServer
from tests.support.quick_embedder import QuickEmbedder


@pytest.fixture(scope="session")
def at_the_border(postgres: PostgresServer) -> Iterator[Border]:
    """Two laboratories. What a test changes in them it puts back."""
    embedder = QuickEmbedder()
    with issuer_of(border.PEOPLE) as issuer:
        policy = ApplicationSettings(
            tenant=small.TENANT,
            account=issuer.state.oid(border.PROGRAM),
            spaces=tuple(f"scope:{name}" for name in border.POLICY),
        )
        with (
            laboratory(postgres, embedder, issuer, applications=(policy,)) as whole,
            laboratory(postgres, embedder, issuer, applications=(policy,)) as without,
        ):
            items = border.stand_up(whole)
            border.stand_up(without, hidden=False)
            yield Border(whole, without, items)
