"""What is true of the embedded index alone: its folder, its owner, what it survives."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import qdrant_edge

from core.errors import ConfigError, InvariantError, StoreUnavailableError
from core.index import filters
from core.index.edge import EdgeIndex
from tests.contract import index_world as w


def open_index(folder: Path) -> EdgeIndex:
    return EdgeIndex(folder, embedder="m", size=w.SIZE)


def run(code: str, *arguments: str, expect: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == expect, done.stderr
    return done.stdout


WRITER = """
import os, signal, sys
from pathlib import Path
from core.index.edge import EdgeIndex
from tests.contract import index_world as w
index = EdgeIndex(Path(sys.argv[1]), embedder="m", size=w.SIZE)
for i in range(40):
    index.writer.replace_item(f"ctx://{i}", [w.point(f"ctx://{i}", ordinal=n) for n in range(3)])
index.writer.flush()
index.writer.set_access("s0", [w.principal("b")], 2)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_was_written_is_there_after_closing_and_opening(tmp_path: Path) -> None:
    index = open_index(tmp_path / "i")
    index.writer.replace_item("ctx://x", [w.point("ctx://x")])
    before = index.reader.search(w.trim("a"), w.query())
    index.close()
    index = open_index(tmp_path / "i")
    assert index.reader.search(w.trim("a"), w.query()) == before
    index.writer.optimize()
    assert index.reader.search(w.trim("a"), w.query()) == before
    index.close()


def test_a_killed_process_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    folder = tmp_path / "i"
    run(WRITER, str(folder), expect=-signal.SIGKILL)
    index = open_index(folder)
    assert index.writer.count_points() == 120
    assert index.reader.count(w.trim("a")) == 0
    assert index.reader.count(w.trim("b")) == 120
    index.close()


def test_an_index_whose_making_was_cut_short_is_made_again(tmp_path: Path) -> None:
    folder = tmp_path / "i"
    open_index(folder).close()
    (folder / "index.json").unlink()
    (folder / "making").touch()
    index = open_index(folder)
    assert index.writer.count_points() == 0
    assert not (folder / "making").exists()
    index.close()


def test_what_an_interrupted_optimization_left_is_cleared_away(tmp_path: Path) -> None:
    folder = tmp_path / "i"
    open_index(folder).close()
    leftover = folder / "shard" / "temp_segments" / "half"
    leftover.mkdir(parents=True)
    (leftover / "data").write_bytes(b"x" * 100)
    index = open_index(folder)
    assert not leftover.exists()
    index.close()


def test_a_second_owner_is_told_who_has_the_folder(tmp_path: Path) -> None:
    index = open_index(tmp_path / "i")
    with pytest.raises(StoreUnavailableError, match=f"in use by another process .pid {os.getpid()}"):
        open_index(tmp_path / "i")
    code = (
        "import sys; from pathlib import Path; from core.index.edge import EdgeIndex\n"
        "from core.errors import StoreUnavailableError\n"
        "try: EdgeIndex(Path(sys.argv[1]), embedder='m', size=8)\n"
        "except StoreUnavailableError as e: print(e)"
    )
    assert f"(pid {os.getpid()})" in run(code, str(tmp_path / "i"))
    index.close()
    open_index(tmp_path / "i").close()


@pytest.mark.parametrize("content", ["", "[]", '{"format": 99}', "\xff"])
def test_an_identity_that_can_not_be_read_is_a_configuration_error(tmp_path: Path, content: str) -> None:
    open_index(tmp_path / "i").close()
    (tmp_path / "i" / "index.json").write_text(content, encoding="latin-1")
    with pytest.raises(ConfigError, match="index"):
        open_index(tmp_path / "i")


def test_data_without_an_identity_is_not_taken_for_ours(tmp_path: Path) -> None:
    open_index(tmp_path / "i").close()
    (tmp_path / "i" / "index.json").unlink()
    with pytest.raises(ConfigError, match=r"without its index\.json"):
        open_index(tmp_path / "i")


def test_a_damaged_index_is_told_with_what_to_do(tmp_path: Path) -> None:
    open_index(tmp_path / "i").close()
    for file in (tmp_path / "i" / "shard").rglob("*.json"):
        file.write_text("{", encoding="utf-8")
    with pytest.raises(StoreUnavailableError, match="sync again"):
        open_index(tmp_path / "i")


def test_a_folder_that_can_not_be_used_is_a_configuration_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(ConfigError):
        open_index(tmp_path / "file")


def test_a_forked_child_is_refused_instead_of_hanging(tmp_path: Path) -> None:
    code = """
import os, sys
from pathlib import Path
from core.errors import InvariantError
from core.index.edge import EdgeIndex
from tests.contract import index_world as w
index = EdgeIndex(Path(sys.argv[1]), embedder="m", size=w.SIZE)
child = os.fork()
if child == 0:
    try:
        index.reader.search(w.trim("a"), w.query())
    except InvariantError:
        os._exit(7)
    os._exit(1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
index.close()
"""
    assert run(code, str(tmp_path / "i")).strip() == "7"


def test_a_reader_never_sees_half_an_item(tmp_path: Path) -> None:
    index = open_index(tmp_path / "i")
    points = {text: [w.point("ctx://x", ordinal=n, text=text) for n in range(20)] for text in ("old", "new")}
    index.writer.replace_item("ctx://x", points["old"])
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            for text in ("new", "old"):
                index.writer.replace_item("ctx://x", points[text])

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(100):
            found = index.reader.search(w.trim("a"), w.query())
            assert len(found) == 20
            assert len({c.text for c in found}) == 1
    finally:
        stop.set()
        thread.join()
        index.close()


def test_the_identity_is_written_whole(tmp_path: Path) -> None:
    open_index(tmp_path / "i").close()
    about = json.loads((tmp_path / "i" / "index.json").read_text("utf-8"))
    assert about == {"format": 1, "embedder": "m", "size": w.SIZE}


def test_a_broken_filter_shows_nothing_even_past_the_first_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = open_index(tmp_path / "i")
    index.writer.replace_item("ctx://x", [w.point("ctx://x", allowed="b")])
    index.writer.replace_item("ctx://y", [w.point("ctx://y", allowed="a", scope="s1")])
    monkeypatch.setattr(filters, "readable", lambda *_: qdrant_edge.Filter())
    with pytest.raises(InvariantError, match="filter"):
        index.reader.search(w.trim("c"), w.query())
    monkeypatch.setattr(filters, "assert_trimmed", lambda *_: None)
    with pytest.raises(InvariantError, match="may not read"):
        index.reader.search(w.trim("c"), w.query())
    index.writer.delete_items(["ctx://x"])
    with pytest.raises(InvariantError, match="blocked scope"):
        index.reader.search(w.trim("a", blocked=["s1"]), w.query())
    index.close()
