"""What a bundle holds, on real stores: the right evidence, marked, for the right asker."""

from __future__ import annotations

import pytest

from core import uris
from core.bundle import Focus, Intent
from core.errors import InputError, NotFoundError
from core.items import Source
from core.render import render_markdown
from core.token_count import count_tokens
from tests.query.company import ORG, TEAMS, VIEW, Company, ago, who

GUIDE = uris.wiki_page(ORG, "w1", 1)
DELIVERY = uris.wiki_page(ORG, "w1", 2)
DECISION = uris.thread(TEAMS, "19:ops@thread.tacv2", "100")
DASHBOARD = uris.file(ORG, "r1", "grafana/fuel.json")
QUESTIONS = (
    "I need to do an integration with a new shipping line, where do I do this?",
    "What is KLS?",
    "What is the gangway sensor timeout?",
    "Who knows about shipping lines?",
    "How do shipping lines deliver manifest files, by SFTP?",
    "walrus",
    "#9001",
    "certificate of the berth gateway",
)


def test_a_how_to_question_gets_page_code_and_precedent(harbor: Company) -> None:
    bundle = harbor.ask("new", QUESTIONS[0])
    found = [e.uri for e in bundle.evidence]
    assert found[0] == GUIDE
    assert uris.work_item(ORG, 4711) in found[:6]
    assert uris.file(ORG, "r1", "src/adapters/northline.py") in found[:6]
    assert bundle.interpreted_as.intent is Intent.PROCEDURAL


def test_people_come_with_receipts_starters_and_a_fallback_and_no_leaver_leads(harbor: Company) -> None:
    people = harbor.ask("new", QUESTIONS[0]).people
    assert [p.name for p in people if p.active]
    assert all(p.active for p in people[:1])
    pieter = next(p for p in people if p.name == "Pieter")
    assert uris.work_item(ORG, 4711) in [r.uri for r in pieter.why]
    assert pieter.recency == "closed #4711 3 weeks ago"
    assert any("#4711" in s and "closed on 2031-02-17" in s for s in pieter.starters)
    assert people[0].fallback is not None


def test_nobody_is_sent_to_themselves(harbor: Company) -> None:
    assert "Pieter" not in [p.name for p in harbor.ask("pieter", QUESTIONS[0]).people]


def test_a_panel_leads_to_its_view_the_change_and_the_work_behind_it(harbor: Company) -> None:
    focus = Focus(url="https://grafana.example/d/fu3l/fuel?viewPanel=7")
    bundle = harbor.ask("new", "How is this value calculated?", focus=focus)
    found = {e.uri: e for e in bundle.evidence}
    assert next(iter(found)) == DASHBOARD
    assert found[VIEW].via == "the focus reads analytics.v_fuel"
    assert {uris.work_item(ORG, 4688), uris.commit(ORG, "r1", "c0ffee" + "0" * 33 + "1")} <= set(found)
    assert bundle.interpreted_as.focus[0].detail == "panel 7 “Net fuel”"


@pytest.mark.invariant("INV-8")
def test_a_meaning_known_only_from_what_one_may_not_read_does_not_exist(harbor: Company) -> None:
    assert [g.meaning for g in harbor.ask("new", "What is KLS?").glossary] == ["Kai Last System"]
    assert len(harbor.ask("boss", "What is KLS?").glossary) == 2


def test_a_written_out_name_finds_its_abbreviation(harbor: Company) -> None:
    assert "KLS (short for Kai Last System)" in harbor.ask("new", "kai-last-system restart").interpreted_as.expansions


def test_a_quoted_word_is_searched_as_it_stands(harbor: Company) -> None:
    bundle = harbor.ask("new", '"BLAST"')
    assert bundle.interpreted_as.expansions == ()
    assert all("blast" in e.snippet.lower() for e in bundle.evidence)
    assert bundle.evidence


def test_a_slip_is_mended_and_told(harbor: Company) -> None:
    bundle = harbor.ask("new", "how are continers hoisted")
    assert "containers (continers read as containers)" in bundle.interpreted_as.expansions


@pytest.mark.invariant("INV-9")
def test_a_later_decision_marks_the_page_and_flags_the_pair(harbor: Company) -> None:
    bundle = harbor.ask("new", QUESTIONS[4])
    page = next(e for e in bundle.evidence if e.uri == DELIVERY)
    assert page.superseded_by == DECISION
    assert page.supersession is not None
    assert page.supersession.startswith("mined, confidence")
    assert page.staleness is not None
    assert "last validated" in page.staleness
    assert [{c.a_uri, c.b_uri} for c in bundle.conflicts] == [{DELIVERY, DECISION}]


