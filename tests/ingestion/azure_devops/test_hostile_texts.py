"""Texts that are made to hold up their reading: each of these took hours, and held up all that came after it."""

from __future__ import annotations

import pytest

from core.text.html import html_to_markdown
from core.text.markdown import clean_markdown
from core.text.symbols import symbols_of
from ingestion.azure_devops.sql_names import defined_names, used_names
from ingestion.azure_devops.wiki_paths import link_targets

LENGTH = 400_000


def over_and_over(text: str) -> str:
    """A text as long as the longest file that is read."""
    return (text * (LENGTH // len(text) + 1))[:LENGTH]


@pytest.mark.parametrize("text", ["[", "[](", "[a](", "[a](b ", "[[", "{[", '[a](b "c '])
def test_a_page_of_half_links_is_read_to_its_end(text: str) -> None:
    assert link_targets(f"[told](/A/Page)\n\n{over_and_over(text)}") == ["/A/Page"]


@pytest.mark.parametrize("text", ["![[", "![[a ", "::: include a" + " " * 1000])
def test_a_page_of_half_includes_is_read_to_its_end(text: str) -> None:
    assert link_targets(f"{over_and_over(text)}\n![[Told]]")[-1:] == ["Told"]


@pytest.mark.parametrize("text", ["![", "![](data:", "![a]( "])
def test_a_page_of_half_pictures_is_read_to_its_end(text: str) -> None:
    assert clean_markdown(over_and_over(text)) == over_and_over(text).rstrip("\n")


@pytest.mark.parametrize("text", ["<a ", "<a href=", "<!-- ", "a < b, "])
def test_a_field_of_tags_that_never_end_is_read_to_its_end(text: str) -> None:
    assert html_to_markdown(f"<p>Told.</p>{over_and_over(text)}").startswith("Told.")


@pytest.mark.parametrize("text", ["{", "{{", "{%", "{#", "/* ", "{{ a ", "'", "with a as ("])
def test_a_query_of_things_that_never_end_is_read_to_its_end(text: str) -> None:
    assert used_names(f"select 1 from harbour.berths;\n{over_and_over(text)}") == ("harbour.berths",)
    assert defined_names(f"create view harbour.free as select 1;\n{over_and_over(text)}") == ("harbour.free",)


def test_a_list_of_tables_is_followed_once_wherever_it_is_entered() -> None:
    assert used_names(over_and_over("from ports, ")) != ()
    assert used_names("select 1 from ports x, berths y, (select 2 from tides, moons) z") == (
        "ports",
        "berths",
        "tides",
        "moons",
    )


@pytest.mark.parametrize(("language", "text"), [("python", "<!--"), ("csharp", "|-"), ("java", "|-")])
def test_a_file_in_which_a_grammar_loses_itself_is_cut_by_other_means(language: str, text: str) -> None:
    assert symbols_of(over_and_over(text), language) is None
