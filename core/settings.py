"""Settings: every knob in one place, from environment variables `CONTEXT_ENGINE_*` or a TOML file.

An unknown name is an error that lists what is known: a misspelt security setting must not pass as a default.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator

from core.errors import ConfigError
from core.guards import LateBindingSettings, RateLimitSettings
from core.trust import ApplicationSettings as ApplicationSettings
from core.trust import IssuerSettings as IssuerSettings
from core.trust import check_issuers

PREFIX = "CONTEXT_ENGINE_"
# What the command line's own clients take from the environment: somebody's token is no setting of the engine.
NOT_SETTINGS = frozenset({"CONTEXT_ENGINE_TOKEN", "CONTEXT_ENGINE_TOKEN_FILE"})


class AzureDevOpsSettings(BaseModel):
    """Where Azure DevOps is, as whom we read, and which projects may be read (all that are listed, or all)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    organization: str
    base_url: str = Field(description="https://dev.azure.com/{organization}, or another host's")
    identity_url: str | None = Field(default=None, description="vssps host; the base URL where null")
    entitlement_url: str | None = Field(default=None, description="vsaex host; the base URL where null")
    pat: SecretStr | None = None
    tenant: str
    projects: tuple[str, ...] = ("*",)
    label_field: str = "Custom.SensitivityLabel"
    max_file_bytes: int = Field(default=400_000, ge=1, description="a larger file of a repo is left out")
    file_endings: tuple[str, ...] = Field(
        default=(), description="endings of files that are read as code besides those that are known"
    )
    exclude_paths: tuple[str, ...] = Field(
        default=(), description="paths in repos that are never read, written as in .gitignore"
    )
    project_acl_reaches_objects: bool = Field(
        default=False,
        description="where no area, repo or wiki names somebody, the project's own ACL decides (worlds say so; the "
        "real service does not)",
    )
    deny_reaches_down: bool = Field(
        default=False,
        description="a deny on a node holds below it too, even where a nearer node allows: safer than what is "
        "documented, for where the documentation is not trusted",
    )
    max_requests_per_run: int | None = Field(
        default=None, ge=1, description="a run ends there, and the next goes on; null: no limit"
    )
    max_wait_per_run: int | None = Field(
        default=1800, ge=0, description="seconds that a run waits in all for a throttling service; null: no limit"
    )
    reread_closed_pull_requests_days: int = Field(
        default=365, ge=0, description="how long after closing a pull request's discussion is still watched"
    )


class GraphSettings(BaseModel):
    """Where Microsoft Graph is and as whom we read."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cloud: Literal["global", "usgov", "dod", "china"] = Field(
        default="global", description="which cloud the tenant is in; usgov: GCC High"
    )
    base_url: str | None = Field(default=None, description="null: that of the cloud")
    authority: str | None = Field(default=None, description="null: that of the cloud")
    token_url: str | None = Field(default=None, description="a plain OAuth 2.0 token endpoint instead of Entra's")
    tenant: str
    client_id: str
    client_secret: SecretStr
    teams: tuple[str, ...] = ("*",)
    public_teams_open: bool = Field(
        default=False,
        description="standard channels of public teams are readable by every member of the tenant",
    )
    sweep_interval: int = Field(
        default=86_400,
        ge=0,
        description="seconds until a channel is read whole again, for threads too old for a delta; 0: never by itself",
    )
    team_requests_per_second: float = Field(
        default=3.0, ge=0, description="on any one team, of a process; 0: no limit of ours"
    )
    message_requests_per_second: float = Field(
        default=15.0, ge=0, description="for messages, of a process; 0: no limit of ours"
    )


class WebhookSettings(BaseModel):
    """The receiver of deliveries: where it listens, by which address the services reach it, and what it accepts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str = "127.0.0.1"
    port: int = Field(default=8322, ge=0, le=65535)
    public_url: str | None = Field(
        default=None, description="https address by which the services reach it; null: no subscriptions are made"
    )
    user: str = Field(default="context-engine", description="basic authentication of Azure DevOps' deliveries")
    password: SecretStr | None = Field(default=None, description="null: Azure DevOps' deliveries are refused")
    client_state_key: SecretStr | None = Field(
        default=None, description="what clientState is made with; null: Graph's deliveries are refused"
    )
    certificate: Path | None = Field(
        default=None, description="PEM certificate for encrypted resource data; null: notifications carry none"
    )
    certificate_key: Path | None = Field(default=None, description="its private key, PEM")
    previous_certificate_keys: tuple[Path, ...] = Field(
        default=(), description="private keys of earlier certificates, until every subscription made with them lapsed"
    )
    token_keys_uri: str | None = Field(
        default=None, description="JWKS that validation tokens are checked with; null: the cloud's own"
    )
    organization: str | None = Field(default=None, description="null: that of azure_devops")
    tenant: str | None = Field(default=None, description="null: that of graph")
    client_id: str | None = Field(default=None, description="null: that of graph")
    max_bytes: int = Field(default=2_097_152, ge=1024, description="a larger delivery is refused")
    max_age: int = Field(default=86_400, ge=60, description="seconds; an older delivery is refused")
    keep: int = Field(default=604_800, ge=60, description="seconds for which doubles are remembered; above max_age")


