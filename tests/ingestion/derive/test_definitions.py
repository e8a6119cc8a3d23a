"""Short forms and their long forms are read from the many ways in which people state them."""

from __future__ import annotations

import pytest

from ingestion.derive.definitions import mine


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("ETB stands for Estimated Time of Berthing.", "Estimated Time of Berthing"),
        ("The Estimated Time of Berthing (ETB) is on the board.", "Estimated Time of Berthing"),
        ("ETB here means Energy Transfer Box, not the time.", "Energy Transfer Box"),
        ("By ETB we mean the Energy Transfer Box on the quay.", "Energy Transfer Box on the quay"),
        ("Met ETB bedoelen we Elektrische Transport Baan.", "Elektrische Transport Baan"),
        ("| **ETB** | Entry, Transit, Berthing |", "Entry, Transit, Berthing"),
        ("- ETB: Energy Transfer Box, at the quay", "Energy Transfer Box"),
    ],
)
def test_a_stated_meaning_is_read(text: str, meaning: str) -> None:
    assert [(d.term, d.meaning) for d in mine(text)] == [("ETB", meaning)]


@pytest.mark.parametrize("text", ["ETB is late.", "ETB here and there.", "By ETB we sail.", "| ETB | at nine |"])
def test_other_talk_of_a_short_form_states_no_meaning(text: str) -> None:
    assert mine(text) == []


@pytest.mark.parametrize("piece", ["\n", "[a](", "[", "Abc (ABC) ", "| ", "- ", "AB = ", "ABC stands for "])
def test_a_long_text_of_nothing_but_beginnings_is_read_to_its_end(piece: str) -> None:
    stated = "The Customer Support Rota (CSR) is on the wall."
    found = mine(piece * (60_000 // len(piece)) + "\n" + stated)
    assert ("CSR", "Customer Support Rota") in {(d.term, d.meaning) for d in found}
