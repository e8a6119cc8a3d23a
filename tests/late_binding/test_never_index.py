"""What bears a label from `never_index_label` on is never stored, and a label that is raised to it removes what was.

(Where readers compare trees, the paths of files and pages are kept, as in the addresses of tombstones.)
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.clock import FixedClock
from fixtures.sandbox.server import SandboxServer
from fixtures.sandbox.state_events import apply_event
from fixtures.sandbox.world_models import Event, World
from tests.sandbox.small import commit, item, message, page, stamp, world
from tests.support.canary import files_with, points_with, tables_with
from tests.support.ingest_side import ingest_side
from tests.support.postgres import PostgresServer
from tests.webhooks.hooked_side import START, HookedSide

Data = dict[str, Any]
SEALED = "Vexilmor"
# What is raised, and by which event; a word of its own stands in all that it covers.
RAISED = {
    "work item": ("Quavolwi", "work_item:2"),
    "page": ("Quavolpa", "wiki:Guide/Raised"),
    "repo": ("Quavolre", "repo:raised"),
    "channel": ("Quavolch", "channel:Crew/Raised"),
    "message": ("Quavolme", "message:Crew/General/m2"),
}
TOLD = {"work item": ("Quavolto", "work_item:3"), "message": ("Quavolsa", "message:Crew/General/m3")}
AFTER = {"in time": 0}


class Sealing(HookedSide):
    """An engine that stores nothing that is sealed."""

    def open(self) -> None:
        """Start with that setting."""
        self.settings = self.settings.model_copy(update={"never_index_label": "Sealed"})
        super().open()


def text(word: str) -> str:
    """A text from which meanings, links and people are derived."""
    return f"# {word}\n\nDCQ means daily currency {word}. Deprecated: replaced by {word} new. See #1."


def numbered(number: int, word: str, **more: Any) -> Data:
    said = [stamp("ben") | {"text": f"{word} said"}]
    links = [{"rel": "related", "to": "work_item:1"}]
    return item(number, title=f"{word} title", description=text(word), comments=said, links=links, **more)


def organization() -> World:
    word = {kind: w for kind, (w, _) in (*RAISED.items(), *(("told " + k, v) for k, v in TOLD.items()))}
    project: Data = {
        "work_items": [
            item(1, title="Open"),
            numbered(2, word["work item"]),
            numbered(3, word["told work item"]),
            numbered(4, SEALED, label="Sealed"),
        ],
        "wikis": {
            "Guide": {
                "pages": {
                    "Open": page("# Open\n\nWords."),
                    "Raised": page(text(word["page"])),
                    "Sealed": page(text(SEALED), label="Sealed"),
                }
            }
        },
        "repos": {
            "raised": {"commits": [commit("r1", note_md=text(word["repo"]))]},
            "sealed": {"label": "Sealed", "commits": [commit("s1", note_md=text(SEALED))]},
        },
    }
    channels: Data = {
        "General": {
            "messages": [
                message("m1", "An open word"),
                message("m2", text(word["message"]), by="ben"),
                message("m3", text(word["told message"]), by="ben"),
                message("m4", text(SEALED), label="Sealed"),
            ]
        },
        "Raised": {"kind": "private", "members": ["ann"], "messages": [message("c1", text(word["channel"]))]},
        "Sealed": {
            "kind": "private",
            "members": ["ann"],
            "label": "Sealed",
            "messages": [message("s1", text(SEALED))],
        },
    }
    teams: Data = {"Crew": {"members": ["ann", "ben"], "channels": channels}}
    return world(project, teams=teams, labels=["Public", "Secret", "Sealed"])


@pytest.fixture(scope="module")
def side(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sealing]:
    """The organization, read whole by an engine that is told of changes."""
    home = Path(tmp_path_factory.mktemp("sandbox"))
    with (
        SandboxServer(organization(), home, remember=False, hooks_clock=FixedClock(START)) as server,
        ingest_side(server, postgres, Sealing) as made,
    ):
        assert isinstance(made, Sealing)
        made.subscribe()
        assert made.settle(1) == []
        yield made


def seal(side: Sealing, what: str) -> None:
    """Raise the label of a thing at its source."""
    state = side.sandbox.state
    with state.lock:
        AFTER["in time"] += 1
        data = {
            "id": f"seal-{AFTER['in time']}",
            "after": f"{AFTER['in time']}m",
            "label": {"on": what, "label": "Sealed"},
        }
        apply_event(state, Event.model_validate(data))


def left_of(side: Sealing, word: str) -> tuple[dict[str, int], list[str]]:
    """Tables and points in which the word still stands."""
    return tables_with(side.database, word), points_with(side.index, word)


@pytest.mark.invariant("INV-6")
def test_what_is_sealed_from_the_start_is_never_stored(side: Sealing) -> None:
    assert left_of(side, SEALED) == ({}, [])
    side.index.writer.flush()
    assert files_with(side.folder, SEALED) == []
    with side.database.connection() as connection:
        kept = connection.execute("SELECT count(*) AS n FROM items WHERE lifecycle = 'live'").fetchone()
    assert kept is not None
    assert kept["n"] >= 9


@pytest.mark.invariant("INV-6")
@pytest.mark.parametrize("kind", TOLD)
def test_a_raised_label_removes_what_was_as_soon_as_the_source_tells_of_it(side: Sealing, kind: str) -> None:
    word, what = TOLD[kind]
    tables, points = left_of(side, word)
    assert tables
    assert points
    side.sandbox.hooks.take()
    seal(side, what)
    side.tell()
    assert side.work()
    assert left_of(side, word) == ({}, [])


@pytest.mark.invariant("INV-6")
@pytest.mark.parametrize("kind", RAISED)
def test_a_raised_label_removes_what_was_with_the_next_sync(side: Sealing, kind: str) -> None:
    word, what = RAISED[kind]
    tables, points = left_of(side, word)
    assert {"items", "glossary"} <= set(tables)
    assert points
    seal(side, what)
    assert side.settle(1) == []
    assert left_of(side, word) == ({}, [])