def test_a_declared_successor_is_brought_in_and_is_no_conflict(harbor: Company) -> None:
    bundle = harbor.ask("new", "hoisting of containers with the mobile drum")
    old = next(e for e in bundle.evidence if e.title == "Old hoisting rules")
    assert (old.superseded_by, old.supersession) == (uris.wiki_page(ORG, "w1", 8), "declared")
    assert "Hoisting rules" in [e.title for e in bundle.evidence]
    assert bundle.conflicts == ()


@pytest.mark.invariant("INV-9")
def test_different_values_for_one_thing_are_a_conflict_and_nothing_is_chosen(harbor: Company) -> None:
    bundle = harbor.ask("new", "What is the gangway sensor timeout?")
    assert [{c.a_uri, c.b_uri} for c in bundle.conflicts] == [
        {uris.wiki_page(ORG, "w1", 3), uris.wiki_page(ORG, "w1", 4)}
    ]


def test_soup_is_no_evidence_and_its_source_is_a_gap(harbor: Company) -> None:
    bundle = harbor.ask("new", "What is the gangway sensor timeout?")
    assert Source.TEAMS in [g.source for g in bundle.gaps]
    assert Source.PULL_REQUESTS in [g.source for g in bundle.gaps]


def test_as_of_answers_from_what_existed_then(harbor: Company) -> None:
    then = harbor.ask("new", "How do shipping lines deliver manifest files?", as_of=ago(days=100))
    assert DECISION not in [e.uri for e in then.evidence]
    page = next(e for e in then.evidence if e.uri == DELIVERY)
    assert page.superseded_by is None
    assert then.now == ago(days=100)


def test_the_number_of_a_work_item_finds_it_first(harbor: Company) -> None:
    assert harbor.ask("new", "#4688").evidence[0].uri == uris.work_item(ORG, 4688)


@pytest.mark.parametrize(
    "focus",
    [
        Focus(item=uris.work_item(ORG, 9001)),
        Focus(item=uris.work_item(ORG, 999999)),
        Focus(url=f"https://dev.azure.com/{ORG}/Harbor/_workitems/edit/9001"),
        Focus(channel="Ops/Private"),
        Focus(channel="19:private@thread.tacv2"),
        Focus(file="berth-data/no/such.py"),
        Focus(url="https://grafana.example/d/nope/x?viewPanel=1"),
    ],
)
def test_a_focus_that_is_not_there_or_not_readable_is_told_as_unresolved_and_the_search_goes_on(
    harbor: Company, focus: Focus
) -> None:
    bundle = harbor.ask("new", QUESTIONS[0], focus=focus)
    assert not bundle.interpreted_as.focus[0].resolved
    assert bundle.interpreted_as.focus[0].title is None
    assert "could not be resolved" in bundle.unresolved[0]
    assert bundle.evidence[0].uri == GUIDE


@pytest.mark.parametrize(
    ("focus", "uri"),
    [
        (Focus(item=f"{uris.work_item(ORG, 4711)}/comments/2"), uris.work_item(ORG, 4711)),
        (Focus(file="berth-data/sql/v_fuel.sql:2"), VIEW),
        (
            Focus(url=f"https://dev.azure.com/{ORG}/Harbor/_git/berth-data?path=%2Fsql%2Fv_fuel.sql&version=GBmain"),
            VIEW,
        ),
        (Focus(url=f"https://dev.azure.com/{ORG}/Harbor/_wiki/wikis/Harbor.wiki/1/Connect-a-shipping-line"), GUIDE),
        (Focus(url="https://teams.microsoft.com/l/message/19%3Aops%40thread.tacv2/100?tenantId=tenant"), DECISION),
    ],
)
def test_every_kind_of_focus_is_resolved(harbor: Company, focus: Focus, uri: str) -> None:
    assert harbor.ask("new", "What is this about?", focus=focus).interpreted_as.focus[0].uri == uri


def test_a_channel_is_a_focus_too(harbor: Company) -> None:
    for given in ("Ops/General", "19:ops@thread.tacv2"):
        bundle = harbor.ask("new", "What was decided here?", focus=Focus(channel=given))
        assert bundle.interpreted_as.focus[0].title == "Ops/General"
        assert bundle.evidence[0].uri == DECISION


