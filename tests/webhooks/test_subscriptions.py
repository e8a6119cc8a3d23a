"""Subscriptions of Graph: kept in Postgres, renewed in time, made anew where they lapsed, with what they missed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from context_engine.http_server import LoopbackServer
from context_engine.worlds import SANDBOX_CLIENT, world_settings
from core.clock import FixedClock
from core.errors import SourceError
from core.hints import Hint, HintKind
from core.settings import GraphSettings, Settings, WebhookSettings
from fixtures.sandbox.graph.http import GraphError
from fixtures.sandbox.graph.subscriptions import Subscriptions
from fixtures.sandbox.hooks.subscriptions import GraphSubscription, Watched
from fixtures.sandbox.server import SandboxServer
from graph.db import Database
from graph.inbox import Inbox
from graph.runs import Run
from graph.subscriptions import Subscription, SubscriptionStore
from ingestion.teams.channels import Channel
from ingestion.teams.client import GraphClient, SourceRefusedError
from ingestion.teams.subscriptions import SubscriptionKeeper, silent
from ingestion.teams.watched import life, wanted
from ingestion.webhooks.app import create_receiver
from tests.support.postgres import FreshDatabase, PostgresServer
from tests.support.small_organization import small_organization
from tests.webhooks.envelopes import make_certificate
from tests.webhooks.support import empty, hooks_database

FRIDAY = datetime(2031, 3, 7, 9, tzinfo=UTC)
MONDAY = datetime(2031, 3, 10, 7, tzinfo=UTC)
EVERYWHERE = {"/users", "/groups", "/teams", "/teams/getAllChannels", "/teams/getAllMembers", "/teams/getAllMessages"}


class Side:
    """A keeper on a sandbox, and the receiver that its subscriptions tell."""

    def __init__(self, sandbox: SandboxServer, db: Database, clock: FixedClock, folder: Path) -> None:
        self.sandbox, self.clock, self.folder = sandbox, clock, folder
        self.inbox, self.store = Inbox(db, clock), SubscriptionStore(db)
        self.url = ""

    def settings(self, *, teams: Sequence[str] = ("*",), **hooks: Any) -> Settings:
        """Settings of this side."""
        given = {"password": SecretStr("p"), "client_state_key": SecretStr("k"), "public_url": self.url} | hooks
        made = world_settings(self.sandbox, self.folder, {"webhooks": WebhookSettings(**given)})
        assert made.graph is not None
        return made.model_copy(update={"graph": made.graph.model_copy(update={"teams": tuple(teams)})})

    def keeper(self, **settings: Any) -> SubscriptionKeeper:
        """A keeper in a process of its own: it remembers nothing of others."""
        made = self.settings(**settings)
        assert made.graph is not None
        client = GraphClient(made.graph, sleep=lambda _: None, jitter=lambda: 0.0)
        return SubscriptionKeeper(client, self.store, self.inbox, made, self.clock)

    def keep(self, **settings: Any) -> dict[str, int]:
        """Keep once; what was done."""
        return {k: v for k, v in vars(self.keeper(**settings).keep()).items() if v}

    def live(self) -> dict[str, Any]:
        """What Graph has, by resource."""
        return {one.resource: one for one in self.sandbox.hooks.book.graph()}

    def row(self, resource: str) -> Subscription:
        """What we know of one."""
        return next(s for s in self.store.all("teams") if s.resource == resource)

    def gap_reads(self) -> Counter[str]:
        """What is to be read for what was missed; done by that."""
        found: Counter[str] = Counter()
        for kind in (HintKind.ACCESS, HintKind.READER):
            pending = self.inbox.pending("teams", kind)
            found[kind.value] += len(pending)
            self.inbox.done([p.id for p in pending])
        return +found


@pytest.fixture(scope="module")
def clock() -> FixedClock:
    return FixedClock(FRIDAY)


@pytest.fixture(scope="module")
def databases(postgres: PostgresServer) -> Iterator[tuple[FreshDatabase, Database, Database]]:
    with hooks_database(postgres) as made:
        yield made


@pytest.fixture(scope="module")
def running(
    databases: tuple[FreshDatabase, Database, Database],
    clock: FixedClock,
    sandbox_home: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Side]:
    folder = tmp_path_factory.mktemp("subscriptions")
    _, mine, theirs = databases
    with SandboxServer(small_organization(teams=True), sandbox_home, remember=False, hooks_clock=clock) as sandbox:
        side = Side(sandbox, theirs, clock, folder)
        app = create_receiver(
            side.settings(public_url=None), Inbox(mine, clock), SubscriptionStore(mine), lambda _: None, clock
        )
        with LoopbackServer(app) as receiver:
            side.url = receiver.url
            yield side
        app.state.receiver.ledger.close()


@pytest.fixture
def side(running: Side, clock: FixedClock, databases: tuple[FreshDatabase, Database, Database]) -> Iterator[Side]:
    clock.move_to(FRIDAY)
    yield running
    running.sandbox.faults.rules.clear()
    running.sandbox.hooks.clear()
    empty(databases[2])


def of_team(side: Side, name: str) -> str:
    return f"/teams/{side.sandbox.state.ids.team(name)}"


def test_everything_that_is_read_is_subscribed_to_once(side: Side) -> None:
    assert side.keep() == {"made": 7}
    members = f"{of_team(side, 'Core')}/channels/getAllMembers"
    assert side.live().keys() == EVERYWHERE | {members}
    assert side.keep() == {}
    assert side.gap_reads() == {}, "what was before the first subscription is for the polls"
    for resource, one in side.live().items():
        assert one.expires == side.row(resource).expires_at == FRIDAY + life(resource)
        assert one.notification_url == f"{side.url}/hooks/graph"
        assert one.lifecycle_url == f"{side.url}/hooks/graph/lifecycle"


def test_of_single_teams_each_channel_is_subscribed_to(side: Side) -> None:
    side.keep(teams=["Side"])
    core, team = side.sandbox.state.ids.team("Core"), of_team(side, "Side")
    shared = f"/teams/{core}/channels/{side.sandbox.state.channel_id('Core', 'Bridge')}"
    general = f"{team}/channels/{side.sandbox.state.channel_id('Side', 'General')}"
    assert side.live().keys() == {
        "/users",
        "/groups",
        team,
        f"{team}/channels",
        f"{team}/members",
        f"{general}/messages",
        f"{shared}/messages",
        f"/teams/{core}/channels/getAllMembers",
    }


def test_what_is_wanted_needs_no_more_than_the_channels() -> None:
    def channel(team: str, kind: str, **more: Any) -> Channel:
        given = {"id": "19:c", "name": "c", "team_id": team, "team_name": team, "team_public": False, "label": None}
        return Channel(kind=kind, **given | more)

    assert wanted(["*"], []) == ["/users", "/groups", *sorted(EVERYWHERE - {"/users", "/groups"})]
    assert wanted(["a"], [channel("a", "standard")]) == [
        "/users",
        "/groups",
        "/teams/a",
        "/teams/a/channels",
        "/teams/a/members",
        "/teams/a/channels/19:c/messages",
    ]


def test_a_subscription_is_renewed_at_half_its_life_by_whichever_process(side: Side) -> None:
    side.keep()
    made = side.live()["/teams/getAllMessages"].id
    side.clock.move_to(FRIDAY + life("/teams") / 2 - timedelta(minutes=1))
    assert side.keep() == {}
    side.clock.advance(timedelta(minutes=2))
    assert side.keep() == {"renewed": 5}, "those of the directory live longer"
    now = side.live()["/teams/getAllMessages"]
    assert (now.id, now.expires) == (made, side.clock.now().replace(microsecond=0) + life("/teams"))
    assert side.keep() == {}


def test_one_that_died_over_a_weekend_is_made_anew_and_the_gap_is_read(side: Side) -> None:
    """C038"""
    side.keep()
    before = {r: s.id for r, s in side.live().items()}
    side.clock.move_to(MONDAY + timedelta(hours=12))
    assert side.live().keys() == {"/users", "/groups"}
    assert side.keep() == {"made": 5}
    assert side.live().keys() == before.keys()
    assert side.live()["/teams/getAllMessages"].id != before["/teams/getAllMessages"]
    assert side.row("/teams/getAllMessages").id == side.live()["/teams/getAllMessages"].id
    assert side.gap_reads() == {"access": 5, "reader": 5}
    assert side.keep() == {}


@pytest.mark.parametrize("event", ["reauthorizationRequired", "missed", "subscriptionRemoved"])
def test_what_graph_says_of_a_subscription_is_done(side: Side, event: Any) -> None:
    """C038"""
    side.keep()
    resource = "/teams/getAllMessages"
    one = side.live()[resource]
    side.clock.advance(timedelta(hours=1))
    delivery = side.sandbox.hooks.lifecycle(event, one.id)
    assert delivery is not None
    assert side.sandbox.hooks.deliver(delivery).status_code == 202
    (pending,) = side.inbox.pending("teams", HintKind.SUBSCRIPTION)
    side.keeper().lifecycle(pending.hint)
    now = side.live()[resource]
    gap = side.gap_reads()
    if event == "reauthorizationRequired":
        assert (now.id, now.stops_at, gap) == (one.id, None, {})
        assert now.expires > one.expires - timedelta(hours=1)
    elif event == "missed":
        assert (now.id, gap) == (one.id, {"access": 1, "reader": 1})
    else:
        assert now.id != one.id
        assert gap == {"access": 1, "reader": 1}
    assert side.keep() == {}


def test_a_renewal_that_graph_refuses_is_asked_for_again(side: Side) -> None:
    side.keep()
    row = side.row("/users")
    hint = Hint(connector="teams", kind=HintKind.SUBSCRIPTION, place=row.id, note="reauthorizationRequired")
    side.sandbox.faults.fail(".*/subscriptions/.*", status=400, times=1)
    with pytest.raises(SourceError, match="refuses"):
        side.keeper().lifecycle(hint)
    side.clock.advance(timedelta(minutes=1))
    side.keeper().lifecycle(hint)
    assert side.row("/users").renewed_at > row.renewed_at


def test_what_is_said_of_a_subscription_that_another_replaced_is_over(side: Side) -> None:
    side.keep()
    for place in ("gone", ""):
        side.keeper().lifecycle(Hint(connector="teams", kind=HintKind.SUBSCRIPTION, place=place, note="missed"))
    assert side.gap_reads() == {}


def test_one_that_is_gone_when_it_is_to_be_renewed_is_made_anew(side: Side) -> None:
    side.keep()
    hint = Hint(
        connector="teams",
        kind=HintKind.SUBSCRIPTION,
        place=side.row("/users").id,
        note="reauthorizationRequired",
    )
    side.sandbox.hooks.expire(side.row("/users").id)
    side.keeper().lifecycle(hint)
    assert side.live()["/users"].id == side.row("/users").id
    assert side.gap_reads() == {"access": 1, "reader": 1}


def test_what_is_not_wanted_any_more_is_removed_and_others_are_left_alone(side: Side) -> None:
    side.keep()
    foreign = subscribed(side, "/teams/getAllMessages", "another-application", Watched("message"))
    assert side.keep(teams=["Side"]) == {"removed": 4, "made": 5}
    assert foreign in {s.id for s in side.sandbox.hooks.book.graph()}
    assert {s.resource for s in side.store.all("teams")} == {
        s.resource for s in side.sandbox.hooks.book.graph() if s.id != foreign
    }


def test_where_nobody_can_reach_us_nothing_is_made_and_nothing_removed(side: Side) -> None:
    side.keep()
    for without in ({"public_url": None}, {"client_state_key": None}):
        assert side.keep(**without) == {}
    assert len(side.live()) == 7


def test_with_another_secret_or_address_or_certificate_all_are_made_anew(side: Side) -> None:
    side.keep()
    certificate, key = make_certificate()
    (side.folder / "c.pem").write_bytes(certificate)
    (side.folder / "k.pem").write_bytes(key)
    assert side.keep(client_state_key=SecretStr("another")) == {"removed": 7, "made": 7}
    assert side.gap_reads() == {"access": 7, "reader": 7}
    files = {"certificate": side.folder / "c.pem", "certificate_key": side.folder / "k.pem"}
    assert side.keep(client_state_key=SecretStr("another"), **files) == {"removed": 1, "made": 1}
    assert side.live()["/teams/getAllMessages"].certificate is not None
    assert side.live()["/users"].certificate is None


def test_one_that_was_made_but_not_written_down_is_made_once_more(side: Side) -> None:
    side.keep()
    lost = side.row("/users")
    side.store.remove("teams", "/users")
    assert side.keep() == {"removed": 1, "made": 1}
    assert side.live()["/users"].id != lost.id
    assert len(side.live()) == 7


def test_what_graph_refuses_costs_itself_only_and_is_told(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Subscriptions.create

    def limited(self: Subscriptions, body: Any, caller: Any) -> Any:
        if body["resource"] == "/groups":
            raise GraphError(403, "Forbidden", "The quota of subscriptions is used up.")
        return made(self, body, caller)

    monkeypatch.setattr(Subscriptions, "create", limited)
    assert side.keep() == {"made": 6, "failed": 1}
    assert "The quota of subscriptions is used up." in (side.row("/groups").reason or "")
    assert side.keep() == {"failed": 1}
    monkeypatch.setattr(Subscriptions, "create", made)
    assert side.keep() == {"made": 1}
    assert side.row("/groups").reason is None


def test_a_second_one_for_the_same_is_refused_and_told(side: Side) -> None:
    """Another deployment of the same application has it."""
    subscribed(side, "/users", SANDBOX_CLIENT[0], Watched("user"))
    assert side.keep() == {"made": 6, "failed": 1}
    assert "already exists" in (side.row("/users").reason or "")


def test_a_receiver_that_graph_can_not_reach_is_told(side: Side) -> None:
    done = side.keep(public_url="http://127.0.0.1:1")
    assert done == {"failed": 7}
    assert "must respond with 200 OK" in (side.row("/users").reason or "")


def test_where_graph_does_not_answer_the_rest_is_left_for_later(side: Side) -> None:
    side.keep()
    side.clock.move_to(MONDAY + timedelta(hours=12))
    side.sandbox.faults.fail(".*/subscriptions$", status=503, times=None)
    with pytest.raises(SourceError):
        side.keep()
    side.sandbox.faults.rules.clear()
    assert side.keep() == {"made": 5}


def subscribed(side: Side, resource: str, application: str, watched: Watched) -> str:
    """Another deployment, or another application, subscribes; the id."""
    made = GraphSubscription(
        id="11111111-1111-1111-1111-111111111111",
        application=application,
        creator=application,
        resource=resource,
        watched=watched,
        changes=frozenset({"updated"}),
        notification_url="https://elsewhere.example/hooks/graph",
        lifecycle_url=None,
        client_state=None,
        expires=side.clock.now() + timedelta(hours=1),
        certificate=None,
        certificate_id=None,
        tls=None,
    )
    with side.sandbox.state.lock:
        side.sandbox.hooks.book.keep(made)
    return made.id


# --- the client


def _client(answers: list[httpx.Response | Exception], asked: list[httpx.Request]) -> GraphClient:
    def answer(request: httpx.Request) -> httpx.Response:
        if "token" in request.url.path:
            return httpx.Response(200, json={"access_token": "t", "expires_in": 3600, "token_type": "Bearer"})
        asked.append(request)
        given = answers.pop(0)
        if isinstance(given, Exception):
            raise given
        return given

    settings = GraphSettings(
        base_url="https://graph.example/v1.0",
        token_url="https://login.example/token",
        tenant="t",
        client_id="c",
        client_secret=SecretStr("s"),
    )
    return GraphClient(settings, sleep=lambda _: None, jitter=lambda: 0.0, transport=httpx.MockTransport(answer))


def test_what_may_have_been_carried_out_is_not_posted_again() -> None:
    for broken in (httpx.ReadTimeout("x"), httpx.Response(500), httpx.Response(504)):
        asked: list[httpx.Request] = []
        with pytest.raises(SourceError):
            _client([broken, httpx.Response(201, json={})], asked).send("POST", "/subscriptions", {})
        assert len(asked) == 1
    for refused in (httpx.ConnectError("x"), httpx.Response(429), httpx.Response(503), httpx.Response(401)):
        asked = []
        answers = [refused, httpx.Response(201, json={"id": "x"})]
        assert _client(answers, asked).send("POST", "/subscriptions", {}) == {"id": "x"}
        assert len(asked) == 2


def test_what_can_be_done_twice_is_tried_again() -> None:
    asked: list[httpx.Request] = []
    client = _client([httpx.ReadTimeout("x"), httpx.Response(500), httpx.Response(204)], asked)
    assert client.send("DELETE", "/subscriptions/x") == {}
    assert len(asked) == 3


def test_a_refusal_is_told_in_the_words_of_graph() -> None:
    answer = httpx.Response(409, json={"error": {"code": "Conflict", "message": "it exists"}})
    with pytest.raises(SourceRefusedError, match="HTTP 409: Conflict: it exists"):
        _client([answer], []).send("POST", "/subscriptions", {})


# --- silence


def test_a_subscription_that_never_fires_is_told_once_a_poll_finds_what_it_should_have_told() -> None:
    def subscription(resource: str, last: datetime | None, made: datetime = FRIDAY) -> Subscription:
        return Subscription(
            connector="teams",
            resource=resource,
            id="x",
            made_at=made,
            renewed_at=made,
            expires_at=made + timedelta(days=3),
            last_delivery_at=last,
        )

    def run(at: datetime, reader: str = "teams", **counts: int) -> Run:
        return Run(
            id=1, source="teams", reader=reader, started_at=at, finished_at=at, state="complete", reason=None,
            counts=counts, checks={},
        )  # fmt: skip

    later = FRIDAY + timedelta(hours=1)
    never = subscription("/teams/getAllMessages", None)
    assert silent([never], [run(later, new=1)]) == [never]
    assert silent([never], [run(later, unchanged=5), run(later, reader="access", changed=1)]) == []
    assert silent([never], [run(FRIDAY + timedelta(minutes=5), new=1)]) == []
    assert silent([subscription("/teams/getAllMessages", later)], [run(later + timedelta(minutes=5), new=1)]) == []
    quiet = subscription("/teams/t/channels/c/messages", FRIDAY + timedelta(minutes=5))
    assert silent([quiet], [run(later, deleted=1)]) == [quiet]
    assert silent([subscription("/users", None)], [run(later, new=1)]) == []
