"""The folder of the index in process: who owns it, which model wrote it, and whether it was ever finished."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from pathlib import Path
from typing import Final

from core.errors import ConfigError, StoreUnavailableError

_FORMAT: Final = 1


class EdgeFolder:
    """A folder taken for this process; raises StoreUnavailableError where another owner has it.

    The engine has a lock of its own, but not in every mode, and its message names no owner.
    """

    def __init__(self, path: Path, *, embedder: str, size: int) -> None:
        self.path = path
        self.shard = path / "shard"
        # Where the index is written anew, and where that stands once it is whole: then it takes the place of the old.
        self.draft = path / "shard.draft"
        self._whole = path / "shard.new"
        self._about = path / "index.json"
        self._identity = {"format": _FORMAT, "embedder": embedder, "size": size}
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock: int | None = os.open(path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as e:
            raise ConfigError(f"the index folder can't be used: {e.strerror}", where=str(path)) from e
        try:
            self._take()
            self.is_made = self._check()
        except BaseException:
            self.release()
            raise

    def mark_made(self) -> None:
        """Write down which model the index belongs to, once the engine has finished making it."""
        temporary = self._about.with_suffix(".tmp")
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(self._identity, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._about)
        (self.path / "making").unlink(missing_ok=True)
        self.is_made = True

    def take_draft(self) -> None:
        """Put the draft, which is whole and closed, in the place of the index. Killed in the midst of it, the next
        opening goes on."""
        self.draft.rename(self._whole)
        self._finish_draft()

    def _finish_draft(self) -> None:
        shutil.rmtree(self.draft, ignore_errors=True)
        if self._whole.exists():
            shutil.rmtree(self.shard, ignore_errors=True)
            self._whole.rename(self.shard)

    def release(self) -> None:
        """Let go of the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _take(self) -> None:
        assert self._lock is not None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as e:
            owner = os.pread(self._lock, 32, 0).decode("ascii", "replace").strip()
            raise StoreUnavailableError(
                "qdrant",
                f"the index in {self.path} is in use by another process" + (f" (pid {owner})" if owner else ""),
                mend="Stop it first, or name another data folder; one process owns the embedded index",
            ) from e
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, str(os.getpid()).encode(), 0)

    def _check(self) -> bool:
        """Whether there is a finished index; one whose making was cut short is cleared away."""
        self._finish_draft()
        making = self.path / "making"
        if making.exists():
            shutil.rmtree(self.shard, ignore_errors=True)
            self._about.unlink(missing_ok=True)
        if not self._about.exists():
            if self.shard.exists() and any(self.shard.iterdir()):
                raise ConfigError(
                    "there is index data without its index.json",
                    where=str(self.path),
                    mend="Remove the folder; the index is rebuilt from the sources",
                )
            making.touch()
            return False
        try:
            found = json.loads(self._about.read_text("utf-8"))
        except (ValueError, OSError) as e:
            raise ConfigError(f"not readable: {e}", where=str(self._about), mend=_REBUILD) from e
        if found != self._identity:
            raise ConfigError(
                f"the index was written with {_told(found)}, but the settings say {_told(self._identity)}",
                where=str(self._about),
                mend=_REBUILD,
            )
        # What an interrupted optimization leaves here is never cleaned up by the engine.
        shutil.rmtree(self.shard / "temp_segments", ignore_errors=True)
        return True


_REBUILD: Final = "Set the embedder back, or remove the folder so that the index is rebuilt from the sources"


def _told(identity: object) -> str:
    if not isinstance(identity, dict):
        return "something else"
    return f"embedder {identity.get('embedder')}, {identity.get('size')} dimensions, format {identity.get('format')}"