@pytest.mark.invariant("INV-4")
@pytest.mark.parametrize("question", QUESTIONS)
def test_what_one_may_not_read_changes_not_a_byte(
    harbor: Company, harbor_without_secrets: Company, question: str
) -> None:
    ours, theirs = harbor.ask("new", question, explain=True), harbor_without_secrets.ask("new", question, explain=True)
    volatile = {"id", "made_at"}
    assert ours.model_dump(exclude=volatile) == theirs.model_dump(exclude=volatile)
    assert harbor.ask("boss", question).digest != ""


def test_an_asker_who_may_read_nothing_gets_gaps_and_no_more(harbor: Company) -> None:
    bundle = harbor.ask("nobody", QUESTIONS[0])
    assert (bundle.evidence, bundle.people, bundle.glossary) == ((), (), ())
    assert [g.source for g in bundle.gaps] == list(Source)


@pytest.mark.invariant("INV-11")
def test_the_same_question_gives_the_same_bundle(harbor: Company) -> None:
    one, two = (harbor.ask("new", QUESTIONS[0], explain=True) for _ in range(2))
    assert one.digest == two.digest
    assert one.model_dump(exclude={"id", "made_at"}) == two.model_dump(exclude={"id", "made_at"})
    assert one.id != two.id


@pytest.mark.parametrize("budget", [220, 300, 512, 700, 1000, 1500, 2500, 4096])
def test_the_whole_markdown_fits_its_budget_and_more_budget_removes_nothing(harbor: Company, budget: int) -> None:
    small, large = (harbor.ask("new", QUESTIONS[0], max_tokens=n) for n in (budget, budget + 137))
    assert count_tokens(render_markdown(small)) == small.budget.used
    assert small.budget.used <= budget
    assert {e.uri for e in small.evidence} <= {e.uri for e in large.evidence}
    assert {p.principal for p in small.people} <= {p.principal for p in large.people}
    assert small.more.dropped + len(small.evidence) == large.more.dropped + len(large.evidence)


def test_a_budget_that_holds_no_header_is_refused_with_the_minimum(harbor: Company) -> None:
    with pytest.raises(InputError) as refused:
        harbor.ask("new", QUESTIONS[0], max_tokens=50)
    minimum = int(str(refused.value).rpartition(" ")[2])
    assert harbor.ask("new", QUESTIONS[0], max_tokens=minimum).budget.used <= minimum


def test_receipts_and_conflicts_name_only_evidence_that_is_there(harbor: Company) -> None:
    for budget in range(250, 2500, 250):
        bundle = harbor.ask("new", QUESTIONS[0], max_tokens=budget)
        there = {e.ref for e in bundle.evidence}
        assert {r.ref for p in bundle.people for r in p.why if r.ref} <= there
        assert {x for c in bundle.conflicts for x in (c.a, c.b)} <= there


def test_access_is_told_by_the_askers_own_principals(harbor: Company) -> None:
    assert harbor.ask("new", QUESTIONS[0]).evidence[0].access == ("Staff (group)",)


def test_factors_are_shown_on_request_only(harbor: Company) -> None:
    factors = harbor.ask("new", QUESTIONS[0], explain=True).evidence[0].factors
    assert factors is not None
    product = factors.relevance * factors.time * factors.authority * factors.proximity
    assert factors.score == pytest.approx(product, abs=1e-5)
    assert harbor.ask("new", QUESTIONS[0]).evidence[0].factors is None


def test_an_item_is_opened_in_full_by_who_may_read_it(harbor: Company) -> None:
    view = harbor.engine.expand(harbor.principals("new"), GUIDE)
    assert view.title == "Connect a shipping line"
    assert "quay simulator" in view.text
    assert view.links == (uris.work_item(ORG, 4711),)


@pytest.mark.parametrize("uri", [uris.work_item(ORG, 9001), uris.work_item(ORG, 999999), "nonsense", "ctx://"])
def test_what_is_not_there_and_what_is_not_readable_are_told_alike(harbor: Company, uri: str) -> None:
    with pytest.raises(NotFoundError) as refused:
        harbor.engine.expand(harbor.principals("new"), uri)
    assert refused.value.message == "there is no such item"


def test_who_asks_is_told_by_name(harbor: Company) -> None:
    asker = harbor.ask("new", "walrus").asker
    assert (asker.name, asker.principal) == ("Newcomer", who("new"))
