"""Tokens are exchanged for the person who asks and for nobody else; and which items are asked about at all."""

from __future__ import annotations

import copy
import logging
import pickle
import time
from collections import Counter
from datetime import timedelta

import pytest
from pydantic import SecretStr

from context_engine.commands.explain import explainer
from context_engine.exchange import TokenExchange
from core.errors import ConfigError, InvariantError, NotFoundError, SourceAuthError
from core.principals import UserAssertion, VerifiedAsker, issue_asker
from fixtures.sandbox.oidc import ADO_AUDIENCE, API_ID, API_SECRET, GRAPH_AUDIENCE
from tests.late_binding.conftest import Side
from tests.late_binding.harbour import on_behalf_of

ADO, GRAPH = f"{ADO_AUDIENCE}/.default", f"{GRAPH_AUDIENCE}/.default"
ITEM = "ctx://ado/small/work-items/3"


class Clock:
    """Unix time that can be moved on."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


def exchange_of(side: Side, clock: Clock | None = None) -> TokenExchange:
    return TokenExchange(
        authority=f"{side.sandbox.base_url}/oidc",
        tenant=str(side.sandbox.state.world.tenant_id),
        client_id=API_ID,
        client_secret=SecretStr(API_SECRET),
        now=clock or time.time,
    )


def soon() -> float:
    return time.monotonic() + 30


def exchanges(side: Side) -> int:
    """How many tokens were exchanged so far."""
    seen = Counter(side.sandbox.faults.seen)
    return sum(n for path, n in seen.items() if "oauth2" in path)


@pytest.mark.invariant("INV-1", "INV-7")
def test_a_token_is_exchanged_once_for_each_person_and_purpose_and_never_serves_another(side: Side) -> None:
    service, exchange = side.service(), exchange_of(side)
    ben, ann = side.asker(service, "ben"), side.asker(service, "ann")
    before = exchanges(side)
    mine = exchange.token(ben, ADO, soon())
    assert exchange.token(ben, ADO, soon()) == mine
    assert exchanges(side) - before == 1
    others = {exchange.token(ben, GRAPH, soon()), exchange.token(ann, ADO, soon())}
    assert len(others | {mine}) == 3
    assert exchanges(side) - before == 3
    assert side.sandbox.issuer_of is not None
    assert side.sandbox.issuer_of.verify(mine, ADO_AUDIENCE)["oid"] == side.sandbox.state.oid("ben")


def test_a_token_is_not_used_to_its_very_end_nor_past_that_of_the_one_it_was_exchanged_for(side: Side) -> None:
    clock = Clock()
    service, exchange = side.service(), exchange_of(side, clock)
    ben = side.asker(service, "ben")
    assert ben.assertion is not None
    first = exchange.token(ben, ADO, soon())
    clock.ahead = ben.assertion.expires_at - time.time() - 200
    assert exchange.token(ben, ADO, soon()) == first
    clock.ahead += 100
    before = exchanges(side)
    exchange.token(ben, ADO, soon())
    assert exchanges(side) == before + 1


@pytest.mark.invariant("INV-1", "INV-7")
def test_nobody_is_spoken_for_without_their_token(side: Side) -> None:
    exchange = exchange_of(side)
    ben = side.asker(side.service(), "ben")
    alone = issue_asker(principal=ben.principal, tenant=ben.tenant, agent=None, scopes=frozenset(), spaces=frozenset())
    silent = issue_asker(principal=ben.principal, tenant=ben.tenant, agent=None, scopes=frozenset())
    for asker in (alone, silent):
        with pytest.raises(SourceAuthError):
            exchange.token(asker, ADO, soon())


def test_a_disabled_account_gets_no_token(side: Side) -> None:
    exchange, ben = exchange_of(side), side.asker(side.service(), "ben")
    side.sandbox.apply("ben-leaves")
    with pytest.raises(SourceAuthError):
        exchange.token(ben, ADO, soon())


def test_tokens_go_by_https_or_stay_on_this_machine() -> None:
    with pytest.raises(ConfigError, match="https"):
        TokenExchange(authority="http://login.example", tenant="t", client_id="c", client_secret=SecretStr("a-secret"))


@pytest.mark.invariant("INV-2")
def test_a_persons_token_shows_itself_nowhere(side: Side, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    service = side.service()
    asker = side.asker(service, "ben")
    assert asker.assertion is not None
    token = asker.assertion.reveal()
    bundle = side.ask("ben", service=service)
    side.sandbox.faults.fail("/(ado|graph)/", status=500, times=None)
    side.ask("ben", service=side.service())
    signature = token.rpartition(".")[2]
    assert signature
    for shown in (repr(asker), str(asker), repr(asker.assertion), bundle.model_dump_json(), caplog.text):
        assert signature not in shown
        assert API_SECRET not in shown
    assert not hasattr(asker.assertion, "__dict__")
    for writes_down in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(InvariantError):
            writes_down(UserAssertion(token, expires_at=0.0))
    # Equality does not hang on it: caches of access are keyed by who asks, not by the token of the day.
    again: VerifiedAsker = side.asker(service, "ben")
    assert again == asker


def test_of_many_those_that_are_named_are_asked_about_first(side: Side) -> None:
    one = side.service(on_behalf_of(side.sandbox, candidates=1))
    found = {e.uri for e in side.ask("ben", "What about #3?", service=one).evidence if e.label == "Secret"}
    assert found == {ITEM}
    every = {e.uri for e in side.ask("ben").evidence if e.label == "Secret"}
    assert len(every) >= 4
    for uri in every:
        assert side.open("ben", uri, service=one).uri == uri
    focused = side.ask("ben", "what is this?", service=one, focus=({"item": ITEM},))
    assert focused.interpreted_as.focus[0].resolved


def test_of_many_the_nearest_to_the_question_are_asked_about(side: Side) -> None:
    one = side.service(on_behalf_of(side.sandbox, candidates=1))
    bundle = side.ask("ben", "the quay crane tariff was decided by the board", service=one)
    assert [e.source.value for e in bundle.evidence if e.label == "Secret"] == ["wikis"]


@pytest.mark.invariant("INV-5", "INV-7")
def test_a_label_that_nobody_configured_asks_for_the_sources_word(side: Side) -> None:
    settings = side.live.engine.settings
    with pytest.raises(ConfigError, match="none of the labels"):
        side.service(on_behalf_of(side.sandbox, label="Unheard of"))
    assert "Secret" in settings.labels
    # From the least sensitive on, everything that carries a label is asked about; what carries none is not.
    service = side.service(on_behalf_of(side.sandbox, label="Public", azure_devops_url=None))
    bundle = side.ask("ben", service=service)
    assert {e.label for e in bundle.evidence if e.source.value != "teams"} == {None}
    with pytest.raises(NotFoundError):
        side.open("ben", "ctx://ado/small/work-items/2", service=service)


@pytest.mark.parametrize("lacks", ["tenant", "client_id", "client_secret", "both addresses"])
def test_it_does_not_start_without_what_it_takes_to_ask(side: Side, lacks: str) -> None:
    names = ("azure_devops_url", "graph_url") if lacks == "both addresses" else (lacks,)
    with pytest.raises(ConfigError, match="late_binding"):
        side.service(on_behalf_of(side.sandbox, **dict.fromkeys(names)))


def test_explanations_say_that_the_source_has_the_last_word(side: Side) -> None:
    database = side.live.engine.database
    told = [
        explainer(database, limit=timedelta(days=1), free_labels=free).explain(uri, "ben@small.example").notes
        for uri, free in ((ITEM, ("Public",)), (ITEM, None), (ITEM.replace("/3", "/1"), ("Public",)))
    ]
    assert ["source confirms it" in " ".join(notes) for notes in told] == [True, False, False]


def test_where_no_label_asks_for_it_no_source_is_asked(side: Side) -> None:
    before = Counter(side.sandbox.faults.seen)
    service = side.live.engine.services.service
    bundle = side.ask("ben", service=service)
    assert "Secret" in {e.label for e in bundle.evidence}
    asked = Counter(side.sandbox.faults.seen) - before
    assert [path for path in asked if "/ado/" in path or "/graph/" in path or "oauth2" in path] == []
