"""How questions are read."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from core.bundle import Intent, Temporal
from query.identifiers import NameKind, names_in
from query.interpret import Reading, interpretation, phrases_of, read_question

NOW = datetime(2026, 11, 2, 8, tzinfo=UTC)


def read(
    question: str, *, focus: bool = False, as_of: datetime | None = None, known: set[str] | None = None
) -> Reading:
    return read_question(question, now=NOW, as_of=as_of, has_focus=focus).recognise(known or set())


@pytest.mark.parametrize(
    ("question", "intent"),
    [
        ("I need to do an integration with a new partner, where do I do this?", Intent.PROCEDURAL),
        ("How do I replay the dead-letter queue?", Intent.PROCEDURAL),
        ("Hoe sluit ik een schip aan op walstroom?", Intent.PROCEDURAL),
        ("Where is the onboarding checklist for a new partner?", Intent.PROCEDURAL),
        ("What is CSR?", Intent.DEFINITION),
        ("what is an SLO?", Intent.DEFINITION),
        ("What does NPV mean on the partner dashboard?", Intent.DEFINITION),
        ("What does this abbreviation mean: CSR?", Intent.DEFINITION),
        ("Wat betekent ETB?", Intent.DEFINITION),
        ("Waar staat NCTS voor?", Intent.DEFINITION),
        ("waht does TPA maen?", Intent.DEFINITION),
        ("Who knows about partner certificates and signing?", Intent.PERSON),
        ("Wie weet iets van de NCTS-adapter?", Intent.PERSON),
        ("How did we onboard Tailspin in 2024?", Intent.HISTORICAL),
        ("Waarom zijn we gestopt met SFTP?", Intent.HISTORICAL),
        ("Which open security findings do we have about attachment names?", Intent.SECURITY),
        ("What is the status of the Litware onboarding?", Intent.STATUS),
        ("When looking at this dashboard, how is this graph value calculated?", Intent.DEICTIC),
        ("How is the value of this graph calculated?", Intent.DEICTIC),
        ("What is the outbound request timeout of the Partner Gateway?", Intent.GENERAL),
        ("PGW-4021", Intent.GENERAL),
        ("Berths get a new sign. What are the steps?", Intent.PROCEDURAL),
        ("What's the usual way to add a berth?", Intent.PROCEDURAL),
        ("Where do we stand on the berth plan?", Intent.STATUS),
        ("How is the berth plan going?", Intent.STATUS),
        ("Waar staan we met het ligplaatsplan?", Intent.STATUS),
        ("Where do we put the berth plan?", Intent.PROCEDURAL),
        ("How come we stopped painting berths?", Intent.HISTORICAL),
        ("Why don't we paint berths any more?", Intent.HISTORICAL),
        ("Which team owns the berth plan?", Intent.PERSON),
        ("Is er iemand die de kraan kent?", Intent.PERSON),
        ("Are passwords kept in plain text?", Intent.SECURITY),
        ("What's meant by ETB?", Intent.DEFINITION),
        ("Can you tell me what ETB means?", Intent.DEFINITION),
    ],
)
def test_a_question_shows_its_intent(question: str, intent: Intent) -> None:
    assert read(question).intent is intent


def test_a_pronoun_points_only_where_a_focus_is_given() -> None:
    assert read("Where does it say how this works?", focus=True).points
    assert not read("Where does it say how this works?").points


@pytest.mark.parametrize(
    ("question", "temporal"),
    [
        ("What is our retry policy?", Temporal.CURRENT),
        ("What was our retry policy back in 2024?", Temporal.HISTORICAL),
        ("What was the rule for the connection time before March?", Temporal.HISTORICAL),
        ("What did we do last sprint?", Temporal.HISTORICAL),
        ("Is the page of 2024 still right now?", Temporal.CURRENT),
    ],
)
def test_a_question_shows_its_time(question: str, temporal: Temporal) -> None:
    assert read(question).temporal is temporal


def test_a_time_asked_about_by_the_caller_makes_the_question_one_about_the_past() -> None:
    reading = read("How do partners deliver files?", as_of=datetime(2025, 6, 1, tzinfo=UTC))
    assert (reading.temporal, reading.as_of) == (Temporal.HISTORICAL, datetime(2025, 6, 1, tzinfo=UTC))


def test_a_time_in_the_future_is_the_present() -> None:
    assert read("How?", as_of=datetime(2036, 6, 1, tzinfo=UTC)).as_of is None


def test_a_year_gives_a_window() -> None:
    window = read("How were files delivered in 2024?").window
    assert window is not None
    assert (window.start, window.end) == (datetime(2024, 1, 1, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("see #4711 please", NameKind.WORK_ITEM, "4711"),
        ("fixed by AB#4711", NameKind.WORK_ITEM, "4711"),
        ("bug 118 again", NameKind.WORK_ITEM, "118"),
        ("is PR 12 merged?", NameKind.PULL_REQUEST, "12"),
        ("PGW-5032 from Northwind", NameKind.CODE, "PGW-5032"),
        ("in src/adapters/tailspin.py:12", NameKind.FILE, "src/adapters/tailspin.py"),
        ("the view analytics.v_partner_value", NameKind.SYMBOL, "analytics.v_partner_value"),
        ("v_partner_value", NameKind.SYMBOL, "v_partner_value"),
        ('the "exact words" here', NameKind.LITERAL, "exact words"),
        ("what is CSR", NameKind.ABBREVIATION, "CSR"),
    ],
)
def test_names_are_recognised(text: str, kind: NameKind, value: str) -> None:
    assert (kind, value) in [(n.kind, n.value) for n in names_in(text)]


def test_a_colour_or_a_year_is_no_work_item() -> None:
    assert names_in("the colour is &#1234; since 2024, page foo#12") == ()


def test_lower_case_abbreviations_are_known_by_the_askers_own_glossary_only() -> None:
    assert read("what is csr?").intent is not Intent.DEFINITION
    assert read("what is csr?", known={"csr"}).intent is Intent.DEFINITION


@pytest.mark.parametrize("question", ["ETB?", "etb", "ETB, what is that?", "explain ETB", "Leg ETB uit"])
def test_a_bare_term_asks_for_its_meaning_where_the_asker_knows_it(question: str) -> None:
    assert read(question).recognise({"etb"}).intent is Intent.DEFINITION
    assert read(question).recognise(set()).intent is Intent.GENERAL


@pytest.mark.parametrize("question", ["What do we mean by ETB?", "What's meant by the term ETB?", "What ETB means"])
def test_what_is_to_be_defined_is_found_in_every_wording(question: str) -> None:
    assert read(question).term == "ETB"


def test_a_term_may_have_several_words_and_dashes() -> None:
    assert "kai last system" in phrases_of("kai-last-system restart")


def test_the_reading_is_told_in_one_line_and_in_fields() -> None:
    told = interpretation(read("What does CSR mean?"), ())
    assert told.summary == "definition question about the present, in English; asking what CSR means; names: CSR"
    assert (told.intent, told.language, told.terms) == (Intent.DEFINITION, "en", ("CSR",))


def test_dutch_is_told_from_english() -> None:
    assert read("Hoe sluit ik een schip aan?").language == "nl"
    assert read("How do I connect a vessel?").language == "en"


@pytest.mark.parametrize(
    "question", ["?", "\u0000\u0007", "\U000e0041\U000e0042", "a" * 4000, "((((((", "%s %d {}", "#"]
)
def test_odd_questions_are_read_without_an_error(question: str) -> None:
    assert interpretation(read(question), ()).summary