class Settings(BaseModel):
    """All settings. Durations are in seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    data: Path = Path("data")
    postgres_url: SecretStr | None = Field(default=None, description="null: the embedded Postgres")
    postgres_query_url: SecretStr | None = Field(default=None, description="the query plane's own role")
    postgres_hooks_url: SecretStr | None = Field(
        default=None, description="the webhook receiver's own role; null: postgres_url"
    )
    postgres_audit_url: SecretStr | None = Field(
        default=None, description="the audit plane's own role; null: that of the embedded Postgres"
    )
    redis_url: SecretStr | None = Field(default=None, description="broker of the workers; embedded mode has none")
    query_redis_url: SecretStr | None = Field(
        default=None,
        description="Redis of the query plane alone, never the broker's: what its processes share; null: each for "
        "itself",
    )
    qdrant_url: str | None = Field(default=None, description="null: the embedded Qdrant Edge")
    qdrant_api_key: SecretStr | None = None
    qdrant_read_key: SecretStr | None = Field(default=None, description="the query plane's read-only key")
    qdrant_audit_key: SecretStr | None = Field(default=None, description="the audit plane's own key, for reading")
    qdrant_collection: str = "context"
    embedder: Literal["sentence-transformers", "openai"] = "sentence-transformers"
    embedder_model: str | None = Field(default=None, description="a folder or name; null: the model that is installed")
    embedder_url: str | None = None
    embedder_key: SecretStr | None = None
    embedder_threads: int = Field(default=2, ge=1)
    issuers: tuple[IssuerSettings, ...] = ()
    applications: tuple[ApplicationSettings, ...] = Field(
        default=(), description="who may ask on their own, without a person; empty: nobody"
    )
    azure_devops: AzureDevOpsSettings | None = None
    graph: GraphSettings | None = None
    sources: tuple[Literal["azure_devops", "teams"], ...] | None = Field(
        default=None, description="what others ingest, for a process that has no credentials; null: what is configured"
    )
    webhooks: WebhookSettings = WebhookSettings()
    labels: tuple[str, ...] = Field(default=(), description="least sensitive first")
    never_index_label: str | None = Field(default=None, description="from this label on nothing is stored")
    late_binding: LateBindingSettings = LateBindingSettings()
    rate_limits: RateLimitSettings = RateLimitSettings()
    required_scope: str = "context.read"
    required_role: str = Field(default="context.read", description="what an application on its own must hold")
    principal_cache_seconds: int = Field(
        default=30, ge=0, description="how long it is remembered what an asker belongs to; 0: not at all"
    )
    principal_cache_key: SecretStr | None = Field(
        default=None,
        min_length=32,
        description="what is kept in query_redis_url is signed with it; null: principals are kept in each process",
    )
    max_tokens: int = Field(default=6000, ge=200, description="bundle size where the asker names none")
    revocation_sla: int = Field(default=300, ge=1, description="seconds; older permissions fail closed")
    permission_interval: int = Field(default=60, ge=1, description="seconds between permission polls")
    membership_interval: int = Field(default=60, ge=1, description="seconds between polls of accounts and groups")
    content_interval: int = Field(default=300, ge=1, description="seconds between content polls")
    reconcile_interval: int = Field(
        default=3600, ge=0, description="seconds between comparisons of whole lists with the record; 0: every sync"
    )
    retry_failed_after: int = Field(
        default=60,
        ge=0,
        description="seconds until a failed item's second retry, four times as many with each more; 0: every sync",
    )
    subscription_interval: int = Field(
        default=600, ge=1, description="seconds between looks at whether subscriptions are there and live long enough"
    )
    source_concurrency: int = Field(default=2, ge=1, description="jobs that may ask one source's host at once")
    lease: int = Field(default=60, ge=2, description="seconds after which a dead worker's job is taken over")
    job_time_limit: int = Field(default=3600, ge=10, description="seconds after which a worker's job is killed")
    audit_keep_days: int = Field(default=0, ge=0, description="days until an audit entry is removed; 0: never")
    audit_withheld: int = Field(
        default=10,
        ge=0,
        le=100,
        description="how many of the best items for a question are looked at for what was withheld; 0: none, and no "
        "question is kept for it",
    )
    audit_interval: int = Field(default=30, ge=1, description="seconds between turns of the audit plane's work")
    metrics_port: int = Field(default=0, ge=0, le=65535, description="0: no metrics are served")
    metrics_host: str = "127.0.0.1"
    host: str = "127.0.0.1"
    port: int = Field(default=8321, ge=0, le=65535)
    public_url: str | None = Field(
        default=None,
        pattern=r"^https?://[^/?#\s\"@]+(/[^?#\s\"]*)?$",
        description="address by which clients reach the API; null: they use names of this machine only",
    )
    client_scopes: tuple[Annotated[str, Field(pattern=r"^[!#-\[\]-~]+$")], ...] = Field(
        default=(), description="what clients ask the issuer for, as it spells them; none: required_scope"
    )
    mcp_hosts: tuple[str, ...] = Field(
        default=(), description="further names (or name:port) that a Host header of an MCP client may have"
    )
    mcp_origins: tuple[str, ...] = Field(default=(), description="further origins of web pages that may speak MCP")

    @model_validator(mode="after")
    def _trust_is_clear(self) -> Settings:
        check_issuers(self.issuers)
        if len({a.principal for a in self.applications}) < len(self.applications):
            raise ValueError("applications: one account is listed twice")
        return self

    @property
    def revocation_limit(self) -> timedelta:
        """`revocation_sla` as a duration."""
        return timedelta(seconds=self.revocation_sla)


def load_settings(
    *, file: Path | None = None, environ: Mapping[str, str] | None = None, overrides: Mapping[str, Any] | None = None
) -> Settings:
    """Read settings: the file, then the environment, then `overrides` (later wins).

    Nested settings are reached by two underscores: CONTEXT_ENGINE_GRAPH__TENANT. Values of lists and tables may be
    JSON. Raises ConfigError that names the setting and what is known.
    """
    environ = os.environ if environ is None else environ
    data: dict[str, Any] = {}
    if file is not None:
        try:
            data = tomllib.loads(file.read_text("utf-8"))
        except FileNotFoundError as e:
            raise ConfigError("there is no such file", where=str(file)) from e
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
            raise ConfigError(f"not valid TOML: {e}", where=str(file)) from e
    for name, value in sorted(environ.items()):
        if name.startswith(PREFIX) and name not in NOT_SETTINGS:
            _place(data, name.removeprefix(PREFIX).lower().split("__"), value, name)
    data.update(overrides or {})
    try:
        return Settings.model_validate(data)
    except ValidationError as e:
        raise _explain(e) from e


def _place(data: dict[str, Any], path: list[str], value: str, name: str) -> None:
    *parents, leaf = path
    node = data
    for parent in parents:
        inner = node.setdefault(parent, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"{parent} is not a table", where=name)
        node = inner
    node[leaf] = _value(value)


def _value(text: str) -> Any:
    import json

    if text[:1] in "[{":
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            return text
    return text


def _explain(error: ValidationError) -> ConfigError:
    first = error.errors()[0]
    path = ".".join(str(x) for x in first["loc"])
    if first["type"] == "extra_forbidden":
        known = sorted(_names(first["loc"][:-1]))
        near = difflib.get_close_matches(str(first["loc"][-1]), known, n=1)
        hint = f"Did you mean {near[0]}? " if near else ""
        return ConfigError("unknown setting", where=path, mend=f"{hint}Known: {', '.join(known)}")
    if first["type"] == "missing":
        return ConfigError("required, and not set", where=path, mend=_where_to_set(first["loc"]))
    if first["type"] == "tuple_type":
        return ConfigError("has to be a list", where=path, mend='Write ["…"], also for one value')
    return ConfigError(first["msg"].removeprefix("Value error, "), where=path or None)


def _where_to_set(path: tuple[int | str, ...]) -> str:
    """How to set what is missing. An element of a list has no variable of its own."""
    if not all(isinstance(part, str) for part in path):
        return "Set it in the file"
    return f"Set it in the file, or {PREFIX}{'__'.join(str(part).upper() for part in path)} in the environment"


def _names(path: tuple[int | str, ...]) -> list[str]:
    tables: dict[str, type[BaseModel]] = {
        "applications": ApplicationSettings,
        "azure_devops": AzureDevOpsSettings,
        "graph": GraphSettings,
        "issuers": IssuerSettings,
        "late_binding": LateBindingSettings,
        "rate_limits": RateLimitSettings,
        "webhooks": WebhookSettings,
    }
    model = tables.get(str(path[0]), Settings) if path else Settings
    return list(model.model_fields)
