"""What a run counted is told in words, each once."""

from __future__ import annotations

from context_engine.commands.counts import in_words


def test_counts_stand_in_the_order_of_an_item_s_way_with_their_reasons_in_brackets() -> None:
    counts = {"embedded": 9, "seen": 45, "skipped:binary": 4, "skipped": 6, "skipped:too large": 2, "odd_thing": 1}
    assert in_words(counts) == "seen 45, embedded 9, skipped 6 (binary 4, too large 2), odd thing 1"


def test_a_single_reason_is_not_counted_twice() -> None:
    assert in_words({"skipped": 6, "skipped:read as a wiki page": 6}) == "skipped 6 (read as a wiki page)"
    assert in_words({"unknown_principal_kind:x": 2}) == "unknown principal kind 2 (x)"


def test_what_is_zero_is_not_told_and_seconds_are_told_as_such() -> None:
    assert in_words({"seen": 0, "failed": 0, "waited_s": 0}) == ""
    assert in_words({"waited_s": 2.5, "requests": 7}) == "requests 7, waited 2.5 s"
