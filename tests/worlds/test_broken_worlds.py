"""A malformed world is refused with its file, the place in it and what is allowed there."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import ContextEngineError
from fixtures.sandbox.world import WorldError, load_world

BROKEN = Path(__file__).parent / "broken"
FOLDERS = sorted(path for path in BROKEN.iterdir() if path.is_dir())


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_broken_world_is_refused_with_file_place_and_what_is_allowed(folder: Path) -> None:
    wanted = (folder / "expected.txt").read_text(encoding="utf-8").splitlines()

    with pytest.raises(WorldError) as refused:
        load_world(folder)

    assert isinstance(refused.value, ContextEngineError)
    told = str(refused.value)
    assert wanted, "an expectation that asks for nothing proves nothing"
    assert [fragment for fragment in wanted if fragment not in told] == [], told


def test_every_fault_of_a_world_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "world.yaml").write_text(
        "format: 1\nname: two-faults\nnow: 2027-03-15T08:30:00Z\n"
        "tenant_id: 6f1d2c3b-8a47-4e5c-9b10-2d7e4f60a9c1\n"
        "people:\n"
        "  ada: {name: Ada, upn: a@b.example, manager: bob}\n"
        "  eve: {name: Eve, upn: e@b.example, manager: tom}\n",
        encoding="utf-8",
    )

    with pytest.raises(WorldError) as refused:
        load_world(tmp_path)

    assert "people.ada.manager" in str(refused.value)
    assert "people.eve.manager" in str(refused.value)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WorldError, match="no such folder"):
        load_world(tmp_path / "nowhere")


def test_bytes_that_are_not_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "world.yaml").write_bytes(b"name: caf\xe9\n")

    with pytest.raises(WorldError, match=r"world\.yaml: .*UTF-8"):
        load_world(tmp_path)
