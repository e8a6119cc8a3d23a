"""From when on entries of the audit log are kept."""

from __future__ import annotations

import pytest

from context_engine.auditing import last_kept
from tests.audit.support import NOW


@pytest.mark.parametrize("days", [800_000, 99_999_999_999])
def test_more_days_than_there_have_been_keep_everything(days: int) -> None:
    assert last_kept(NOW, days).year == 1
    assert last_kept(NOW, days).tzinfo is NOW.tzinfo
