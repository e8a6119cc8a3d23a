"""The embedded index can be written anew: nothing of what was deleted is left in its files, and everything else is."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from core.index.edge import EdgeIndex
from core.index.port import SparseVector
from tests.contract import index_world as w
from tests.support.canary import files_with

WORD = "Quoxalindex"


def open_index(folder: Path) -> EdgeIndex:
    return EdgeIndex(folder, embedder="m", size=w.SIZE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An index with a word in it that was deleted since."""
    index = open_index(tmp_path / "i")
    for n in range(60):
        text = f"{WORD} {n}" if n % 7 == 0 else f"text {n}"
        sparse = SparseVector((), ()) if n % 5 == 0 else None
        index.writer.replace_item(f"ctx://{n}", [w.point(f"ctx://{n}", text=text, scope=f"s{n % 3}", sparse=sparse)])
    index.writer.delete_items([f"ctx://{n}" for n in range(0, 60, 7)])
    index.close()
    return tmp_path / "i"


def answers(index: EdgeIndex) -> object:
    """What is found, with every score and payload, and each item's vectors, bit by bit."""
    vectors = {uri: index.writer.vectors_of(uri) for uri in sorted(index.writer.uris())}
    return (
        index.reader.search(w.trim("a"), w.query()),
        index.reader.search(w.trim("a", blocked=["s1"]), w.query(dense=w.unit(3))),
        {u: {d: (v[0].tobytes(), v[1]) for d, v in found.items()} for u, found in vectors.items()},
        sorted(index.writer.inventory(w.Source.WIKIS), key=lambda c: c.uri),
    )


def test_deleted_words_leave_the_files_and_answers_stay_the_same(folder: Path) -> None:
    assert files_with(folder, WORD)
    index = open_index(folder)
    before = answers(index)
    assert index.writer.rewrite() == index.writer.count_points() == 51
    assert answers(index) == before
    assert files_with(folder, WORD) == []
    index.writer.replace_item("ctx://new", [w.point("ctx://new")])
    index.close()
    index = open_index(folder)
    assert index.writer.count_points() == 52
    index.writer.delete_items(["ctx://new"])
    assert answers(index) == before
    index.close()


@pytest.mark.parametrize("killed", ["while it is written", "before the old one is removed", "before it is in place"])
def test_killed_anywhere_the_next_opening_has_a_whole_index(killed: str, folder: Path) -> None:
    index = open_index(folder)
    before = answers(index)
    index.close()
    copy = folder.parent / "whole"
    shutil.copytree(folder / "shard", copy)
    match killed:
        case "while it is written":
            (folder / "shard.draft").mkdir()
            (folder / "shard.draft" / "half").write_text("half")
        case "before the old one is removed":
            copy.rename(folder / "shard.new")
        case "before it is in place":
            copy.rename(folder / "shard.new")
            shutil.rmtree(folder / "shard")
    index = open_index(folder)
    assert answers(index) == before
    assert sorted(p.name for p in folder.iterdir()) == ["index.json", "lock", "shard"]
    index.close()
