"""What access stands on has an age: it is measured, told, exported, and past the promise it opens nothing."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from datetime import timedelta

import httpx
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from context_engine.commands.access_health import access_findings
from context_engine.commands.finding import Finding, Health
from context_engine.commands.work_health import work_findings
from context_engine.metrics import EngineCollector, serve_metrics
from core.access import Gate, Layer, ScopeAcl
from core.clock import FixedClock
from core.directory import Container
from core.errors import ConfigError
from core.hints import Hint, HintKind
from core.principals import Principal, parse
from core.settings import Settings
from graph.access_health import AccessHealth, AgeOf
from graph.db import Database
from graph.dead_letters import DeadLetters
from graph.deliveries import DeliveryCounts
from graph.directory import DirectoryStore
from graph.erasures import ErasureStore
from graph.inbox import Arrival, Inbox
from graph.jobs import JobStore
from graph.runs import RunStore
from graph.scopes import ScopeStore
from graph.subscriptions import Subscription, SubscriptionStore
from tests.graph.support import IRIS, LIMIT, NOW, TEO, asking, box, group, member, scope, scope_store
from tests.support.postgres import FreshDatabase

SECOND = timedelta(seconds=1)
SETTINGS = Settings(revocation_sla=int(LIMIT.total_seconds()))
CREW, KEPT_OUT = parse("ado:vssgp.crew"), parse("ado:vssgp.out")
# Words of which none may stand in a metric: of a person, a group, a scope, an item, a place, a failure.
SECRETS = ("iris", "crew", "northwind", "quoxal", "ctx://", "19:abc")


class Company:
    """Who may read what, read by two connectors at a time of one's choice."""

    def __init__(self, db: Database) -> None:
        self.db, self.clock = db, FixedClock(NOW)
        self.scopes: ScopeStore = scope_store(db, self.clock)
        self.directory = DirectoryStore(db)

    def teams(self) -> None:
        """The tenant's directory, and the channels."""
        now = self.clock.now()
        self.directory.apply("teams", [member("iris"), member("teo")], [box("crew", IRIS)], complete=True, at=now)
        rule = ScopeAcl((Gate("roster", (Layer("channel", allow=frozenset({group("crew")})),)),))
        self.scopes.apply("teams", (scope("channel", rule),), complete=True, at=now)
        self.scopes.touch("teams", now)

    def devops(self, *, unread: tuple[Principal, ...] = (), touch: bool = True) -> None:
        """Groups of Azure DevOps, and a repo that a group of theirs opens and another shuts."""
        now = self.clock.now()
        crew = frozenset({group("crew"), TEO})
        boxes = [
            Container(principal=who, name=name, kind="azure_devops_group", members=None if who in unread else members)
            for who, name, members in ((CREW, "Northwind crew", crew), (KEPT_OUT, "Out", frozenset[Principal]()))
        ]
        self.directory.apply("azure_devops", [], boxes, complete=not unread, at=now)
        layer = Layer("repo", allow=frozenset({CREW}), deny=frozenset({KEPT_OUT}))
        self.scopes.apply(
            "azure_devops", (scope("repo", ScopeAcl((Gate("object", (layer,)),))),), complete=True, at=now
        )
        if touch:
            self.scopes.touch("azure_devops", now)

    def reads(self, who: Principal) -> set[str]:
        """What somebody may read now."""
        return set(self.scopes.trim_for(asking(who, *self.directory.closure(who))).readable)

    def told(self) -> dict[str, Finding]:
        """What doctor says now."""
        found = access_findings(self.db, ["teams", "azure_devops"], LIMIT, now=self.clock.now())
        return {f.what: f for f in found}

    def age(self, what: AgeOf, connector: str) -> timedelta | None:
        """How old a part of access is now."""
        (one,) = [a for a in AccessHealth(self.db).ages() if (a.what, a.connector) == (what, connector)]
        return one.at(self.clock.now())


@pytest.fixture
def company(ingest_db: Database) -> Company:
    """Everything was read just now."""
    made = Company(ingest_db)
    made.teams()
    made.devops()
    assert made.reads(IRIS) == {"channel", "repo"}
    return made


@pytest.mark.parametrize("connector", ["teams", "azure_devops"])
def test_rules_of_a_connector_that_are_older_than_promised_open_nothing_of_it(connector: str, company: Company) -> None:
    mine, other = ("channel", "repo") if connector == "teams" else ("repo", "channel")
    company.clock.advance(LIMIT)
    # The other one goes on being read, and so do the memberships of both.
    company.directory.apply(
        "teams", [member("iris"), member("teo")], [box("crew", IRIS)], complete=True, at=NOW + LIMIT
    )
    (company.devops if connector == "teams" else lambda: company.scopes.touch("teams", NOW + LIMIT))()
    assert company.reads(IRIS) == {mine, other}
    assert company.told()[f"permissions of {connector}"].health is Health.OK
    company.clock.advance(SECOND)
    assert company.reads(IRIS) == {other}
    assert company.age(AgeOf.PERMISSIONS, connector) == LIMIT + SECOND
    late = company.told()[f"permissions of {connector}"]
    assert late.health is Health.WARNING
    assert "read 301 s ago (promise: 300 s); 1 scopes are shut by age" in late.found
    (company.teams if connector == "teams" else company.devops)()
    assert company.reads(IRIS) == {mine, other}


