"""What a runner of jobs works with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from core.clock import Clock
from core.settings import Settings
from graph.dead_letters import DeadLetters
from graph.jobs import JobStore
from graph.leases import LeaseStore
from graph.scopes import ScopeStore
from ingestion.connector import Connector, Reader
from ingestion.sync import Synchronizer


class HintHandler(Protocol):
    """Does what deliveries ask for (`ingestion.hint_processing`)."""

    def withhold_gone(self, connector: Connector) -> int:
        """Withhold every item that a pending hint says was deleted. Needs no lease."""
        ...

    def waiting(self, connector: Connector) -> set[str]:
        """What has hints that are due: `access`, `subscriptions`, and names of readers."""
        ...

    def access(self, connector: Connector) -> bool:
        """Read again who may read what hints name, with the lease of access held."""
        ...

    def items(
        self,
        connector: Connector,
        reader: Reader,
        *,
        between: Callable[[], None] = lambda: None,
        only_items: bool = False,
    ) -> bool:
        """Read again what hints of this reader name, with the reader's lease held. `only_items`: not the reader."""
        ...

    def subscriptions(self, connector: Connector) -> bool:
        """See to subscriptions that hints name, with their lease held."""
        ...

    def covered_by_access(self, connector: Connector, began: datetime) -> int:
        """The whole of access was read, beginning at `began`: what hints asked for before that was done."""
        ...

    def covered_by_reader(self, connector: Connector, reader: Reader, began: datetime) -> int:
        """The reader came to its end, beginning at `began`: hints to run it that came before are done."""
        ...


class Subscriptions(Protocol):
    """Keeps subscriptions to deliveries alive (`ingestion.teams.subscriptions`)."""

    def keep(self) -> object:
        """Make what is missing, renew what ends soon, remove what is not wanted."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerParts:
    """What a runner needs. `holder` is who leases name, a process; `stopping` says that work should end at the next
    batch; `upkeep` are things to be done now and then."""

    synchronizer: Synchronizer
    connectors: Sequence[Connector]
    hints: HintHandler
    leases: LeaseStore
    jobs: JobStore
    dead: DeadLetters
    scopes: ScopeStore
    settings: Settings
    clock: Clock
    holder: str
    subscriptions: Subscriptions | None = None
    upkeep: Sequence[Callable[[], object]] = ()
    stopping: Callable[[], bool] = lambda: False
