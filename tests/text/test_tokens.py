"""Keyword tokens and weights."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.text.tokens import fold, keyword_tokens, sparse_document, sparse_query, token_id

UNICODE = json.loads((Path(__file__).parent / "inputs" / "unicode.json").read_text("utf-8"))


def meet(question: str, text: str) -> bool:
    return bool(set(sparse_query(question).indices) & set(sparse_document(text).indices))


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("see AB#4102 first", "ab#4102"),
        ("error PG-4031.", "pg-4031"),
        ("needs TLS1.2, at least", "tls1.2"),
        ("fixes #4711", "#4711"),
        ("call partner_adapter.connect()", "partner_adapter.connect"),
        ("class PartnerAdapter:", "partneradapter"),
        ("v_partner_daily_margin", "v_partner_daily_margin"),
        ("on 2026-10-02", "2026-10-02"),
        ("written in C# and C++", "c#"),
        ("written in C# and C++", "c++"),
        ("mail pieter@contoso.com now", "pieter@contoso.com"),
    ],
)
def test_codes_and_identifiers_are_kept_whole(text: str, whole: str) -> None:
    assert whole in keyword_tokens(text)


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("4102", "AB#4102"),
        ("#4711", "work item 4711"),
        ("item 47", "#47 is open"),
        ("partner adapters", "class PartnerAdapter"),
        ("adapter", "partner_adapter.connect"),
        ("daily margin", "SELECT * FROM v_partner_daily_margin"),
        ("csr", "the CSR is due"),
        ("SLA", "our SLAs"),
        ("ids", "the IDS alarm"),
        ("onboarding partners", "Onboard a partner"),
        ("Malmo", "Malmö"),
        ("Bærumsåsen", "baerumsasen"),
        ("koppelingen", "KOPPELINGEN"),
        (UNICODE["nfc"], UNICODE["nfd"]),
        (UNICODE["nfd"], UNICODE["nfc"]),
        ("日本語", "日本語 です"),
    ],
)
def test_a_question_meets_its_text(question: str, text: str) -> None:
    assert meet(question, text)


def test_words_that_say_nothing_give_no_tokens() -> None:
    assert keyword_tokens("what is the, and how? Waar zijn de") == []
    assert sparse_query("what is it?").indices == ()
    assert sparse_query("").indices == ()


def test_a_department_named_it_is_not_the_pronoun() -> None:
    assert meet("who leads IT?", "IT is led by Sarah")
    assert not meet("who leads IT?", "is it led by Sarah?")


def test_weights_depend_on_the_text_alone_and_saturate() -> None:
    once, often = sparse_document("margin"), sparse_document("margin " * 50)
    assert once.indices == often.indices
    assert once.values[0] < often.values[0] < 2.2
    assert sparse_document("margin", title="Margin").values[0] > once.values[0]


def test_a_word_weighs_less_in_a_longer_text() -> None:
    filler = " ".join(f"word{i}" for i in range(200))
    weights = dict(
        zip(sparse_document(f"margin {filler}").indices, sparse_document(f"margin {filler}").values, strict=True)
    )
    assert weights[token_id("margin")] < sparse_document("margin").values[0]


def test_token_numbers_are_the_same_in_every_process() -> None:
    code = "from core.text.tokens import token_id; print(token_id('margin'))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(out.stdout) == token_id("margin")


@given(st.text(max_size=200))
def test_any_text_gives_sound_weights(text: str) -> None:
    for vector in (sparse_document(text), sparse_query(text)):
        assert list(vector.indices) == sorted(set(vector.indices))
        assert all(0 <= i < 2**32 for i in vector.indices)
        assert all(v > 0 for v in vector.values)
    assert sparse_document(text) == sparse_document(text)


@given(st.text(max_size=50))
def test_folding_twice_changes_nothing_more(text: str) -> None:
    assert fold(fold(text)) == fold(text)
