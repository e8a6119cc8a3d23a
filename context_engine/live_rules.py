"""Asks the sources by their rules, for late binding where nobody can be spoken for: with the connectors' credentials
the rule of an item's scope is read as it is now, and judged as every rule is.

Of Teams the members of the channel are read at the same time; of Azure DevOps, who belongs to which group is what the
directory of the engine says. So where the rule of the moment denies a group that the recorded rule does not name,
nobody can tell who is meant, and nothing of that scope is confirmed until that has been learnt. That the item itself is
still there is not asked.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence

from core import uris
from core.access import Scope, ScopeAcl, ScopeId
from core.errors import ConfigError, SourceError
from core.items import Source
from core.principals import Principal, PrincipalSet, kind_of
from core.settings import Settings
from graph.unconfirmed import ToConfirm
from ingestion.azure_devops.organization import Organization
from ingestion.azure_devops.rules_now import RulesNow
from ingestion.connector import Connector


class LiveRules:
    """Judges by rules that are read for the question. `recorded` gives a scope as it was last learnt, `teams` is the
    connector; a source that is None confirms nothing."""

    def __init__(
        self,
        recorded: Callable[[ScopeId], Scope | None],
        *,
        azure_devops: RulesNow | None,
        teams: Connector | None,
        tenant: str,
    ) -> None:
        self._recorded = recorded
        self._azure_devops, self._teams = azure_devops, teams
        self._tenant = tenant.lower()
        for asked in (azure_devops, teams):
            if asked is not None:
                weakref.finalize(self, asked.close)

    @classmethod
    def of(cls, settings: Settings, recorded: Callable[[ScopeId], Scope | None]) -> LiveRules:
        """By the connectors that the settings name. Raises ConfigError where they name none."""
        if settings.azure_devops is None and settings.graph is None:
            raise ConfigError(
                "reading the sources' rules needs a connector's credentials",
                where="late_binding.method",
                mend="Set azure_devops or graph in this process too, or ask on behalf of people",
            )
        teams = None
        if settings.graph is not None:
            from ingestion.teams.connector import TeamsConnector

            teams = TeamsConnector(settings.graph, labels=settings.labels)
        return cls(
            recorded,
            azure_devops=RulesNow(Organization(settings.azure_devops)) if settings.azure_devops is not None else None,
            teams=teams,
            tenant=settings.graph.tenant if settings.graph is not None else "",
        )

    def batches(self, items: Sequence[ToConfirm]) -> Sequence[Sequence[ToConfirm]]:
        """All items of one scope together: they have one rule."""
        by_scope: dict[ScopeId, list[ToConfirm]] = {}
        for item in items:
            by_scope.setdefault(item.scope, []).append(item)
        return list(by_scope.values())

    def confirmed(self, principals: PrincipalSet, batch: Sequence[ToConfirm], deadline: float) -> frozenset[str]:
        """See `query.late_binding.SourceVerifier`. The connectors' requests have limits of their own; whoever waits
        does so until the deadline."""
        if batch[0].source is Source.TEAMS:
            acl, mine = self._channel(batch[0], principals.principals)
        else:
            acl, mine = self._scope(batch[0]), principals.principals
        return frozenset(item.uri for item in batch) if acl is not None and acl.permits(mine) else frozenset()

    def _scope(self, item: ToConfirm) -> ScopeAcl | None:
        acl = self._azure_devops.of(item.scope) if self._azure_devops is not None else None
        recorded = self._recorded(item.scope)
        if acl is None or recorded is None:
            return None
        groups = {p for p in acl.denied_principals() if kind_of(p) != "user"}
        return acl if groups <= recorded.acl.mentioned() else None

    def _channel(
        self, item: ToConfirm, principals: frozenset[Principal]
    ) -> tuple[ScopeAcl | None, frozenset[Principal]]:
        """The channel's rule, and what the asker counts as by the members that it has now."""
        if self._teams is None:
            return None, frozenset()
        place = uris.channel(self._tenant, item.attributes["channel_id"])
        snapshot = self._teams.access_of([place])
        if snapshot is None:
            return None, frozenset()
        acl = next((s.acl for s in snapshot.scopes if s.id == item.scope), None)
        now = set(principals)
        for container in snapshot.containers:
            if container.members is None:
                raise SourceError("the members of a channel can't be read", where=container.name)
            now.discard(container.principal)
            if container.members & principals:
                now.add(container.principal)
        return acl, frozenset(now)
