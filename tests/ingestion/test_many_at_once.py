"""Items are taken in together, and one that can't be is parked alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from core.errors import InputError, StoreUnavailableError
from core.index.port import DenseVector
from graph.db import Database
from ingestion.together import together
from tests.ingestion.scripted import ScriptedSide, scripted_side
from tests.support.quick_embedder import QuickEmbedder

URIS = [f"ctx://ado/contoso/wikis/w/pages/{n}" for n in range(1, 6)]


@pytest.fixture
def side(ingest_db: Database, tmp_path: Path) -> Iterator[ScriptedSide]:
    with scripted_side(ingest_db, tmp_path / "index") as made:
        yield made


def test_a_text_that_the_embedder_refuses_parks_its_item_and_no_other(
    side: ScriptedSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    side.source.items = {uri: f"page {n}" for n, uri in enumerate(URIS)}
    embed = QuickEmbedder.embed_documents

    def refusing(embedder: QuickEmbedder, texts: Sequence[str]) -> list[DenseVector]:
        if any("page 2" in text for text in texts):
            raise InputError("a text of too many tokens")
        return embed(embedder, texts)

    with monkeypatch.context() as patch:
        patch.setattr(QuickEmbedder, "embed_documents", refusing)
        report = side.sync()
        assert side.sync().state == "partial"
    assert report.state == "partial"
    assert (report.counts["new"], report.counts["failed"], report.counts["embedded"]) == (4, 1, 4)
    assert set(side.indexed()) == set(URIS) - {URIS[2]}
    assert [f.uri for f in side.runs.failures()] == [URIS[2]]
    side.sync()
    assert set(side.indexed()) == set(URIS)


def test_an_old_state_is_not_found_where_its_successor_can_t_be_indexed(
    side: ScriptedSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    side.source.items = {URIS[0]: "page 1", URIS[1]: "page two"}
    side.sync()
    side.source.items[URIS[0]] = "page 2"

    def refusing(embedder: QuickEmbedder, texts: Sequence[str]) -> list[DenseVector]:
        if texts:
            raise InputError("a text of too many tokens")
        return []

    monkeypatch.setattr(QuickEmbedder, "embed_documents", refusing)
    assert side.sync().state == "partial"
    assert set(side.indexed()) == {URIS[1]}


def test_a_batch_costs_one_call_of_the_embedder(side: ScriptedSide, monkeypatch: pytest.MonkeyPatch) -> None:
    side.source.items = {uri: f"page {n}" for n, uri in enumerate(URIS)}
    calls: list[int] = []
    embed = QuickEmbedder.embed_documents

    def counting(embedder: QuickEmbedder, texts: Sequence[str]) -> list[DenseVector]:
        calls.append(len(texts))
        return embed(embedder, texts)

    monkeypatch.setattr(QuickEmbedder, "embed_documents", counting)
    side.sync()
    assert [n for n in calls if n] == [len(URIS)]


def test_the_last_of_two_states_of_one_item_in_a_batch_is_the_one_that_counts(side: ScriptedSide) -> None:
    from ingestion.connector import ItemUpserted
    from tests.graph.support import item

    side.source.items = {}
    side.source.extra = [ItemUpserted(item(URIS[0], "open", version=v, text=f"state {v}")) for v in ("1", "2")]
    side.sync()
    body = side.items.body(URIS[0])
    assert body is not None
    assert body[0].version == "2"


def test_a_store_that_is_down_is_no_item_s_fault() -> None:
    def down(some: Sequence[int]) -> list[int]:
        raise StoreUnavailableError("qdrant", "it is down")

    with pytest.raises(StoreUnavailableError):
        together(down, [1, 2])


def test_work_that_fails_together_is_done_for_each_alone() -> None:
    def odd_only(some: Sequence[int]) -> list[int]:
        if any(n % 2 == 0 for n in some):
            raise InputError("even")
        return [n * 10 for n in some]

    done, failed = together(odd_only, [1, 2, 3])
    assert done == [(1, 10), (3, 30)]
    assert [n for n, _ in failed] == [2]
    assert together(odd_only, []) == ([], [])
