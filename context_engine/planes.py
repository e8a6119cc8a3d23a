"""What each process of server mode needs, and what it must not hold.

A plane that has another's credential is one mistake away from using it: such a process does not start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from core.errors import ConfigError
from core.settings import PREFIX, Settings


@dataclass(frozen=True, slots=True)
class Plane:
    """One process. `needs`: settings, each with its reason, or alternatives parted by a bar; `refuses`: settings."""

    name: str
    needs: tuple[tuple[str, str], ...]
    refuses: tuple[str, ...] = ()


_SOURCES: Final = ("azure_devops.pat", "graph.client_secret")
_AUDIT: Final = ("postgres_audit_url", "qdrant_audit_key")
_RECORD: Final = ("postgres_url", "postgres_hooks_url", "postgres_query_url", "postgres_audit_url")
_INDEX: Final = ("qdrant_api_key", "qdrant_read_key", "qdrant_audit_key")
_REMEMBERED: Final = ("query_redis_url", "principal_cache_key")
# Of late binding: what exchanges people's tokens.
_EXCHANGE: Final = ("late_binding.client_secret",)
_HOOKS: Final = ("webhooks.password", "webhooks.client_state_key", "webhooks.certificate_key")

API: Final = Plane(
    "api",
    needs=(
        ("sources", "it has no credential of a source, so it can't tell which there are"),
        ("postgres_query_url", "it reads the record as the query plane's role"),
        ("qdrant_url", "it reads the index of a server"),
        ("issuers", "without a trusted issuer every token is refused"),
    ),
    refuses=(*_SOURCES, "postgres_url", "postgres_hooks_url", "qdrant_api_key", "redis_url", *_HOOKS, *_AUDIT),
)
WORKER: Final = Plane(
    "worker",
    needs=(
        ("postgres_url", "it writes the record"),
        ("qdrant_url", "it writes the index of a server"),
        ("redis_url", "it takes its work from the broker"),
        ("azure_devops|graph", "it reads the sources"),
    ),
    refuses=(
        "postgres_query_url",
        "postgres_hooks_url",
        "qdrant_read_key",
        "webhooks.certificate_key",
        *_AUDIT,
        *_REMEMBERED,
        *_EXCHANGE,
    ),
)
BEAT: Final = Plane(
    "beat",
    needs=(
        ("redis_url", "it sends work to the broker"),
        ("sources", "it has no credential of a source, so it can't tell which there are"),
    ),
    refuses=(*_SOURCES, *_RECORD, *_INDEX, *_HOOKS, *_REMEMBERED, *_EXCHANGE),
)
WEBHOOKS: Final = Plane(
    "webhooks",
    needs=(
        ("postgres_hooks_url", "it keeps deliveries as the receiver's role"),
        ("webhooks.password|webhooks.client_state_key", "without a secret it refuses every delivery"),
    ),
    refuses=(
        *(*_SOURCES, "postgres_url", "postgres_query_url", "postgres_audit_url"),
        *(*_INDEX, *_REMEMBERED, *_EXCHANGE),
    ),
)
AUDIT: Final = Plane(
    "audit work",
    needs=(
        ("postgres_audit_url", "it reads the audit log as the audit plane's role"),
        ("qdrant_url", "it reads the index of a server"),
        ("sources", "it has no credential of a source, so it can't tell which there are"),
    ),
    refuses=(
        *_SOURCES,
        "postgres_url",
        "postgres_query_url",
        "postgres_hooks_url",
        "qdrant_api_key",
        "qdrant_read_key",
        "redis_url",
        *_HOOKS,
        *_REMEMBERED,
        *_EXCHANGE,
    ),
)


def check(settings: Settings, plane: Plane) -> None:
    """Raises ConfigError where the process lacks something, or holds what it must not."""
    held = [name for name in _refused(settings, plane) if _get(settings, name) is not None]
    if held:
        raise ConfigError(
            f"`{plane.name}` must not hold {', '.join(held)}",
            where=held[0],
            mend=f"Take {_in_environment(held[0])} and the like out of this process's environment and file",
        )
    for names, why in plane.needs:
        found = names.split("|")
        if not any(_get(settings, name) for name in found):
            raise ConfigError(f"`{plane.name}` needs it: {why}", where=found[0], mend=f"Set {' or '.join(found)}")
    for name in ("redis_url", "query_redis_url"):
        url = _get(settings, name)
        if url is not None and not _is_broker(url.get_secret_value()):
            raise ConfigError(
                "that is no address of a Redis server", where=name, mend="Write redis://:PASSWORD@HOST:6379/0"
            )


def _refused(settings: Settings, plane: Plane) -> tuple[str, ...]:
    """What the process must not hold. The API holds a credential for late binding only where that is on: the
    application's that exchanges people's tokens, or the connectors' where their rules are read for a question."""
    if plane is not API:
        return plane.refuses
    late = settings.late_binding
    if late.label is None:
        return (*plane.refuses, *_EXCHANGE)
    if late.method == "permissions":
        return (*(name for name in plane.refuses if name not in _SOURCES), *_EXCHANGE)
    return plane.refuses


def _is_broker(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("redis", "rediss") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        return False


def _get(settings: Settings, path: str) -> Any:
    value: Any = settings
    for name in path.split("."):
        value = getattr(value, name, None)
    return value


def _in_environment(path: str) -> str:
    return PREFIX + path.upper().replace(".", "__")