def test_a_directory_that_is_older_than_promised_opens_nothing_of_anybody(company: Company) -> None:
    company.clock.advance(LIMIT)
    for connector in ("teams", "azure_devops"):
        company.scopes.touch(connector, company.clock.now())
    assert company.reads(IRIS) == {"channel", "repo"}
    company.clock.advance(SECOND)
    assert company.reads(IRIS) == set()
    assert company.age(AgeOf.MEMBERSHIPS, "teams") == LIMIT + SECOND
    assert "memberships count no more" in company.told()["directory"].found
    # Reading the memberships alone is enough.
    people, boxes = [member("iris"), member("teo")], [box("crew", IRIS)]
    company.directory.apply("teams", people, boxes, complete=True, at=company.clock.now(), kinds={"group"})
    assert company.reads(IRIS) == {"channel", "repo"}
    assert "directory" not in company.told()
    assert company.told()["memberships of teams"].health is Health.OK


def test_a_container_that_can_t_be_read_lets_nobody_in_after_that_time_and_a_deny_of_one_at_once(
    company: Company,
) -> None:
    company.devops(unread=(CREW,))
    assert company.age(AgeOf.UNREAD, "azure_devops") == timedelta(0)
    company.clock.advance(LIMIT)
    company.teams()
    company.devops(unread=(CREW,))
    assert company.reads(IRIS) == {"channel", "repo"}
    company.clock.advance(SECOND)
    assert company.reads(IRIS) == {"channel"}
    told = company.told()["groups of azure_devops"]
    assert "the first for 301 s" in told.found
    assert "past the promise of 300 s they let nobody in" in told.found
    company.devops()
    assert company.reads(IRIS) == {"channel", "repo"}
    assert "groups of azure_devops" not in company.told()
    company.devops(unread=(KEPT_OUT,))
    assert company.reads(IRIS) == {"channel"}


def test_a_time_from_the_future_proves_nothing(company: Company) -> None:
    """A machine whose clock ran ahead must not keep scopes open for as long."""
    company.clock.move_to(NOW - LIMIT - SECOND)
    assert company.reads(IRIS) == set()
    assert company.told()["permissions of azure_devops"].health is Health.WARNING


def test_what_was_never_read_is_told(ingest_db: Database) -> None:
    told = {f.what: f for f in access_findings(ingest_db, ["teams"], LIMIT, now=NOW)}
    assert "never read" in told["permissions of teams"].found
    assert "nobody is answered" in told["memberships of teams"].found
    assert AccessHealth(ingest_db).ages() == []


# --- metrics


Metrics = dict[str, list[Sample]]


def parsed(text: str) -> Metrics:
    """Samples by the name of their family."""
    return {f.name.removeprefix("context_engine_"): f.samples for f in text_string_to_metric_families(text)}


@pytest.fixture
def scrape(ingest_db: Database) -> Callable[[], Metrics]:
    """The metrics as they are told a minute later."""
    registry = CollectorRegistry()
    registry.register(EngineCollector(ingest_db, SETTINGS, FixedClock(NOW + timedelta(seconds=60))))
    return lambda: parsed(generate_latest(registry).decode())


def value(samples: list[Sample], **labels: str) -> float:
    """The value with these labels."""
    (found,) = [s.value for s in samples if all(s.labels.get(k) == v for k, v in labels.items())]
    return float(found)


def test_ages_epoch_and_limits_are_exported(company: Company, scrape: Callable[[], Metrics]) -> None:
    company.devops(unread=(CREW,))
    found = scrape()
    assert value(found["up"]) == 1
    assert value(found["revocation_sla_seconds"]) == 300
    assert value(found["permissions_age_seconds"], connector="azure_devops") == 60
    assert value(found["memberships_age_seconds"], connector="teams") == 60
    assert value(found["unread_containers"], connector="azure_devops") == 1
    assert value(found["unread_age_seconds"], connector="azure_devops") == 60
    assert value(found["access_epoch"]) == company.scopes.epoch()
    assert value(found["scopes"], connector="teams") == 1


def test_rules_that_were_never_read_to_their_end_are_infinitely_old(
    ingest_db: Database, scrape: Callable[[], Metrics]
) -> None:
    Company(ingest_db).devops(touch=False)
    assert value(scrape()["permissions_age_seconds"], connector="azure_devops") == float("inf")


