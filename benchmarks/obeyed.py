"""Seconds from a change at the source until the next question obeys it: told by webhook, and found by polling.

    .venv/bin/python -m benchmarks.obeyed [--rounds 5] [--interval 10] [--world DIR] [--json]

An embedded engine with its real schedule and receiver, on the demo company in the sandbox, in one process. A change is
made; who it is about is looked at every few milliseconds, by the steps that a question takes. By webhook the engine
polls nothing meanwhile; by polling no delivery is sent, everything is polled every `--interval` seconds, and changes
are made at any time between two polls.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.report import machine, tell
from context_engine.commands.target import DEMO_WORLD
from context_engine.embedded import EmbeddedEngine
from context_engine.receiving import receiving
from context_engine.schedule import Schedule
from core import principals
from core.clock import SystemClock
from core.embedding.port import Embedder
from core.errors import ContextEngineError
from core.principals import issue_asker
from fixtures.sandbox.references import target
from fixtures.sandbox.state_events import apply_event
from fixtures.sandbox.world_models import Event, World
from graph.directory import DirectoryStore
from graph.records import ItemStore
from graph.scopes import ScopeStore
from graph.subscriptions import SubscriptionStore
from query.principals import PrincipalResolver

Data = dict[str, Any]
WAYS = ("webhook", "poll")
NEVER = 86_400
LOOK_EVERY = 0.005
PATIENCE = 120.0


@dataclass(frozen=True, slots=True)
class Case:
    """A change, how it is undone, and who may read what before it and not after it. `told`: a service tells of it."""

    name: str
    change: Data
    undo: Data
    person: str
    item: str
    told: bool = True


CASES = (
    Case(
        "somebody leaves a team (Teams)",
        {"remove_member": {"team": "Fabrikam Rollout", "who": "gita"}},
        {"add_member": {"team": "Fabrikam Rollout", "who": "gita"}},
        "gita",
        "message:Fabrikam Rollout/General/m1",
    ),
    Case(
        "somebody leaves an Entra group",
        {"remove_member": {"group": "sales-engineering", "who": "stephan"}},
        {"add_member": {"group": "sales-engineering", "who": "stephan"}},
        "stephan",
        "work_item:4613",
    ),
    Case(
        "a work item is deleted",
        {"delete": {"item": "work_item:4613"}},
        {"restore": {"item": "work_item:4613"}},
        "sarah",
        "work_item:4613",
    ),
    Case(
        "a repo is closed to somebody (Azure DevOps)",
        {"set_acl": {"on": "repo:data-warehouse", "acl": [{"to": "group:engineering", "deny": ["read"]}]}},
        {"set_acl": {"on": "repo:data-warehouse", "acl": [{"to": "group:engineering", "allow": ["read"]}]}},
        "sarah",
        "repo:data-warehouse",
        told=False,
    ),
)


class Watcher:
    """Looks at what people may read, as a question does."""

    def __init__(self, engine: EmbeddedEngine) -> None:
        assert engine.sandbox is not None
        self.state = engine.sandbox.state
        database = engine.query_database
        self._items = ItemStore(database)
        self._scopes = ScopeStore(database, revocation_limit=engine.settings.revocation_limit)
        self._resolver = PrincipalResolver(DirectoryStore(database), self._scopes)
        self._database = database
        self._known: dict[str, str] = {}

    def sees(self, person: str, item: str) -> bool:
        """Whether a person may read an item, or anything of a repo, now."""
        tenant = str(self.state.tenant_id)
        who = principals.user(tenant, self.state.oid(person))
        asker = issue_asker(principal=who, tenant=tenant, agent=None, scopes=frozenset())
        try:
            trim = self._scopes.trim_for(self._resolver.resolve(asker))
        except ContextEngineError:
            return False
        return bool(self._items.visible(trim, [self._uri(item)]))

    def happens(self, change: Data) -> None:
        """Make a change at the source, now."""
        with self.state.lock:
            past = int((self.state.now - self.state.first.now).total_seconds())
            event = {"id": f"benchmark-{len(self.state.journal)}", "after": f"{past + 1}s", **change}
            apply_event(self.state, Event.model_validate(event))

    def takes(self, change: Data, case: Case, *, sees: bool) -> float:
        """Seconds from a change until the person sees the item, or does no more."""
        started = time.perf_counter()
        self.happens(change)
        wait_for(lambda: self.sees(case.person, case.item) is sees, f"{case.name}: {change}")
        return time.perf_counter() - started

    def _uri(self, item: str) -> str:
        """The item's address; of a repo, that of one of its files."""
        if item not in self._known:
            if item.startswith("repo:"):
                prefix = f"ctx://ado/%/repos/{self.state.git(item.removeprefix('repo:')).id}/files/%"
                with self._database.connection() as connection:
                    row = connection.execute(
                        "SELECT min(uri) AS uri FROM items WHERE uri LIKE %s AND shown", [prefix]
                    ).fetchone()
                assert row is not None
                self._known[item] = str(row["uri"])
            else:
                self._known[item] = str(target(self.state, item).uri)
        return self._known[item]


