"""Markdown as Azure DevOps holds it."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.text.markdown import clean_markdown, split_front_matter
from core.text.sections import sections

INPUTS = Path(__file__).parent / "inputs"


def test_contents_macros_go_but_stay_in_fences() -> None:
    text = clean_markdown("[[_TOC_]]\n\n# Fuel plan\n\n[[_TOSP_]]\n\nCut-off is 14:00\n\n```\n[[_TOC_]]\n```")
    assert text.count("_TOC_") == 1
    assert "_TOSP_" not in text
    assert "Cut-off is 14:00" in text
    assert clean_markdown("[[_TOC_]]\n") == ""


def test_blocks_are_kept_or_linked_and_nothing_after_them_is_swallowed() -> None:
    text = clean_markdown(
        '::: mermaid\ngraph TD; Kran-->Kai7\n:::\n\n::: video\n<iframe src="https://video.example/x"></iframe>\n:::\n\n'
        "# Rollback\nundo\n\n::: mermaid\nnever closed"
    )
    assert "```mermaid\ngraph TD; Kran-->Kai7\n```" in text
    assert "[video](https://video.example/x)" in text
    assert "iframe" not in text
    assert "undo" in text
    assert "never closed" in text
    assert [s.path for s in sections(text)] == [(), ("Rollback",)]


@pytest.mark.parametrize(
    "opening",
    ['::: video\n<iframe src="https://video.example/x"></iframe>', ":::query-table 1b2c", ":::note", "::: include /A"],
)
@pytest.mark.parametrize("after", ["# Rollback\nundo", "undo", "::: mermaid\nA-->undo\n:::"])
def test_a_block_that_is_left_open_swallows_nothing(opening: str, after: str) -> None:
    text = clean_markdown(f"Before\n\n{opening}\n\n{after}\n\n::: note\nlast\n:::\nend")
    assert "undo" in text
    assert text.endswith("last\n\nend")
    assert ":::" not in text
    assert "iframe" not in text
    assert "1b2c" not in text
    assert "# Rollback" not in after or [s.path for s in sections(text)] == [(), ("Rollback",)]


def test_a_block_on_one_line_says_what_it_says() -> None:
    lines = ("mermaid graph TD; A-->B", "video https://video.example/x", "note Mind the gap", "query-table 1b2c")
    text = clean_markdown("\n".join(f"::: {line} :::" for line in lines))
    assert [x for x in text.split("\n") if x] == [
        "```mermaid",
        "graph TD; A-->B",
        "```",
        "[video](https://video.example/x)",
        "Mind the gap",
    ]


def test_blocks_in_blocks_are_resolved_however_many_there_are() -> None:
    assert clean_markdown(":::note\n" * 5_000 + "end\n" + ":::\n" * 5_000) == "end"
    text = clean_markdown("::: note\nfirst\n\n::: mermaid\nA-->B\n:::\n\nthen\n:::\nlast")
    assert [x for x in text.split("\n") if x] == ["first", "```mermaid", "A-->B", "```", "then", "last"]


def test_a_picture_in_the_text_leaves_its_name() -> None:
    text = clean_markdown((INPUTS / "datauri_image.md").read_text("utf-8"))
    assert text == "Sketch [image: plan] end"
    assert clean_markdown('x <img src="data:image/png;base64,' + "QUJD" * 500 + '"> y') == 'x <img src=""> y'


def test_front_matter_is_read_and_taken_off() -> None:
    data, rest = split_front_matter("---\nowner: Sarah\ntags: [a, b]\n---\n# Title\n")
    assert data == {"owner": "Sarah", "tags": ["a", "b"]}
    assert rest == "# Title\n"


@pytest.mark.parametrize(
    "text", ["# no\n---\na: 1\n---\n", "---\n: : :\n---\nx", "---\n- a\n---\nx", "---\na: 1\n", ""]
)
def test_what_is_no_front_matter_stays_in_the_text(text: str) -> None:
    assert split_front_matter(text) == ({}, text)


@pytest.mark.parametrize("fence", ["```", "~~~"])
def test_a_hash_in_a_fence_is_no_heading(fence: str) -> None:
    found = sections(f"# Example\n\n{fence}bash\n# install deps\nrun\n{fence}\n\n# Next\ntext\n")
    assert [s.path for s in found] == [("Example",), ("Next",)]
    assert [b.text for b in found[0].blocks] == [f"{fence}bash\n# install deps\nrun\n{fence}"]


def test_headings_of_both_kinds_nest() -> None:
    found = sections("intro\n\nTop\n===\n\n## Sub ##\na\n\n#### Deep\nb\n\nOther\n---\nc\n#no heading\n")
    assert [s.path for s in found] == [(), ("Top",), ("Top", "Sub"), ("Top", "Sub", "Deep"), ("Top", "Other")]
    assert found[-1].blocks[0].text == "c\n#no heading"