def busy(db: Database) -> None:
    """Work of every kind, some of it failing, with words in it that are nobody's business."""
    clock = FixedClock(NOW)
    runs = RunStore(db, clock=clock)
    runs.finish(runs.start("teams", "teams"), "failed", "quoxal: ctx://teams/t/channels/19:abc", {})
    runs.finish(runs.start("teams", "teams"), "complete", None, {})
    runs.fail("teams", "ctx://teams/t/quoxal", "quoxal", NOW)
    jobs = JobStore(db, clock)
    claim = jobs.claim("teams/content/teams", every=timedelta(minutes=5), slack=SECOND)
    assert claim is not None
    jobs.fail(claim, "quoxal", wait=timedelta(minutes=1))
    DeadLetters(db, clock).put("teams/permissions", {}, "quoxal", attempts=5)
    hint = Hint(connector="teams", kind=HintKind.ITEM, reader="teams", uri="ctx://teams/t/channels/19:abc/messages/1")
    Inbox(db, clock).receive("graph", [Arrival(key="k", hints=(hint,), occurred_at=NOW)])
    DeliveryCounts(db, clock).add({("graph", "accepted"): 3, ("graph", "forged"): 2})
    SubscriptionStore(db).put(
        Subscription(
            connector="teams",
            resource="/teams/19:abc/channels/getAllMessages",
            id="s",
            made_at=NOW,
            renewed_at=NOW,
            expires_at=NOW + timedelta(minutes=10),
        )
    )
    ErasureStore(db).register_item("ctx://quoxal", NOW)


def test_work_is_exported_by_connector_reader_and_outcome_and_no_label_tells_more(
    company: Company, ingest_db: Database, scrape: Callable[[], Metrics]
) -> None:
    busy(ingest_db)
    found = scrape()
    assert value(found["runs"], connector="teams", reader="teams", state="failed") == 1
    assert value(found["last_run_complete"], connector="teams", reader="teams") == 1
    assert value(found["failed_items"], source="teams") == 1
    assert value(found["job_failures"], job="teams/content/teams") == 1
    assert value(found["job_success_age_seconds"], job="teams/content/teams") == float("inf")
    assert value(found["dead_letters"]) == 1
    assert value(found["inbox_hints"], connector="teams", state="pending") == 1
    assert value(found["inbox_oldest_seconds"], connector="teams") == 60
    assert value(found["deliveries"], source="graph", outcome="forged") == 2
    assert value(found["subscription_expires_seconds"], connector="teams") == 540
    assert value(found["erasures_unfinished"]) == 1
    told = {text for samples in found.values() for s in samples for text in s.labels.values()}
    assert {t for t in told if not re.fullmatch(r"[a-z_]+(/[a-z_]+)*", t)} == set()
    assert {s for s in SECRETS for t in told if s in t} == set()


def test_a_record_that_does_not_answer_is_told_and_no_error(scrape: Callable[[], Metrics], ingest_db: Database) -> None:
    assert value(scrape()["up"]) == 1
    ingest_db.close()
    found = scrape()
    assert value(found["up"]) == 0
    assert set(found) == {"up", "revocation_sla_seconds"}


def test_a_role_that_may_read_little_exports_what_it_may(
    company: Company, fresh_database: FreshDatabase, open_database: Callable[[str], Database], ingest_db: Database
) -> None:
    """The query role may read no inbox, and no delivery."""
    busy(ingest_db)
    collected = EngineCollector(open_database(fresh_database.query_dsn), SETTINGS, FixedClock(NOW)).collect()
    names = {m.name for m in collected if m.samples}
    assert "context_engine_permissions_age_seconds" in names
    assert not names & {"context_engine_inbox_hints", "context_engine_dead_letters"}


def test_they_are_served_where_a_port_is_given_and_a_port_in_use_is_told(ingest_db: Database) -> None:
    with serve_metrics(SETTINGS, ingest_db) as port:
        assert port is None
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        settings = SETTINGS.model_copy(update={"metrics_port": taken.getsockname()[1]})
        taken.listen()
        with pytest.raises(ConfigError, match="can't be listened on"), serve_metrics(settings, ingest_db):
            pass
    with serve_metrics(settings, ingest_db) as port:
        answer = httpx.get(f"http://127.0.0.1:{port}/metrics")
    assert value(parsed(answer.text)["up"]) == 1


def test_doctor_tells_of_work_that_waits_or_was_given_up(ingest_db: Database) -> None:
    assert list(work_findings(ingest_db, now=NOW)) == []
    busy(ingest_db)
    told = {f.what: f for f in work_findings(ingest_db, now=NOW + timedelta(minutes=11))}
    assert "failed 1 times in a row, last succeeded never" in told["job teams/content/teams"].found
    assert "given up after 5 tries" in told["dead letter teams/permissions"].found
    assert "1 hints wait, the oldest since 660 s ago" in told["webhooks"].found
    assert "2 deliveries were refused" in told["webhooks"].found
    assert "1 have lapsed" in told["subscriptions"].found
    assert told["erasures"].do == "run `erase --resume`"
