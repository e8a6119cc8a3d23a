"""Temporary folders in memory: stores that are flushed after every batch wait for a disk longer than for all the rest.

Importing this is enough; it comes first in `tests/conftest.py`, before anything has asked where temporary folders are.
A TMPDIR that somebody has set stays, and so does the disk where the memory's file system is small, as in containers.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

_MEMORY = Path("/dev/shm")
# A cluster of Postgres has some 50 MB and each database 10; a dozen of each may be there at once.
_WANTED = 2 * 2**30


def put_temporary_folders_in_memory() -> None:
    """Have this process, and those that it starts, make temporary folders in memory where there is room."""
    if "TMPDIR" in os.environ or not os.access(_MEMORY, os.W_OK) or shutil.disk_usage(_MEMORY).free < _WANTED:
        return
    os.environ["TMPDIR"] = str(_MEMORY)
    tempfile.tempdir = None


put_temporary_folders_in_memory()
