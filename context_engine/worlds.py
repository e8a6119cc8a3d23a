"""A world as an organization to connect to: its folder's data, its sandbox, and the settings that point there."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from core.clock import Clock
from core.settings import AzureDevOpsSettings, GraphSettings, IssuerSettings, Settings, load_settings
from fixtures.sandbox.server import SandboxServer

AUDIENCE = "api://context-engine"
SANDBOX_PAT = "sandbox-pat"
SANDBOX_CLIENT = ("context-engine-connector", "sandbox-secret")


def data_folder(world: Path, root: Path) -> Path:
    """The folder of a world's own stores under `root`: two worlds never mix, whatever they are called."""
    resolved = world.resolve()
    return root / f"{resolved.name}-{hashlib.sha256(str(resolved).encode()).hexdigest()[:8]}"


def world_digest(world: Path) -> str:
    """Changes when any file of the world does (but for its questions)."""
    total = hashlib.sha256()
    for path in sorted(p for p in world.rglob("*") if p.is_file() and p.name != "questions.yaml"):
        total.update(str(path.relative_to(world)).encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()


def forget_if_changed(world: Path, data: Path) -> bool:
    """Empty the data folder where it was made from another state of the world; True if it was emptied."""
    mark = data / "world.json"
    current = {"world": str(world.resolve()), "digest": world_digest(world)}
    changed = mark.exists() and json.loads(mark.read_text("utf-8")) != current
    if changed:
        shutil.rmtree(data)
    data.mkdir(parents=True, exist_ok=True)
    mark.write_text(json.dumps(current), "utf-8")
    return changed


class WorldClock:
    """The clock of a world: it stands at the world's `now` and moves with its events."""

    def __init__(self, sandbox: SandboxServer) -> None:
        self._sandbox = sandbox

    def now(self) -> datetime:
        """The world's present."""
        return self._sandbox.state.now


def world_settings(sandbox: SandboxServer, data: Path, overrides: Mapping[str, Any] | None = None) -> Settings:
    """Settings that point the connectors and the API at a sandbox, as they would be pointed at the real services."""
    world = sandbox.state.world
    graph = GraphSettings(
        base_url=f"{sandbox.base_url}/graph/v1.0",
        token_url=f"{sandbox.base_url}/oidc/{world.tenant_id}/oauth2/v2.0/token",
        tenant=str(world.tenant_id),
        client_id=SANDBOX_CLIENT[0],
        client_secret=SANDBOX_CLIENT[1],  # type: ignore[arg-type]
        public_teams_open=True,
    )
    azure_devops = None
    if world.azure_devops is not None:
        organization = world.azure_devops.organization
        azure_devops = AzureDevOpsSettings(
            organization=organization,
            base_url=f"{sandbox.base_url}/ado/{organization}",
            pat=SANDBOX_PAT,  # type: ignore[arg-type]
            tenant=str(world.tenant_id),
            project_acl_reaches_objects=True,
        )
    base: dict[str, Any] = {
        "data": data,
        "issuers": (IssuerSettings(issuer=sandbox.issuer, tenant=str(world.tenant_id), audience=(AUDIENCE,)),),
        "graph": graph,
        "azure_devops": azure_devops,
        "labels": tuple(world.labels),
    }
    return load_settings(overrides={**base, **(overrides or {})})


def clock_of(sandbox: SandboxServer) -> Clock:
    """The clock that a world's questions are asked by."""
    return WorldClock(sandbox)
