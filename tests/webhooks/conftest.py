"""Fixtures of the webhooks' tests."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def sandbox_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where sandboxes keep their keys, one after the other: making keys takes longer than starting a sandbox."""
    return tmp_path_factory.mktemp("sandbox-home")
