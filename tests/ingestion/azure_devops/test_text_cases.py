"""Texts that went wrong elsewhere, from the source through the connector and the chunker to an answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.embedding.port import Embedder
from core.items import Chunk, Item
from core.text.chunk import chunk_item
from core.text.terms import term_key
from fixtures.sandbox.server import SandboxServer
from fixtures.sandbox.world_models import World
from tests.ingestion.azure_devops.support import Store, connect
from tests.sandbox.small import commit, item, page, stamp, world
from tests.support.engines import LiveEngine, live_engine
from tests.support.postgres import PostgresServer

INPUTS = Path(__file__).parents[2] / "text" / "inputs"
FORMS = json.loads((INPUTS / "unicode.json").read_text("utf-8"))
NFC, NFD = FORMS["nfc"], FORMS["nfd"]
PAGES = {
    "Fuel": "[[_TOC_]]\n\n# Fuel plan\n\n[[_TOSP_]]\n\nCut-off is 14:00\n\n```\n[[_TOC_]]\n```\n",
    "Contents": "[[_TOC_]]\n",
    "Blocks": (
        '::: mermaid\ngraph TD; Kran-->Kai7\n:::\n\n::: video\n<iframe src="https://video.example/x"></iframe>\n:::\n\n'
        "# Rollback\nundo\n"
    ),
    "Open": "# Plan\n\n::: mermaid\ngraph TD; Never-->Closed\n\n# Still here\nlast words\n",
    "Table query": ":::query-table 1b2c-3d4e\n:::\n\nBelow the query\n\n::: query-table 99 :::\n\nAnd below that\n",
    "Inclusion": "Before\n\n![[Shared/Notice]]\n\n:::include /Legal.md:::\n\n:::note\nKeep this.\n:::\n\nAfter\n",
    "Fences": "# Example\n\n```bash\n# install deps\nrun\n```\n\n~~~sh\n# not a title\n~~~\n\n# Next\ntext\n",
    "Depths": (INPUTS / "long_table.md").read_text("utf-8"),
    "Sketch": (INPUTS / "datauri_image.md").read_text("utf-8"),
    f"{NFD} quay": f"The gate of {NFD} opens at six.",
    f"{NFC} yard": f"The yard of {NFC} is full.",
}
# Longer than what lists give of a description.
LONG = "The crane was looked at again and nothing was found. " * 12
LIST = "<ul><li>a</li><li>b</li><ul><li>c</li><li>d</li></ul></ul>"


def texts() -> World:
    """A wiki with every page, work items, a file whose name is decomposed, and a pull request with a long text."""
    fix = f"{LONG} and the fix is in locker 42"
    project: dict[str, Any] = {
        "acl": [{"to": "ann", "allow": ["read"]}],
        "wikis": {"Docs": {"pages": {name: page(text) for name, text in PAGES.items()}}},
        "work_items": [
            item(1, description=LIST, title="Nested list"),
            item(2, title="kai\u0000 7"),
            item(3, title="Long repair", description=f"<p>{LONG} and the spare fuse is in drawer 17</p>"),
        ],
        "repos": {
            "app": {
                "commits": [commit("one") | {"files": {f"{NFD}.md": f"# {NFC}\n"}}],
                "pull_requests": [{"id": 88, "title": "Repair", "created": stamp(), "description": fix}],
            }
        },
    }
    return world(project)


@pytest.fixture(scope="module")
def engine(postgres: PostgresServer, embedder: Embedder) -> Iterator[LiveEngine]:
    with live_engine(texts(), postgres, embedder) as running:
        yield running


@pytest.fixture(scope="module")
def items(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Item]:
    with SandboxServer(texts(), tmp_path_factory.mktemp("texts"), remember=False) as server:
        connector, store = connect(server), Store()
        store.sync(connector)
        connector.close()
    assert store.failures == {}
    return {i.title: i for i in store.items.values()}


@pytest.fixture(scope="module")
def chunks(items: dict[str, Item], embedder: Embedder) -> dict[str, tuple[Chunk, ...]]:
    """Every item's chunks as the shipped model's window wants them."""
    return {title: chunk_item(i, embedder.count_tokens, embedder.window) for title, i in items.items()}


def text_of(made: Item) -> str:
    return "\n\n".join(p.text for p in made.parts)


def test_contents_macros_go_and_stay_in_fences(
    items: dict[str, Item], chunks: dict[str, tuple[Chunk, ...]], engine: LiveEngine
) -> None:
    """C075"""
    text = text_of(items["Fuel"])
    assert "_TOSP_" not in text
    assert text.count("[[_TOC_]]") == 1
    assert "Cut-off is 14:00" in text
    # Nothing is said on the page: it is no evidence of anything.
    assert text_of(items["Contents"]).strip() == ""
    assert chunks["Contents"] == ()
    # It is still there for whoever asks for it by its address.
    assert engine.expand("ann", items["Contents"].uri).json()["title"] == "Contents"
    asked = engine.ask("ann", {"question": "What is this?", "focus": {"item": items["Contents"].uri}})
    assert asked["interpreted_as"]["focus"][0]["resolved"]


def test_blocks_are_kept_and_the_heading_after_them_is_a_section(
    items: dict[str, Item], chunks: dict[str, tuple[Chunk, ...]], engine: LiveEngine
) -> None:
    """C077"""
    assert "```mermaid\ngraph TD; Kran-->Kai7\n```" in text_of(items["Blocks"])
    assert "[video](https://video.example/x)" in text_of(items["Blocks"])
    assert "iframe" not in text_of(items["Blocks"])
    assert [(c.heading, c.text) for c in chunks["Blocks"]][-1] == (("Rollback",), "undo")
    assert "Never-->Closed" in text_of(items["Open"])
    assert "last words" in text_of(items["Open"])
    assert engine.ask("ann", "Kran Kai7")["evidence"][0]["title"] == "Blocks"


def test_queries_and_inclusions_swallow_nothing(items: dict[str, Item]) -> None:
    assert [x for x in text_of(items["Table query"]).split("\n") if x] == ["Below the query", "And below that"]
    included = text_of(items["Inclusion"])
    for words in ("Before", "Keep this.", "After"):
        assert words in included
    assert ":::" not in included


def test_nested_lists_keep_their_depth(items: dict[str, Item]) -> None:
    """C088"""
    assert "- a\n- b\n  - c\n  - d" in text_of(items["Nested list"])


def test_a_hash_in_a_fence_is_no_section(chunks: dict[str, tuple[Chunk, ...]]) -> None:
    """C090"""
    assert list(dict.fromkeys(c.heading for c in chunks["Fences"])) == [("Example",), ("Next",)]
    assert chunks["Fences"][0].text == "```bash\n# install deps\nrun\n```\n\n~~~sh\n# not a title\n~~~"


def test_every_piece_of_a_table_has_its_header_and_no_row_is_cut(
    chunks: dict[str, tuple[Chunk, ...]], embedder: Embedder
) -> None:
    """C092"""
    assert embedder.window <= 256
    rows: list[str] = []
    for chunk in chunks["Depths"]:
        head, line, *body = chunk.text.split("\n")
        assert (head, line) == ("| Berth | Depth | State |", "| --- | --- | --- |")
        assert embedder.count_tokens(chunk.embedded_text) <= embedder.window
        rows += body
    assert len(chunks["Depths"]) > 1
    assert rows == [x for x in PAGES["Depths"].split("\n") if x.startswith("| berth")]
    assert len(rows) == 60


@pytest.mark.parametrize("asked", [NFC, NFD])
def test_composed_and_decomposed_letters_meet(asked: str, engine: LiveEngine, items: dict[str, Item]) -> None:
    """C097"""
    for words, form in (("When does the gate open", NFD), ("How full is the yard", NFC)):
        first = engine.ask("ann", f"{words} {asked}?")["evidence"][0]
        assert form in first["snippet"]
    body = {"question": "What is this?", "focus": {"file": f"app/{asked}.md"}}
    assert engine.ask("ann", body)["interpreted_as"]["focus"][0]["resolved"]
    # What is shown stays as it was written.
    assert f"The gate of {NFD} opens at six." in {text_of(i) for i in items.values()}


def test_both_forms_of_a_letter_have_one_key_and_one_vector(embedder: Embedder, items: dict[str, Item]) -> None:
    """C097"""
    assert term_key(NFC) == term_key(NFD)
    made = next(i for i in items.values() if "The gate of" in text_of(i))
    digests = set()
    for form in (NFC, NFD):
        written = replace(made, title=form, parts=(replace(made.parts[0], text=f"{form} opens"),))
        digests |= {c.digest for c in chunk_item(written, embedder.count_tokens, embedder.window)}
    assert len(digests) == 1


def test_a_picture_in_the_text_is_one_mark_and_not_a_thousand_chunks(chunks: dict[str, tuple[Chunk, ...]]) -> None:
    """C099"""
    (chunk,) = chunks["Sketch"]
    for word in ("Sketch", "plan", "end"):
        assert word in chunk.text
    assert not re.search(r"[A-Za-z0-9+/=]{200,}", chunk.embedded_text)


@pytest.mark.parametrize(("asked", "title"), [("locker 42", "Repair"), ("spare fuse drawer 17", "Long repair")])
def test_what_lists_would_cut_off_is_found(asked: str, title: str, engine: LiveEngine) -> None:
    """C072"""
    first = engine.ask("ann", asked)["evidence"][0]
    assert first["title"] == title
    assert " ".join(asked.split()[-2:]) in first["snippet"]


def test_a_nul_in_a_title_goes(engine: LiveEngine) -> None:
    """C096"""
    assert any(e["title"] == "kai 7" for e in engine.ask("ann", "kai 7")["evidence"])
