"""A world as an organization to connect to: its folder's data, its sandbox, and the settings that point there."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
from pydantic import SecretStr

from core.clock import Clock
from core.errors import ConfigError
from core.guards import RateLimitSettings
from core.settings import PREFIX, AzureDevOpsSettings, GraphSettings, IssuerSettings, Settings, load_settings
from fixtures.sandbox.azure_devops.hook_events import EVENT_TYPES
from fixtures.sandbox.server import SandboxServer

AUDIENCE = "api://context-engine"
# What a world's engine makes in its data folder, besides the lock that it holds; the mark last.
OWN = ("postgres", "qdrant", "azure-devops-cache", "sandbox", "running.json", "world.json")
SANDBOX_PAT = "sandbox-pat"
SANDBOX_CLIENT = ("context-engine-connector", "sandbox-secret")


def data_folder(world: Path, root: Path) -> Path:
    """The folder of a world's own stores under `root`: two worlds never mix, whatever they are called."""
    resolved = world.resolve()
    return root / f"{resolved.name}-{hashlib.sha256(str(resolved).encode()).hexdigest()[:8]}"


def world_digest(world: Path, data: Path | None = None) -> str:
    """Changes when any file of the world does (but for its questions, and stores in `data` that lie within it)."""
    total = hashlib.sha256()
    stores = {(data / name).resolve() for name in (*OWN, "owner.lock", "eval")} if data is not None else set()
    for path in sorted(p for p in world.rglob("*") if p.is_file() and p.name != "questions.yaml"):
        if stores and not stores.isdisjoint((path.resolve(), *path.resolve().parents)):
            continue
        total.update(str(path.relative_to(world)).encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()


def forget_if_changed(world: Path, data: Path) -> bool:
    """Remove the stores where they were made from another state of the world; True if they were.

    Nothing but what the engine made is touched: whoever gives --data may keep other things there, the world among
    them. The mark goes last, and comes whole: a kill in between leaves it to the next start. Raises ConfigError where
    there are stores that no world made.
    """
    mark = data / "world.json"
    current = {"world": str(world.resolve()), "digest": world_digest(world, data)}
    changed = mark.exists() and _marked(mark) != current
    if not mark.exists() and (data / "postgres").exists():
        if not (data / "sandbox").exists():
            raise ConfigError(
                "the data folder holds stores of an organization",
                where=str(data),
                mend="Give another folder with --data",
            )
        changed = True
    if changed:
        forget(data)
    data.mkdir(parents=True, exist_ok=True)
    draft = mark.with_suffix(".draft")
    draft.write_text(json.dumps(current), "utf-8")
    draft.replace(mark)
    return changed


def forget(data: Path) -> None:
    """Remove a world's stores, and nothing else that lies beside them."""
    for name in OWN:
        _remove(data / name)


def _marked(mark: Path) -> Any:
    """What the mark says; None where it can't be read, which is no state that a world is in."""
    try:
        return json.loads(mark.read_text("utf-8"))
    except ValueError:
        return None


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


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
        client_secret=SecretStr(SANDBOX_CLIENT[1]),
        public_teams_open=True,
        # The sandbox has no limits but those that a test sets.
        team_requests_per_second=0,
        message_requests_per_second=0,
    )
    azure_devops = None
    if world.azure_devops is not None:
        organization = world.azure_devops.organization
        azure_devops = AzureDevOpsSettings(
            organization=organization,
            base_url=f"{sandbox.base_url}/ado/{organization}",
            pat=SecretStr(SANDBOX_PAT),
            tenant=str(world.tenant_id),
            project_acl_reaches_objects=True,
        )
    base: dict[str, Any] = {
        "data": data,
        "issuers": (IssuerSettings(issuer=sandbox.issuer, tenant=str(world.tenant_id), audience=(AUDIENCE,)),),
        "graph": graph,
        "azure_devops": azure_devops,
        "labels": tuple(world.labels),
        # A world is small and its clock may stand still: look at everything each time.
        "reconcile_interval": 0,
        "retry_failed_after": 0,
    }
    if not any(name.startswith(f"{PREFIX}RATE_LIMITS") for name in os.environ):
        # It is asked by programs, as fast as they can.
        base["rate_limits"] = RateLimitSettings(asker_per_minute=0, agent_per_minute=0)
    return load_settings(overrides={**base, **(overrides or {})})


def subscribe_to_azure_devops(
    sandbox: SandboxServer, url: str, user: str, password: str, *, details: str = "minimal"
) -> None:
    """Set up a service hook for every event that the sandbox's Azure DevOps knows, as an administrator would."""
    with httpx.Client(auth=("", SANDBOX_PAT), trust_env=False) as client:
        for event in EVENT_TYPES if sandbox.state.world.azure_devops is not None else ():
            subscription = {
                "publisherId": "tfs",
                "eventType": event,
                "resourceVersion": "1.0",
                "consumerId": "webHooks",
                "consumerActionId": "httpRequest",
                "publisherInputs": {},
                "consumerInputs": {
                    "url": url,
                    "basicAuthUsername": user,
                    "basicAuthPassword": password,
                    "resourceDetailsToSend": details,
                    "messagesToSend": "none",
                    "detailedMessagesToSend": "none",
                },
            }
            address = f"{sandbox.ado_url}/_apis/hooks/subscriptions?api-version=7.1-preview.1"
            client.post(address, json=subscription).raise_for_status()


@contextmanager
def send_deliveries(sandbox: SandboxServer, url: str, user: str, password: str) -> Iterator[None]:
    """Let the sandbox send what the services would while the context is open, its Azure DevOps to this address."""
    subscribe_to_azure_devops(sandbox, url, user, password)
    sandbox.hooks.mode = "send"
    try:
        yield
    finally:
        sandbox.hooks.mode = "hold"
        sandbox.hooks.clear()


def clock_of(sandbox: SandboxServer) -> Clock:
    """The clock that a world's questions are asked by."""
    return WorldClock(sandbox)
