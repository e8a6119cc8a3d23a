"""Server mode on this machine: the processes that docker-compose.yml starts, over real stores and the sandbox."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg

from context_engine.postgres import QUERY_ROLE, EmbeddedPostgres
from context_engine.worlds import AUDIENCE, send_deliveries
from core.errors import StoreUnavailableError
from fixtures.sandbox.server import SandboxServer
from fixtures.sandbox.world_models import World
from graph.db import Database
from graph.migrate import HOOKS_ROLE, migrate
from graph.runs import RunStore
from graph.subscriptions import SubscriptionStore
from ingestion.webhooks.paths import AZURE_DEVOPS_PATH
from tests.support.embedding_server import MODEL, embedding_server
from tests.support.qdrant_rest import QdrantRest
from tests.support.redis_server import RedisServer

ROOT = Path(__file__).resolve().parents[2]
KEY, READ_KEY, AUDIT_KEY = "qdrant-writes", "qdrant-reads", "qdrant-audits"
HOOKS_PASSWORD, CLIENT_STATE_KEY = "hooks-password", "client-state-key"
PROCESSES: Mapping[str, tuple[str, ...]] = {
    "api": ("api",),
    "webhooks": ("webhooks",),
    "worker-access": ("worker", "access", "--concurrency", "1"),
    "worker-content": ("worker", "content", "--concurrency", "1"),
    "beat": ("beat",),
    "audit": ("audit", "work"),
}
_PR_SET_PDEATHSIG = 1


class ServerStack:
    """Stores, sources and processes. `settings` go to every process, in words as they stand in an environment."""

    def __init__(self, world: World, folder: Path, **settings: str) -> None:
        self._world, self._folder, self._settings = world, folder, settings
        self._stack = ExitStack()
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.api, self.hooks = (f"http://127.0.0.1:{_free_port()}" for _ in range(2))

    def open(self) -> None:
        """Start the stores, then every process, and wait until all was read once."""
        self.postgres = EmbeddedPostgres(self._folder / "data", durable=False)
        self.postgres.start()
        self._stack.callback(self.postgres.stop)
        with psycopg.connect(self.postgres.superuser_dsn, autocommit=True) as connection:
            connection.execute(f"CREATE ROLE {HOOKS_ROLE} LOGIN PASSWORD 'hooks'")
        migrate(self.postgres.ingest_dsn, query_role=QUERY_ROLE)
        self.redis = RedisServer(self._folder / "redis", password="redis-password")
        self.redis.start()
        self._stack.callback(self.redis.kill)
        self.qdrant = QdrantRest(key=KEY, read_key=READ_KEY, audit_key=AUDIT_KEY)
        self.qdrant.start()
        self._stack.callback(self.qdrant.close)
        self.embeddings = self._stack.enter_context(embedding_server())
        self.sandbox = self._stack.enter_context(SandboxServer(self._world, self._folder, remember=False))
        self.database = self._stack.enter_context(closing(Database(self.postgres.ingest_dsn)))
        self.runs = RunStore(self.database)
        self._stack.callback(self.stop)
        for name in PROCESSES:
            self.start(name)
        self.client = self._stack.enter_context(httpx.Client(base_url=self.api, timeout=30, trust_env=False))
        until(lambda: self.answers(self.hooks), "the receiver listens", self)
        given = (self.sandbox, self.hooks + AZURE_DEVOPS_PATH, "context-engine", HOOKS_PASSWORD)
        self._stack.enter_context(send_deliveries(*given))
        until(lambda: self.answers(self.api), "the API listens", self)
        until(lambda: len(self.runs.synced_at()) == 5, "everything was read once", self)
        made = SubscriptionStore(self.database)
        until(lambda: {"/users", "/groups"} <= {s.resource for s in made.all() if s.id}, "Graph tells of changes", self)

    def close(self) -> None:
        """Stop everything."""
        self._stack.close()

    def start(self, name: str) -> None:
        """Start one process, with the settings that compose gives it."""
        libc = ctypes.CDLL(None) if sys.platform == "linux" else None
        with (self._folder / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                [sys.executable, "-m", "context_engine.cli", *PROCESSES[name]],
                cwd=self._folder,
                env=self.environment(name),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) if libc is not None else None,
            )

    def run(self, name: str, *command: str) -> subprocess.CompletedProcess[str]:
        """Run another command to its end, with the settings of a process."""
        return subprocess.run(
            [sys.executable, "-m", "context_engine.cli", *command],
            cwd=self._folder,
            env=self.environment(name),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )

    def kill(self, name: str) -> None:
        """End a process and its children as the system would, without a word."""
        process = self._running.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self) -> dict[str, int]:
        """Ask every process to end, and see that it does; the exit statuses."""
        for process in self._running.values():
            process.terminate()
        statuses = {}
        for name in list(self._running):
            with contextlib.suppress(subprocess.TimeoutExpired):
                statuses[name] = self._running[name].wait(15)
            self.kill(name)
            statuses.setdefault(name, -signal.SIGKILL)
        return statuses

    def running(self) -> set[str]:
        """The processes that have not ended."""
        return {name for name, process in self._running.items() if process.poll() is None}

    def loads(self, name: str) -> str:
        """The files that a process (not its children) has mapped."""
        return Path(f"/proc/{self._running[name].pid}/maps").read_text()

    def environment(self, name: str) -> dict[str, str]:
        """The environment of a process: its plane's credentials, and no others."""
        world, sandbox = self.sandbox.state.world, self.sandbox
        known = {k: v for k, v in os.environ.items() if not k.startswith("CONTEXT_ENGINE_")}
        port = self.hooks.rpartition(":")[2]
        issuer = {"issuer": sandbox.issuer, "tenant": str(world.tenant_id), "audience": [AUDIENCE]}
        embedder = {"EMBEDDER": "openai", "EMBEDDER_URL": self.embeddings, "EMBEDDER_MODEL": MODEL}
        names = {"SOURCES": '["teams", "azure_devops"]', "LABELS": json.dumps(world.labels)}
        planes: dict[str, dict[str, str]] = {
            "api": {
                **embedder,
                "PORT": self.api.rpartition(":")[2],
                "POSTGRES_QUERY_URL": self.postgres.query_dsn,
                "QDRANT_URL": self.qdrant.url,
                "QDRANT_READ_KEY": READ_KEY,
                "ISSUERS": json.dumps([issuer]),
            },
            "webhooks": {
                "REDIS_URL": self.redis.url,
                "POSTGRES_HOOKS_URL": self.as_hooks(),
                "WEBHOOKS__PORT": port,
                "WEBHOOKS__PASSWORD": HOOKS_PASSWORD,
                "WEBHOOKS__CLIENT_STATE_KEY": CLIENT_STATE_KEY,
                "WEBHOOKS__ORGANIZATION": sandbox.state.organization or "",
                "WEBHOOKS__TENANT": str(world.tenant_id),
            },
            "audit": {
                **embedder,
                "POSTGRES_AUDIT_URL": self.postgres.audit_dsn,
                "QDRANT_URL": self.qdrant.url,
                "QDRANT_AUDIT_KEY": AUDIT_KEY,
                "AUDIT_INTERVAL": "1",
            },
            "beat": {"REDIS_URL": self.redis.url, "WEBHOOKS__PUBLIC_URL": self.hooks},
        }
        worker = {
            **embedder,
            "REDIS_URL": self.redis.url,
            "POSTGRES_URL": self.postgres.ingest_dsn,
            "QDRANT_URL": self.qdrant.url,
            "QDRANT_API_KEY": KEY,
            "WEBHOOKS__PUBLIC_URL": self.hooks,
            "WEBHOOKS__CLIENT_STATE_KEY": CLIENT_STATE_KEY,
            "GRAPH__BASE_URL": sandbox.graph_url,
            "GRAPH__TOKEN_URL": f"{sandbox.base_url}/oidc/{world.tenant_id}/oauth2/v2.0/token",
            "GRAPH__TENANT": str(world.tenant_id),
            "GRAPH__CLIENT_ID": "context-engine-connector",
            "GRAPH__CLIENT_SECRET": "sandbox-secret",
            "GRAPH__PUBLIC_TEAMS_OPEN": "true",
            "GRAPH__TEAM_REQUESTS_PER_SECOND": "0",
            "GRAPH__MESSAGE_REQUESTS_PER_SECOND": "0",
            "AZURE_DEVOPS__ORGANIZATION": sandbox.state.organization or "",
            "AZURE_DEVOPS__BASE_URL": sandbox.ado_url,
            "AZURE_DEVOPS__PAT": "sandbox-pat",
            "AZURE_DEVOPS__TENANT": str(world.tenant_id),
            "AZURE_DEVOPS__PROJECT_ACL_REACHES_OBJECTS": "true",
        }
        mine = {"DATA": str(self._folder / name), **names, **self._settings, **planes.get(name, worker)}
        return {**known, "PYTHONPATH": str(ROOT), **{f"CONTEXT_ENGINE_{k}": v for k, v in mine.items()}}

    def as_hooks(self) -> str:
        """The database as the receiver's role."""
        return (
            self.postgres.query_dsn.partition("//")[0]
            + f"//{HOOKS_ROLE}:hooks@"
            + self.postgres.query_dsn.partition("@")[2]
        )

    def answers(self, url: str, path: str = "/healthz") -> bool:
        """Whether a process answers 200."""
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(url + path, timeout=5, trust_env=False).status_code == 200
        return False

    def post(self, person: str, question: str) -> httpx.Response:
        """Ask as a person."""
        token = self.sandbox.token(person, audience=AUDIENCE)
        return self.client.post(
            "/v1/context", json={"question": question}, headers={"Authorization": f"Bearer {token}"}
        )

    def found(self, person: str, question: str) -> set[str]:
        """The addresses that a person is given; nothing where nobody is answered now."""
        answer = self.post(person, question)
        data: Any = answer.json()
        return {e["uri"] for e in data["evidence"]} if answer.status_code == 200 else set()

    def logs(self) -> str:
        """How the work stands, and the last lines that each process wrote."""
        told = []
        with contextlib.suppress(StoreUnavailableError), self.database.connection() as connection:
            for what in ("jobs", "inbox WHERE state <> 'done'", "leases WHERE until > now()"):
                told += [str(row) for row in connection.execute(f"SELECT * FROM {what}").fetchall()]
            told += [f"{r.id} {r.source}/{r.reader} {r.state} {r.reason}" for r in self.runs.recent(12)]
        for file in sorted(self._folder.glob("*.log")):
            lines = file.read_text("utf-8", "replace").splitlines()
            told.append("\n".join((f"--- {file.name}", *lines[-25:])))
        return "\n".join(told)


def until(found: Callable[[], object], what: str, stack: ServerStack, *, seconds: float = 90) -> None:
    """Wait until something is the case."""
    limit, waited = time.monotonic() + seconds, threading.Event()
    while not found():
        assert time.monotonic() < limit, f"it did not come about that {what}\n{stack.logs()}"
        waited.wait(0.2)


@contextmanager
def server_stack(world: World, folder: Path, **settings: str) -> Iterator[ServerStack]:
    """A stack that is stopped in the end."""
    stack = ServerStack(world, folder, **settings)
    try:
        stack.open()
        yield stack
    finally:
        stack.close()


def _free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])
