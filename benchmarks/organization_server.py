"""The generated organization as a server in a process of its own, and the settings that point an engine at it.

    .venv/bin/python -m benchmarks.organization_server [--scale 0.05] [--seed N] [--data DIR]

serves it until its standard input is closed; one line of JSON tells where.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from benchmarks.organization import NAME, TENANT, Organization, Size
from context_engine.worlds import AUDIENCE, SANDBOX_CLIENT, SANDBOX_PAT
from core.settings import AzureDevOpsSettings, GraphSettings, IssuerSettings, Settings
from fixtures.sandbox.azure_devops import Limits
from fixtures.sandbox.graph.http import GraphSettings as GraphPages
from fixtures.sandbox.server import SandboxServer
from fixtures.sandbox.world import build_world

# Pages as large as the real services give them.
LIMITS = Limits(projects=100, revisions=1000, comments=200, identities=500, entitlements=100)
GRAPH = GraphPages(page=100)


@contextmanager
def served(scale: float, seed: int, data: Path) -> Iterator[dict[str, Any]]:
    """An organization, served by a process of its own."""
    command = [sys.executable, "-m", "benchmarks.organization_server", "--scale", str(scale), "--seed", str(seed)]
    root = Path(__file__).resolve().parents[1]
    with subprocess.Popen(  # noqa: S603 - our own module
        [*command, "--data", str(data)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.stdin.close()
            process.wait(30)


def settings_for(told: dict[str, Any], data: Path) -> Settings:
    """Settings that point at the served organization."""
    url = told["url"]
    return Settings(
        data=data,
        issuers=(IssuerSettings(issuer=told["issuer"], tenant=TENANT, audience=(AUDIENCE,)),),
        graph=GraphSettings(
            base_url=f"{url}/graph/v1.0",
            token_url=f"{url}/oidc/{TENANT}/oauth2/v2.0/token",
            tenant=TENANT,
            client_id=SANDBOX_CLIENT[0],
            client_secret=SecretStr(SANDBOX_CLIENT[1]),
        ),
        azure_devops=AzureDevOpsSettings(
            organization=NAME,
            base_url=f"{url}/ado/{NAME}",
            pat=SecretStr(SANDBOX_PAT),
            tenant=TENANT,
            project_acl_reaches_objects=True,
        ),
    )


def serve(scale: float, seed: int, data: Path) -> None:
    """Serve until standard input is closed; one line of JSON tells where, and what it holds."""
    started = time.perf_counter()
    world = build_world(Organization(Size().scaled(scale), seed).world)
    with SandboxServer(world, data, graph=GRAPH, azure_devops=LIMITS, remember=False) as server:
        told = {
            "url": server.base_url,
            "issuer": server.issuer,
            "last_event": world.events[-1].id,
            "seconds": round(time.perf_counter() - started, 1),
        }
        print(json.dumps(told), flush=True)
        sys.stdin.read()


def main() -> None:
    """Serve an organization."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", type=Path, help="where port and keys are kept (default: a folder that is removed)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="context-engine-organization-") as folder:
        serve(options.scale, options.seed, options.data or Path(folder))


if __name__ == "__main__":
    main()
