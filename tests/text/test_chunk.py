"""Items cut into chunks."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.access import ScopeId
from core.errors import InvariantError
from core.items import Item, ItemKind, Part, PersonRef, Source, TextFormat
from core.text.chunk import chunk_item

INPUTS = Path(__file__).parent / "inputs"
URI = "ctx://x"
WINDOW = 64


def count(text: str) -> int:
    """Words and marks, with long words in pieces: how word-piece tokenizers count, roughly."""
    return 2 + sum((len(w) + 5) // 6 for w in re.findall(r"\w+|[^\w\s]", text))


def item(*parts: Part, title: str = "Fuel plan", kind: ItemKind = ItemKind.WIKI_PAGE) -> Item:
    return Item(
        uri=URI,
        source=Source.WIKIS,
        kind=kind,
        scope=ScopeId("s"),
        title=title,
        url="https://x",
        parts=parts,
        version="1",
        created_at=None,
        modified_at=None,
    )


def part(text: str, *, uri: str = URI, format: TextFormat = TextFormat.MARKDOWN, **more: object) -> Part:
    return Part(uri=uri, text=text, format=format, **more)  # type: ignore[arg-type]


def message(n: int, text: str, who: str = "Pieter de Vries") -> Part:
    at = datetime(2026, 10, 2, 9, n, tzinfo=UTC)
    return part(text, uri=f"{URI}/replies/{n}", author=PersonRef(who), at=at)


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def test_the_tail_of_a_long_text_is_in_a_chunk_that_fits() -> None:
    text = "filler words follow here " * 150 + "then: the spare impeller is in locker 42"
    chunks = chunk_item(item(part(text)), count, WINDOW)
    assert all(count(c.embedded_text) <= WINDOW for c in chunks)
    assert chunks[-1].text.endswith("the spare impeller is in locker 42")
    assert words(" ".join(c.text for c in chunks)) == words(text)
    assert [c.ordinal for c in chunks] == list(range(len(chunks)))


def test_title_and_headings_stand_before_the_embedded_text_and_not_in_the_text() -> None:
    chunks = chunk_item(item(part("# Steps\n\n## First\n\nCall Sarah")), count, WINDOW)
    assert [(c.heading, c.text) for c in chunks] == [(("Steps", "First"), "Call Sarah")]
    assert chunks[0].embedded_text == "Fuel plan > Steps > First\nCall Sarah"


def test_a_fence_stays_whole_and_a_hash_in_it_is_no_heading() -> None:
    chunks = chunk_item(item(part("# Example\n\n```bash\n# install deps\nrun\n```\n\n# Next\ntext")), count, WINDOW)
    assert [c.heading for c in chunks] == [("Example",), ("Next",)]
    assert chunks[0].text == "```bash\n# install deps\nrun\n```"


def test_every_piece_of_a_table_has_its_header_and_every_row_appears_once() -> None:
    text = (INPUTS / "long_table.md").read_text("utf-8")
    chunks = chunk_item(item(part(text)), count, WINDOW)
    assert len(chunks) > 3
    rows: list[str] = []
    for chunk in chunks:
        header, separator, *body = chunk.text.split("\n")
        assert header == "| Berth | Depth | State |"
        assert separator == "| --- | --- | --- |"
        assert count(chunk.embedded_text) <= WINDOW
        rows += body
    assert rows == [x for x in text.split("\n") if x.startswith("| berth")]
    assert len(rows) == 60


def test_a_table_row_too_long_for_a_chunk_loses_nothing() -> None:
    table = "| A | B |\n| --- | --- |\n| one | " + "long cell " * 100 + "end |\n| two | x |"
    chunks = chunk_item(item(part(table)), count, WINDOW)
    assert words(" ".join(c.text for c in chunks)).count("long") == 100
    assert any("end" in c.text for c in chunks)
    assert any("two" in c.text for c in chunks)


def test_a_long_fence_is_cut_into_fences() -> None:
    body = "\n".join(f"step_{i} --with option" for i in range(40))
    chunks = chunk_item(item(part(f"```bash\n{body}\n```")), count, WINDOW)
    assert len(chunks) > 2
    assert all(c.text.startswith("```bash\n") and c.text.endswith("\n```") for c in chunks)
    inner = "\n".join(line for c in chunks for line in c.text.split("\n")[1:-1])
    assert inner == body


def test_a_question_and_its_answers_share_a_chunk_with_author_and_day() -> None:
    thread = item(message(1, "Where is the certificate?", "Stephan"), message(2, "In the vault."), kind=ItemKind.THREAD)
    chunks = chunk_item(thread, count, WINDOW)
    assert [c.text for c in chunks] == [
        "Stephan, 2026-10-02: Where is the certificate?\nPieter de Vries, 2026-10-02: In the vault."
    ]
    assert chunks[0].part_uris == (f"{URI}/replies/1", f"{URI}/replies/2")


def test_comments_are_gathered_apart_from_the_description() -> None:
    chunks = chunk_item(item(part("Description"), message(1, "one"), message(2, "two")), count, WINDOW)
    assert [c.part_uris for c in chunks] == [(URI,), (f"{URI}/replies/1", f"{URI}/replies/2")]


def test_a_long_message_is_split_with_its_author_on_every_piece() -> None:
    chunks = chunk_item(item(message(1, "word " * 150), message(2, "short")), count, WINDOW)
    assert len(chunks) > 3
    assert all(c.text.startswith("Pieter de Vries, 2026-10-02: ") for c in chunks)
    assert all(count(c.embedded_text) <= WINDOW for c in chunks)
    assert sum(c.text.count("word") for c in chunks) == 150
    assert chunks[-1].part_uris == (f"{URI}/replies/2",)


def test_a_heading_in_a_message_does_not_split_it() -> None:
    chunks = chunk_item(item(message(1, "# not a section\ntext")), count, WINDOW)
    assert [(c.heading, c.text) for c in chunks] == [((), "Pieter de Vries, 2026-10-02: # not a section\ntext")]


CODE = '''"""Module."""

import os


def connect(partner: str) -> None:
    """Open a connection to a partner of the gateway."""
    channel = open_channel(partner, retries=3)
    channel.start()


# Sends the margin.
@retry
class MarginSender:
    def send(self) -> None:
        """Send today's margin to every partner."""
        for partner in self.partners:
            self.connect(partner).send(self.margin)

    def close(self) -> None:
        """Close what is open, in the order of opening."""
        for partner in reversed(self.partners):
            partner.close()
