"""The embedded Postgres' folder: who has it, with which port and passwords, and what an earlier owner left in it."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import signal
import socket
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Final

from core.errors import ConfigError, StoreUnavailableError

UNPRIVILEGED: Final = 65534
_HANDOVER_LIMIT: Final = 30.0
_LOG_LIMIT: Final = 5_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Port and passwords; `ready`: roles and database are made. `audit` is empty in a folder of an earlier version."""

    superuser: str
    ingest: str
    query: str
    port: int
    ready: bool = False
    audit: str = ""

    def __repr__(self) -> str:
        return f"Credentials(port={self.port})"


class ServerFolder:
    """`<data>/postgres` with `server/` (the cluster), `credentials.json`, `log` and `lock`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cluster = path / "server" / "data"
        self.lock: int | None = None

    @property
    def uid(self) -> int | None:
        """The user to run Postgres as: whoever owns the cluster; None: ourselves."""
        return self.cluster.parent.stat().st_uid or UNPRIVILEGED if os.geteuid() == 0 else None

    def make(self) -> None:
        """Make what is missing. Raises ConfigError where that can't be, or the folder is another user's."""
        root = os.geteuid() == 0
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            # The unprivileged user has to pass through, not to list.
            self.path.chmod(0o711 if root else 0o700)
            server = self.cluster.parent
            if not server.exists():
                server.mkdir(mode=0o700)
                if root:
                    os.chown(server, UNPRIVILEGED, UNPRIVILEGED)
        except OSError as e:
            raise ConfigError(
                f"the data folder can't be used: {e.strerror}",
                where=str(self.path),
                mend="Choose a folder that you may write with --data",
            ) from e
        if not root and server.stat().st_uid != os.geteuid():
            raise ConfigError(
                f"this data folder was made by another user (uid {server.stat().st_uid})",
                where=str(self.path),
                mend="Run as that user, or choose another folder with --data",
            )

    def take(self) -> None:
        """Lock the folder, waiting for a server whose owner is dead to follow it, and end any that did not.

        Raises ConfigError that says who has it; StoreUnavailableError where an old server does not stop.
        """
        path = self.path / "lock"
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        began = time.monotonic()
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                holder = read_pid(path)
                waited = time.monotonic() - began
                # Without a number its holder is just now writing it, or has given the folder back.
                if (waited > 1 if holder is None else _alive(holder)) or waited > _HANDOVER_LIMIT:
                    os.close(lock)
                    raise _taken(holder, self.path) from None
                time.sleep(0.05)
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
        self.lock = lock
        self._end_stale_server()

    def release(self) -> None:
        """Let others have the folder."""
        lock, self.lock = self.lock, None
        if lock is not None:
            os.ftruncate(lock, 0)
            fcntl.flock(lock, fcntl.LOCK_UN)
            os.close(lock)

    def _end_stale_server(self) -> None:
        """Under the lock nobody else owns this folder: whatever still runs on it has lost owner and parent."""
        pid_file = self.cluster / "postmaster.pid"
        pid = read_pid(pid_file)
        if pid is None:
            return
        for number in (signal.SIGINT, signal.SIGQUIT):
            limit = time.monotonic() + _HANDOVER_LIMIT / 2
            if _runs_in(pid, self.cluster):
                os.kill(pid, number)
            while _runs_in(pid, self.cluster) and time.monotonic() < limit:
                time.sleep(0.05)
        if _runs_in(pid, self.cluster):
            raise StoreUnavailableError("postgres", f"an old server (process {pid}) on this folder does not stop")
        # After a restart of the machine the number may be another process's, which would make Postgres refuse.
        pid_file.unlink(missing_ok=True)

    def read_credentials(self) -> Credentials:
        """Those of this folder, made where it is new. Raises ConfigError where they are damaged or lost."""
        path = self.path / "credentials.json"
        if path.exists():
            try:
                return Credentials(**json.loads(path.read_text("utf-8")))
            except (ValueError, TypeError) as e:
                raise ConfigError(
                    "this file is damaged", where=str(path), mend="Restore it, or begin with a new data folder"
                ) from e
        if self.cluster.exists():
            raise ConfigError(
                "the passwords of this data folder are missing",
                where=str(path),
                mend="Restore the file, or begin with a new data folder",
            )
        made = Credentials(
            superuser=secrets.token_urlsafe(24),
            ingest=secrets.token_urlsafe(24),
            query=secrets.token_urlsafe(24),
            audit=secrets.token_urlsafe(24),
            port=free_port(),
        )
        self.write_credentials(made)
        return made

    def write_credentials(self, credentials: Credentials) -> None:
        """Replace them, whole or not at all, readable for the owner alone."""
        path = self.path / "credentials.json"
        fresh = path.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            json.dump(asdict(credentials), file)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)

    def open_log(self) -> IO[bytes]:
        """The log, for appending; a large one is put aside first."""
        path = self.path / "log"
        if path.exists() and path.stat().st_size > _LOG_LIMIT:
            path.replace(path.with_name("log.old"))
        return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "ab")


def free_port() -> int:
    """A port of the loopback address that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_free(port: int) -> bool:
    """Whether nobody listens on the port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def read_pid(path: Path) -> int | None:
    """The process number in the file's first line; None where there is none."""
    try:
        return int(path.read_text("utf-8").split("\n", 1)[0])
    except (OSError, ValueError):
        return None


def _taken(holder: int | None, path: Path) -> ConfigError | StoreUnavailableError:
    if holder is not None and not _alive(holder):
        return StoreUnavailableError("postgres", f"the server of process {holder}, which has ended, does not stop")
    who = "this process itself" if holder == os.getpid() else f"process {holder}{_name(holder)}"
    return ConfigError(
        f"the data folder is in use by {who if holder else 'another process'}",
        where=str(path),
        mend="Stop it, or choose another folder with --data",
    )


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _name(pid: int | None) -> str:
    try:
        return f" ({Path(f'/proc/{pid}/cmdline').read_text('utf-8').replace(chr(0), ' ').strip()[:80]})"
    except OSError:
        return ""


def _runs_in(pid: int, folder: Path) -> bool:
    """Whether the process is a server on that folder (a server stands in its data folder)."""
    try:
        return Path(f"/proc/{pid}/cwd").resolve(strict=True) == folder.resolve()
    except OSError:
        return False