def wait_for(check: Callable[[], bool], what: str) -> None:
    """Look again and again. Raises TimeoutError."""
    end = time.monotonic() + PATIENCE
    while not check():
        if time.monotonic() > end:
            raise TimeoutError(what)
        time.sleep(LOOK_EVERY)


@contextmanager
def running(
    world: Path | World, data: Path, *, told: bool, interval: int, embedder: Embedder | None, stores: Data
) -> Iterator[EmbeddedEngine]:
    """An engine with its schedule; with its receiver, and polling nothing, where it is `told`. `stores` are settings of
    others than the embedded ones."""
    every = NEVER if told else interval
    names = ("permission_interval", "membership_interval", "content_interval", "reconcile_interval")
    overrides: Data = {**dict.fromkeys(names, every), "revocation_sla": NEVER, **stores}
    with ExitStack() as stack:
        engine = stack.enter_context(
            EmbeddedEngine(data=data, world=world, overrides=overrides, real_clock=True, embedder=embedder)
        )
        engine.bring_up_to_date()
        schedules: list[Schedule] = []

        def nudge(connector: str) -> None:
            for schedule in schedules:
                schedule.nudge(connector)

        hooks = stack.enter_context(receiving(engine, nudge)) if told else None
        schedules.append(stack.enter_context(Schedule(engine.runner(hooks), engine.jobs(), SystemClock(), engine.stop)))
        if told:
            kept = SubscriptionStore(engine.database)
            wait_for(lambda: any(s.id for s in kept.all()), "subscriptions")
            time.sleep(1)  # the last of them are being made
        yield engine


def measure(
    world: Path | World,
    data: Path,
    *,
    rounds: int,
    interval: int,
    cases: Sequence[Case] = CASES,
    ways: Sequence[str] = WAYS,
    embedder: Embedder | None = None,
    stores: Callable[[], Data] = dict,
) -> dict[str, Any]:
    """Each case so many times, each way, on stores of its own."""
    taken_by: dict[str, dict[str, dict[str, list[float]]]] = {}
    for way in ways:
        told = way == "webhook"
        with running(world, data / way, told=told, interval=interval, embedder=embedder, stores=stores()) as engine:
            watcher, found = Watcher(engine), taken_by.setdefault(way, {})
            pauses = Random(1)  # noqa: S311 - when to make a change
            for case in cases:
                if told and not case.told:
                    continue
                assert watcher.sees(case.person, case.item), case.name
                taken = found.setdefault(case.name, {"gone": [], "back": []})
                for _ in range(rounds):
                    for kind, change in (("gone", case.change), ("back", case.undo)):
                        if not told:
                            time.sleep(pauses.uniform(0, interval))
                        taken[kind].append(watcher.takes(change, case, sees=kind == "back"))
    return {
        "rounds": rounds,
        "interval": interval,
        "seconds": {
            way: {name: {k: _told(v) for k, v in taken.items()} for name, taken in found.items()}
            for way, found in taken_by.items()
        },
        "machine": machine(),
        "date": datetime.now(UTC).date().isoformat(),
    }


def _told(seconds: list[float]) -> dict[str, float]:
    return {"median": round(statistics.median(seconds), 2), "max": round(max(seconds), 2)}


def show(result: dict[str, Any]) -> None:
    """The result as Markdown."""
    print(f"{result['date']}, {result['machine']}; {result['rounds']} times each, polls every {result['interval']} s\n")
    print("| what changes | obeyed: webhook | poll | undone: webhook | poll |\n| --- | ---: | ---: | ---: | ---: |")
    for case in CASES:
        cells = []
        for kind in ("gone", "back"):
            for way in ("webhook", "poll"):
                one = result["seconds"][way].get(case.name, {}).get(kind)
                cells.append(f"{one['median']} (at most {one['max']})" if one else "no hook")
        print(f"| {case.name} | {' | '.join(cells)} |")
    print("\nSeconds, the median of all.")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", type=Path, default=DEMO_WORLD)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--interval", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="context-engine-benchmark-") as folder:
        result = measure(options.world, Path(folder), rounds=options.rounds, interval=options.interval)
    tell(result, show, as_json=options.json)


if __name__ == "__main__":
    main()