'''


def test_code_is_cut_at_symbols_with_the_lines_in_the_heading() -> None:
    chunks = chunk_item(item(part(CODE, format=TextFormat.CODE), title="adapter.py"), count, WINDOW)
    assert [c.heading for c in chunks][-1][-1].startswith("lines ")
    assert any("connect" in c.heading for c in chunks)
    assert any(c.heading[0].startswith("MarginSender") for c in chunks)
    lines = CODE.split("\n")
    for chunk in chunks:
        first, last = map(int, re.findall(r"\d+", chunk.heading[-1]))
        assert chunk.text in "\n".join(lines[first - 1 : last])
    assert words("\n".join(c.text for c in chunks)) == words(CODE)
    holder = next(c for c in chunks if "class MarginSender" in c.text)
    assert "# Sends the margin.\n@retry\nclass MarginSender" in holder.text


def test_lines_added_above_do_not_change_the_vectors_below() -> None:
    before = chunk_item(item(part(CODE, format=TextFormat.CODE)), count, WINDOW)
    after = chunk_item(item(part("# " + "new line " * 25 + "\n\n\n" + CODE, format=TextFormat.CODE)), count, WINDOW)
    assert before[-1].digest == after[-1].digest
    assert before[-1].heading != after[-1].heading


def test_a_symbol_that_had_to_be_split_shares_no_chunk_and_names_each_piece_of_it() -> None:
    body = "\n".join(f"        step_{n} = self.pump({n}) + self.drain({n})" for n in range(20))
    code = f"import os\n\n\nclass Pump:\n    def run(self):\n{body}\n\n    def stop(self):\n        pass\n"
    chunks = chunk_item(item(part(code, format=TextFormat.CODE, language="python")), count, WINDOW)
    of_run = [c for c in chunks if c.heading[:2] == ("Pump", "run")]
    assert len(of_run) > 2
    assert all(c.embedded_text.startswith("Fuel plan > Pump > run\n") for c in of_run)
    assert not any("stop" in c.text or "import" in c.text for c in of_run)
    assert chunks[-1].heading[:2] == ("Pump", "stop")


def test_sql_views_are_symbols() -> None:
    sql = "CREATE OR REPLACE VIEW v_margin AS\nSELECT 1;\n\nCREATE TABLE dbo.partners (id int);\n"
    chunks = chunk_item(item(part(sql, format=TextFormat.CODE)), count, 24)
    assert [c.heading[0] for c in chunks] == ["v_margin", "dbo.partners"]


def test_empty_text_gives_no_chunk_and_a_title_alone_gives_one() -> None:
    assert chunk_item(item(part("  \n"), title=""), count, WINDOW) == ()
    for parts in ((), (part(""),), (part(" \n ", format=TextFormat.CODE),)):
        chunks = chunk_item(item(*parts, title="Closed berths", kind=ItemKind.WORK_ITEM), count, WINDOW)
        assert [(c.text, c.embedded_text, c.part_uris) for c in chunks] == [("Closed berths", "Closed berths", (URI,))]


def test_a_wiki_page_that_says_nothing_is_no_evidence() -> None:
    for parts in ((), (part(""),), (part(" \n "),)):
        assert chunk_item(item(*parts, title="Closed berths"), count, WINDOW) == ()
        assert chunk_item(item(*parts, title="berths " * 200), count, WINDOW) == ()


def test_a_heading_with_nothing_under_it_can_be_found() -> None:
    chunks = chunk_item(item(part("# Contact\n\n## Sarah Janssen\n")), count, WINDOW)
    assert [(c.heading, c.text) for c in chunks] == [(("Contact", "Sarah Janssen"), "## Sarah Janssen")]


def test_a_title_longer_than_the_window_is_kept_whole_somewhere() -> None:
    title = " ".join(f"word{i}" for i in range(200))
    chunks = chunk_item(item(part("body"), title=title), count, WINDOW)
    assert set(words(title)) <= set(words(" ".join(c.text for c in chunks)))
    assert all(count(c.embedded_text) <= WINDOW for c in chunks)
    assert chunks[-1].text == "body"


def test_what_can_not_be_made_to_fit_is_an_error_and_never_cut_in_silence() -> None:
    with pytest.raises(InvariantError):
        chunk_item(item(part("a b c")), lambda text: 100, WINDOW)


def test_the_same_item_gives_the_same_chunks() -> None:
    one = item(part("# A\ntext"), message(1, "hello"))
    assert chunk_item(one, count, WINDOW) == chunk_item(one, count, WINDOW)


PIECES = [
    "# Heading",
    "## Sub heading",
    "some words here. And more!",
    "| a | b |",
    "| --- | --- |",
    "| 1 | 2 |",
    "```",
    "~~~",
    "",
    "- item",
    "  - nested item",
    "Title",
    "===",
    "def f(x):",
    "    return x",
    "class Berth:",
    "    def moor(self):",
    "    @property",
    "class Quay {",
    "  void moor() {",
    "  }",
    "}",
    "> quote",
]
pieces = st.sampled_from([*PIECES, "x" * 90, "word " * 40, "Title\n==="])


@settings(max_examples=150, deadline=None)
@given(
    st.lists(pieces, max_size=25),
    st.sampled_from(list(TextFormat)),
    st.booleans(),
    st.sampled_from(["python", "csharp", "typescript", None]),
)
def test_no_text_loses_a_word_or_breaks_the_window(
    lines: list[str], format: TextFormat, is_message: bool, language: str | None
) -> None:
    text = "\n".join(lines)
    one = part(text, format=format, uri=f"{URI}/comments/1" if is_message else URI, language=language)
    chunks = chunk_item(item(one, title="T"), count, 40)
    assert all(count(c.embedded_text) <= 40 for c in chunks)
    found = " ".join(" ".join((*c.heading, c.text)) for c in chunks)
    for word in set(words(text)):
        if len(word) < 60:
            assert word in found
    assert found.count("x") >= text.count("x")
