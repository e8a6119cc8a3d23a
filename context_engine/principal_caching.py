"""Settings to what remembers principals: the query plane's Redis where there is one and a key to sign with, else this
process."""

from __future__ import annotations

from core.settings import Settings
from graph.scopes import ScopeStore
from query.principal_cache import LocalPrincipalCache, PrincipalCache


def build_principal_cache(settings: Settings, scopes: ScopeStore, sources: tuple[str, ...]) -> PrincipalCache:
    """The cache of principal sets. `sources` are the connectors that must have told who belongs where.

    Raises ConfigError where the address of the Redis is none.
    """
    if settings.query_redis_url is None or settings.principal_cache_key is None:
        return LocalPrincipalCache(settings.principal_cache_seconds)
    from query.principal_cache_redis import RedisPrincipalCache

    return RedisPrincipalCache(
        settings.query_redis_url.get_secret_value(),
        key=settings.principal_cache_key.get_secret_value().encode(),
        # A process that waits for other connectors would take the same memberships for half known.
        record=lambda: f"{scopes.record_id()} {' '.join(sorted(sources))}",
        seconds=settings.principal_cache_seconds,
    )
