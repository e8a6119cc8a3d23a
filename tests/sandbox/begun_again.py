"""A sandbox for many tests of one world: starting one takes longer than most tests that use it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fixtures.sandbox.server import SandboxServer
from fixtures.sandbox.world import World


@contextmanager
def begun_again(folder: Path, keys: Path, world: World, **more: Any) -> Iterator[Callable[[], SandboxServer]]:
    """One sandbox for many tests: each call brings it to its beginning, without faults. It keeps its keys."""
    (folder / "sandbox").mkdir()
    shutil.copy(keys, folder / "sandbox")
    with SandboxServer(world, folder, remember=False, **more) as server:

        def begin() -> SandboxServer:
            server.state.reset()
            server.faults.clear()
            return server

        yield begin
