"""When an item is deleted at its source no word of it is left: in no table, and in no point of the index.

Each kind of item has a word of its own in every text that the source gives of it, and others that lead to it. What
stays is the tombstone: address, versions and times. (The address of a file holds its path.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fixtures.sandbox import state_additions as add
from fixtures.sandbox.server import SandboxServer
from fixtures.sandbox.state import SandboxState
from fixtures.sandbox.state_events import apply_event
from fixtures.sandbox.world_models import Event
from tests.sandbox import small
from tests.sandbox.small import commit, item, message, page, stamp
from tests.support.canary import points_with, tables_with
from tests.support.ingest_side import IngestSide, ingest_side
from tests.support.postgres import PostgresServer

WORDS = {
    "work_item": "Quoxalwi",
    "comment": "Quoxalco",
    "page": "Quoxalpa",
    "file": "Quoxalfi",
    "commit": "Quoxalcm",
    "pull": "Quoxalpu",
    "thread": "Quoxalth",
    "reply": "Quoxalre",
}


def _text(word: str) -> str:
    """A text from which meanings and a replacement are derived."""
    return f"# {word} rules\n\nDCQ means daily currency {word}. Deprecated: replaced by {word} new.\n\nAsk @{word}."


def _world() -> dict[str, Any]:
    w = WORDS
    return {
        "work_items": [
            item(
                1,
                title=f"{w['work_item']} title",
                description=_text(w["work_item"]),
                tags=[w["work_item"]],
                state="Closed",
                closed=stamp("ben"),
                comments=[stamp("ben") | {"text": f"{w['work_item']} said"}],
                links=[{"rel": "related", "to": "work_item:2"}],
            ),
            item(
                2,
                comments=[stamp("ben") | {"text": _text(w["comment"])}],
                links=[
                    {"rel": "related", "to": "work_item:1"},
                    {"rel": "wiki", "to": f"wiki:Guide/{w['page']} home"},
                    {"rel": "pr", "to": "pr:gone/1"},
                ],
                description="See #1 and !1.",
            ),
        ],
        "wikis": {
            "Guide": {
                "pages": {
                    f"{w['page']} home": page(_text(w["page"])),
                    "Other": page("See #1.\n\n# Rules\n\nPay in time."),
                }
            }
        },
        "repos": {
            "kept": {
                "commits": [
                    commit("c1", a_py="x = 1\n"),
                    stamp() | {"key": "c2", "message": f"{w['commit']} subject\n\n{w['commit']} body for #1"}
                    | {"files": {"file.md": _text(w["file"])}},
                ]
            },
            "gone": {
                "commits": [
                    commit("g1", b_py="y = 1\n"),
                    stamp() | {"key": "g2", "message": w["pull"], "branch": "topic", "files": {"b.py": "y = 2\n"}},
                ],
                "pull_requests": [
                    {
                        "id": 1,
                        "title": f"{w['pull']} title",
                        "description": _text(w["pull"]),
                        "created": stamp("ben"),
                        "source": "topic",
                        "target": "main",
                        "threads": [{"file": "b.py", "comments": [stamp() | {"text": f"{w['pull']} remark"}]}],
                        "work_items": [2],
                    }
                ],
            },
        },
    }  # fmt: skip


TEAMS: dict[str, Any] = {
    "Crew": {
        "members": ["ann", "ben"],
        "channels": {
            "General": {
                "messages": [
                    message("m1", _text(WORDS["thread"]), replies=[message("r1", "It is so.", by="ben")]),
                    message("m2", "A question", replies=[message("r2", _text(WORDS["reply"]), by="ben")]),
                ]
            }
        },
    }
}


@pytest.fixture(scope="module")
def side(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[IngestSide]:
    """A synced organization in which everything has its word, and everything that bears one was deleted since."""
    world = small.world(_world(), teams=TEAMS)
    with (
        SandboxServer(world, Path(tmp_path_factory.mktemp("sandbox")), remember=False) as server,
        ingest_side(server, postgres) as made,
    ):
        assert made.settle(1) == []
        for kind, word in WORDS.items():
            assert tables_with(made.database, word), kind
            assert points_with(made.index, word), kind
        _delete_all(server.state)
        # What a list lacks is withheld first, and deleted when it is missed again.
        assert made.settle(3) == []
        yield made


def _delete_all(state: SandboxState) -> None:
    def gone(*names: str) -> Callable[[], None]:
        def delete() -> None:
            for name in names:
                data = {"id": f"e{len(state.journal)}", "after": "1h", "delete": {"item": name}}
                apply_event(state, Event.model_validate(data))

        return delete

    with state.lock:
        gone(f"wiki:Guide/{WORDS['page']} home", "comment:2/1", "work_item:1", "repo:gone")()
        gone("message:Crew/General/m1", "message:Crew/General/r2")()
        add.reset_branch(state, "kept", 1, forget=True)


@pytest.mark.invariant("INV-6")
@pytest.mark.parametrize("kind", WORDS)
def test_no_word_of_what_was_deleted_is_left_in_any_table_or_point(kind: str, side: IngestSide) -> None:
    assert tables_with(side.database, WORDS[kind]) == {}
    assert points_with(side.index, WORDS[kind]) == []


def test_what_was_not_deleted_is_there(side: IngestSide) -> None:
    dump = side.dump()
    assert {uri.rpartition("/")[2] for uri in dump["items"]} >= {"2", "a.py"}
    assert any("/channels/" in uri for uri in dump["items"])
