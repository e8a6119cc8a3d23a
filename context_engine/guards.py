"""Settings to the two guards of the query plane: late binding, and the limits on how often anybody may ask."""

from __future__ import annotations

from core.errors import ConfigError
from core.guards import LateBindingSettings
from core.index.port import IndexReader
from core.settings import Settings
from graph.db import Database
from graph.scopes import ScopeStore
from graph.unconfirmed import UnconfirmedItems
from query.bounded_pool import BoundedPool
from query.late_binding import LateBinder, Pace, SourceVerifier, free_labels
from query.limits import AskerLimiter, Counter, InProcessCounter, Rate, RateLimiter

# Calls to sources that may stand in line for a free thread, for each that runs.
_WAITING_EACH = 2


def labels_that_need_no_word(settings: Settings) -> tuple[str, ...] | None:
    """The labels below the one from which late binding begins; None where it is off. Raises ConfigError where that is
    none of the labels."""
    bound_from = settings.late_binding.label
    if bound_from is None:
        return None
    try:
        return free_labels(settings.labels, bound_from)
    except ValueError as e:
        raise ConfigError(
            f"{bound_from!r} is none of the labels",
            where="late_binding.label",
            mend=f"Known labels: {', '.join(settings.labels) or 'none; set `labels`'}",
        ) from e


def build_late_binder(
    settings: Settings, database: Database, scopes: ScopeStore, index: IndexReader
) -> LateBinder | None:
    """What confirms items at their sources; None where no label asks for it. `database` must be the query role's."""
    given = settings.late_binding
    if given.label is None:
        return None
    return LateBinder(
        scopes=scopes,
        items=UnconfirmedItems(database),
        index=index,
        verifier=build_verifier(settings, given, scopes),
        pool=BoundedPool(given.concurrency, waiting=_WAITING_EACH * given.concurrency, name="late-binding"),
        pace=Pace(deadline=given.deadline, step=given.pace),
        most=given.candidates,
    )


def build_verifier(settings: Settings, given: LateBindingSettings, scopes: ScopeStore) -> SourceVerifier:
    """Who asks the sources. Raises ConfigError where the credentials for it are missing."""
    if given.method == "permissions":
        from context_engine.live_rules import LiveRules

        return LiveRules.of(settings, scopes.get)
    from context_engine.exchange import TokenExchange
    from context_engine.reverify import OnBehalfOf, Service

    ado, graph = given.azure_devops_url, given.graph_url
    if given.tenant is None or given.client_id is None or given.client_secret is None or not (ado or graph):
        raise ConfigError(
            "asking the sources on behalf of people needs more",
            where="late_binding",
            mend="Set tenant, client_id, client_secret, and azure_devops_url, graph_url or both",
        )
    exchange = TokenExchange(
        authority=given.authority, tenant=given.tenant, client_id=given.client_id, client_secret=given.client_secret
    )
    return OnBehalfOf(
        exchange,
        azure_devops=Service(url=ado, scope=given.azure_devops_scope) if ado is not None else None,
        graph=Service(url=graph, scope=given.graph_scope) if graph is not None else None,
        connections=given.concurrency,
    )


def build_limiter(settings: Settings) -> RateLimiter:
    """Limits counted in the query plane's Redis where there is one, else in this process. Raises ConfigError where its
    address is none."""
    given = settings.rate_limits
    local = InProcessCounter()
    counter: Counter = local
    if settings.query_redis_url is not None:
        from query.limits_redis import RedisCounter

        counter = RedisCounter(settings.query_redis_url.get_secret_value(), local=local)
    return AskerLimiter(
        counter,
        asker=Rate(given.asker_per_minute, given.asker_burst) if given.asker_per_minute else None,
        agent=Rate(given.agent_per_minute, given.agent_burst) if given.agent_per_minute else None,
    )
