"""`context-engine sync` of an organization, killed by the operating system again and again, ends as if it never was.

The process gets SIGKILL while a certain request of it is answered, so that it dies in the midst of permissions, of a
first read, of changes or of deletions; the next one goes on. TEST_SIGKILLS sets how often.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from core.embedding.openai_http import OpenAIEmbedder
from core.embedding.port import Embedder
from fixtures.sandbox.server import SandboxServer
from tests.command_line.test_commands import environment
from tests.support.embedding_server import MODEL, embedding_server
from tests.support.ingest_side import IngestSide, ingest_side, whole_read
from tests.support.postgres import PostgresServer
from tests.support.random_events import change
from tests.support.small_organization import small_organization
from tests.support.state_dump import differences

KILLS = int(os.environ.get("TEST_SIGKILLS", "4"))


@pytest.fixture(scope="module")
def embeddings() -> Iterator[str]:
    """An embedder that any process can reach."""
    with embedding_server() as url:
        yield url


def configuration(sandbox: SandboxServer, postgres: tuple[str, str], embeddings: str) -> str:
    """What an administrator writes down of an organization."""
    world = sandbox.state.world
    return f"""
postgres_url = "{postgres[0]}"
postgres_query_url = "{postgres[1]}"
embedder = "openai"
embedder_url = "{embeddings}"
embedder_model = "{MODEL}"
labels = {list(world.labels)!r}
reconcile_interval = 0
[azure_devops]
organization = "{sandbox.state.organization}"
base_url = "{sandbox.ado_url}"
pat = "sandbox-pat"
tenant = "{world.tenant_id}"
project_acl_reaches_objects = true
[graph]
base_url = "{sandbox.graph_url}"
token_url = "{sandbox.base_url}/oidc/{world.tenant_id}/oauth2/v2.0/token"
tenant = "{world.tenant_id}"
client_id = "context-engine-connector"
client_secret = "sandbox-secret"
public_teams_open = true
"""


def killed(command: list[str], sandbox: SandboxServer, requests: int, cwd: Path) -> bool:
    """Start the command and kill it once the sandbox has seen so many requests of it; False where it ended before."""
    sandbox.faults.clear()
    process = subprocess.Popen(
        command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=environment(), cwd=cwd
    )
    while sum(list(sandbox.faults.seen.values())) < requests:
        try:
            process.wait(timeout=0.002)
        except subprocess.TimeoutExpired:
            continue
        return False
    process.send_signal(signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


def test_a_sync_that_the_system_kills_again_and_again_loses_and_doubles_nothing(
    tmp_path: Path, postgres: PostgresServer, embeddings: str
) -> None:
    class Side(IngestSide):
        """The stores of the command, seen from here."""

        def make_embedder(self) -> Embedder:
            return OpenAIEmbedder(embeddings, MODEL)

    chance = Random(20270319)
    done: list[str] = []
    with (
        SandboxServer(small_organization(), tmp_path / "sandbox", remember=False) as sandbox,
        ingest_side(sandbox, postgres, Side) as side,
    ):
        side.close()
        config = tmp_path / "engine.toml"
        config.write_text(configuration(sandbox, side.urls, embeddings), "utf-8")
        command = [sys.executable, "-m", "context_engine.cli", "sync", "--config", str(config)]
        command += ["--data", str(side.folder)]
        deaths = 0
        for n in range(KILLS):
            # First in the midst of the first read, then of what has changed since.
            if n >= KILLS // 2:
                done += [change(sandbox.state, chance.randrange(10**6)) for _ in range(4)]
            deaths += killed(command, sandbox, chance.randint(1, 130 if n < KILLS // 2 else 90), tmp_path)
        assert deaths >= KILLS // 2
        last = subprocess.run(command, capture_output=True, text=True, env=environment(), cwd=tmp_path, check=False)
        assert last.returncode == 0, last.stderr
        side.open()
        problems = [*side.settle(1), *differences(side.dump(), whole_read(sandbox, postgres, Side))]
        assert not problems, (done, problems)
