"""An erased item or person is in no store any more, not on the disk either, and does not come back."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from context_engine import cli
from context_engine.commands.erase import Subject, carry_out, subject_of
from context_engine.embedded import EmbeddedEngine
from context_engine.running import Running, announced
from core import principals
from core.errors import InputError, StoreUnavailableError
from core.principals import Principal
from graph.erasures import ErasureStore
from graph.leases import LeaseStore
from graph.records import ItemStore
from tests.sandbox import small
from tests.sandbox.small import PEOPLE, TENANT, allow, commit, item, message, stamp
from tests.support.canary import files_with, points_with, tables_with
from tests.support.quick_embedder import QuickEmbedder

WORD = "Quoxalitem"
# Who is to be erased, by every name and address that the sources have of them, and a word that only they use.
FIRST, LAST, LOGIN, POST, SAID = "Quoxalia", "Vombrecht", "qvombrecht", "Quoxalpost", "Quoxalsaid"
NAME = f"{FIRST} {LAST}"
WAYS = (NAME, f"{LAST}, {FIRST}", f"{LOGIN}@small.example", LOGIN, f"{FIRST}.{LAST}", f"{FIRST}%20{LAST}")
# No one of these may be left; a first name alone may be anybody's.
TRACES = (LAST, LOGIN, POST, SAID)
AUDIT = ("audit",)


def _world() -> Any:
    people = {**PEOPLE, "qux": {"name": NAME, "upn": f"{LOGIN}@small.example", "title": POST, "manager": "ann"}}
    people["ben"] = {**PEOPLE["ben"], "manager": "qux"}
    groups = {**small.GROUPS, "staff": {"name": "Staff", "members": ["ann", "qux", "group:inner"]}}
    named = "\n\n".join(f"Ask {way} about it." for way in WAYS)
    project = {
        "acl": allow("group:staff"),
        "work_items": [
            item(
                1,
                title=f"Ask {NAME}",
                description=f"Written down. {named}",
                created=stamp("qux"),
                assigned="qux",
                tags=[LAST],
                comments=[
                    stamp("qux") | {"text": f"{SAID} in a comment. DCQ means daily currency {SAID}."},
                    stamp("ben") | {"text": f"{NAME} is right, and so on.\n\nDCV means daily currency {LAST}."},
                ],
            ),
            item(2, description=f"WRQ means word reading {WORD}.", title=f"{WORD} title"),
            item(3, description="See #2."),
        ],
        "wikis": {
            "Guide": {
                "pages": {"Start": {"revisions": [stamp("qux") | {"content": f"# Start\n\nOwner: {NAME}\n\n{named}"}]}}
            }
        },
        "repos": {
            "engine": {
                "commits": [
                    {**commit("c1", a_py=f"# by {NAME}\nx = 1\n"), "by": "qux", "message": f"Begin, says {NAME}"},
                    stamp("qux") | {"key": "c2", "message": "Try", "branch": "topic", "files": {"d.py": "x = 1\n"}},
                ],
                "pull_requests": [
                    {
                        "id": 1,
                        "title": "Round up",
                        "description": f"Rounds up, with {NAME}",
                        "created": stamp("qux"),
                        "source": "topic",
                        "target": "main",
                        "reviewers": [{"who": "qux", "vote": 10}],
                        "threads": [
                            {"comments": [stamp("qux") | {"text": f"{SAID} here"}, stamp("ben") | {"text": "No."}]}
                        ],
                    }
                ],
            }
        },
    }
    teams = {
        "Crew": {
            "members": ["ann", "ben", "qux"],
            "channels": {
                "General": {
                    "messages": [
                        message("m1", f"{SAID}: who knows?", by="qux", replies=[message("r1", "I do.", by="ben")]),
                        message(
                            "m2",
                            f"A question for {NAME}",
                            by="ann",
                            replies=[message("r2", f"{SAID} it is.", by="qux"), message("r3", "Thanks.", by="ann")],
                        ),
                        message("m3", f"{SAID} alone", by="qux"),
                    ]
                }
            },
        }
    }
    return small.world(project, teams=teams, people=people, groups=groups)


@dataclass
class Home:
    """An engine on a data folder of its own."""

    folder: Path
    engine: EmbeddedEngine


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A synced engine with stores of its own, whose files can be looked into."""
    folder = tmp_path_factory.mktemp("home")
    with EmbeddedEngine(data=folder, world=_world(), embedder=QuickEmbedder()) as engine:
        synced(engine)
        assert {t for t in TRACES if tables_with(engine.database, t)} == set(TRACES)
        assert {t for t in (LAST, SAID, WORD) if points_with(_edge(engine), t)} == {LAST, SAID, WORD}
        for trace in (*TRACES, WORD):
            assert held(folder, (trace,)), trace
        yield Home(folder, engine)


@pytest.fixture
def untidy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files are left as they are: writing them anew takes its time, and others look into them."""
    monkeypatch.setattr(sys.modules[carry_out.__module__], "clear_disk", lambda *_: [])


def synced(engine: EmbeddedEngine) -> None:
    """A whole sync, with everything read anew."""
    engine.read_anew()
    assert {r.state for r in engine.sync()} == {"complete"}


def _edge(engine: EmbeddedEngine) -> Any:
    """The embedded index behind its two halves."""

    class Held:
        writer = engine.index.writer

    return Held


def qux(engine: EmbeddedEngine) -> Principal:
    """The person who is erased."""
    assert engine.sandbox is not None
    return principals.user(TENANT, engine.sandbox.state.oid("qux"))


def held(folder: Path, words: tuple[str, ...]) -> dict[str, list[str]]:
    """Files of the stores in which one of these words still stands."""
    found = {word: [f for f in files_with(folder, word) if f.startswith(("postgres/", "qdrant/"))] for word in words}
    return {word: files for word, files in found.items() if files}


# The tests of this module build upon each other: first the item goes, then the person.


def test_an_erased_item_is_in_no_store(home: Home, untidy: None) -> None:
    engine = home.engine
    subject = subject_of(engine, "AB#2")
    assert subject.item == "ctx://ado/small/work-items/2"
    (erasure,), _ = carry_out(engine, subject, home.folder)
    gone = erasure.receipt["gone"]
    assert gone["postgres: items"] == 1
    assert gone["postgres: rows of glossary"] == 1
    assert gone["index: points"] >= 1
    assert tables_with(engine.database, WORD) == {}
    assert points_with(_edge(engine), WORD) == []
    # What links to it is still there.
    assert ItemStore(engine.database).body("ctx://ado/small/work-items/3") is not None


def test_an_erased_person_is_named_in_no_store_and_nothing_that_was_erased_is_left_on_the_disk(home: Home) -> None:
    engine = home.engine
    before = _others(engine)
    # Somebody cut the first try short, after items were withheld.
    eraser_dies(engine)
    assert ErasureStore(engine.database).all(unfinished=True)
    (erasure,), disk = carry_out(engine, None, home.folder)
    assert erasure.receipt["gone"]["postgres: messages, replies and comments"] == 5
    assert NAME not in json.dumps(erasure.receipt)
    assert ErasureStore(engine.database).all(unfinished=True) == []
    assert sum("anew" in told for told in disk) == 3
    _nobody(engine)
    assert _others(engine) == before
    assert held(home.folder, (*TRACES, WORD)) == {}


def test_a_whole_sync_brings_nothing_back(home: Home) -> None:
    engine = home.engine
    before = _others(engine)
    synced(engine)
    _nobody(engine)
    assert tables_with(engine.database, WORD) == {}
    assert points_with(_edge(engine), WORD) == []
    assert _others(engine) == before
    _documents_stay(engine)
    # They still belong where they belong, as long as the source lists them.
    who = qux(engine)
    with engine.database.connection() as connection:
        row = connection.execute("SELECT name, upn, title FROM people WHERE principal = %s", [who]).fetchone()
        groups = connection.execute("SELECT 1 FROM memberships WHERE member = %s", [who]).fetchall()
    assert row == {"name": "[erased]", "upn": None, "title": None}
    assert groups
    assert held(home.folder, (*TRACES, WORD)) == {}


def eraser_dies(engine: EmbeddedEngine) -> None:
    """Begin to erase the person, and die when everything is withheld and nothing rewritten."""
    from context_engine.wiring import build_eraser

    class Died(BaseException):
        pass

    eraser = build_eraser(engine.settings, engine.database, engine.index, engine.embedder)

    def die(*_: object) -> None:
        raise Died

    eraser._rewrite = die  # type: ignore[method-assign]
    subject = subject_of(engine, f"{LOGIN}@small.example", also=[LAST])
    assert subject.person == qux(engine)
    eraser.register_person(subject.person, addresses=subject.addresses, also=subject.also)
    with pytest.raises(Died):
        eraser.finish()
    with engine.database.connection() as connection:
        # Nobody is shown a word of theirs from here on.
        shown = connection.execute("SELECT body::text AS body FROM items WHERE shown").fetchall()
    assert shown
    assert not [r for r in shown if any(t in r["body"] for t in (LAST, SAID))]


def _nobody(engine: EmbeddedEngine) -> None:
    for trace in TRACES:
        assert tables_with(engine.database, trace, without=AUDIT) == {}, trace
        assert points_with(_edge(engine), trace) == [], trace
    with engine.database.connection() as connection:
        who = qux(engine)
        assert connection.execute("SELECT 1 FROM edges WHERE person = %s", [who]).fetchall() == []
        assert connection.execute("SELECT 1 FROM items WHERE author = %s OR owner = %s", [who, who]).fetchall() == []
        shown = connection.execute("SELECT bool_and(shown) AS all FROM items WHERE lifecycle <> 'deleted'").fetchone()
    assert shown == {"all": True}


def _others(engine: EmbeddedEngine) -> list[tuple[str, str]]:
    """What others said, item by item."""
    with engine.database.connection() as connection:
        rows = connection.execute("SELECT uri, name, role FROM edges WHERE name <> %s", [NAME]).fetchall()
    return sorted((r["uri"], f"{r['name']} {r['role']}") for r in rows)


def _documents_stay(engine: EmbeddedEngine) -> None:
    """Whatever they wrote that is no word in a talk is there, without them."""
    store = ItemStore(engine.database)
    with engine.database.connection() as connection:
        uris = [r["uri"] for r in connection.execute("SELECT uri FROM items WHERE lifecycle = 'live' ORDER BY uri")]
    bodies = {uri: body[0] for uri in uris if (body := store.body(uri)) is not None}
    texts = {uri: "\n".join(p.text for p in one.parts) for uri, one in bodies.items()}
    assert "Ask [erased] about it." in texts["ctx://ado/small/work-items/1"]
    assert bodies["ctx://ado/small/work-items/1"].title == "Ask [erased]"
    assert any(uri.endswith("a.py") and "x = 1" in text for uri, text in texts.items())
    assert any("/pull-requests/" in uri and "No." in text for uri, text in texts.items())
    threads = {uri: text for uri, text in texts.items() if "/channels/" in uri}
    assert sorted(threads.values()) == ["A question for [erased]\nThanks.", "I do."]
    assert sorted(bodies[uri].title for uri in threads) == ["A question for [erased]", "[erased]"]


def test_what_is_asked_for_twice_changes_nothing(home: Home, untidy: None) -> None:
    engine = home.engine
    _, first = _table_state(engine)
    carry_out(engine, Subject(says="", person=qux(engine)), home.folder)
    _nobody(engine)
    _, again = _table_state(engine)
    assert first == again


def _table_state(engine: EmbeddedEngine) -> tuple[int, list[Any]]:
    with engine.database.connection() as connection:
        rows = connection.execute("SELECT uri, digest, lifecycle FROM items ORDER BY uri").fetchall()
    return len(rows), rows


def test_an_item_that_is_withheld_is_rewritten_and_stays_withheld(home: Home) -> None:
    """Its source refuses it for now: an erasure does not show it, and once it is back it is without them."""
    engine = home.engine
    items, erasures = ItemStore(engine.database), ErasureStore(engine.database)
    uri = "ctx://ado/small/work-items/3"
    body = items.body(uri)
    assert body is not None
    items.hide_all([uri], "refused", engine.clock.now())
    assert erasures.rewrite_hidden(body[0], body[1])
    with engine.database.connection() as connection:
        row = connection.execute("SELECT lifecycle, reason, shown FROM items WHERE uri = %s", [uri]).fetchone()
    assert row == {"lifecycle": "hidden", "reason": "refused", "shown": False}
    connector = engine.connectors[1]
    reader = next(r for r in connector.readers() if r.name == "work_items")
    assert engine.synchronizer.read_items(connector, reader, [uri]).state == "complete"
    with engine.database.connection() as connection:
        row = connection.execute("SELECT lifecycle, shown FROM items WHERE uri = %s", [uri]).fetchone()
    assert row == {"lifecycle": "live", "shown": True}
    assert not erasures.rewrite_hidden(body[0], body[1])


def test_while_another_process_writes_the_erasure_waits_and_is_written_down(home: Home, untidy: None) -> None:
    engine = home.engine
    with ExitStack() as stack:
        lease = LeaseStore(engine.database).acquire("azure_devops/wikis", "worker 7", timedelta(minutes=5))
        assert lease is not None
        stack.callback(lease.release)
        uri = "ctx://ado/small/work-items/99"
        with pytest.raises(StoreUnavailableError, match=r"azure_devops/wikis is still being read by worker 7"):
            carry_out(engine, Subject(says="", item=uri), home.folder, patience=0)
        store = ErasureStore(engine.database)
        assert store.refuses([uri, "ctx://other"]) == {uri}
        assert [e.subject for e in store.all(unfinished=True)] == [uri]
        lease.release()
        (done,), _ = carry_out(engine, None, home.folder)
        assert done.subject == uri
        assert carry_out(engine, None, home.folder) == ([], [])


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("ctx://ado/small/work-items/1/comments/1", "the address of a part"),
        ("nobody@small.example", "no source lists such an account"),
        ("AB#4711", "no item of the record answers to that"),
    ],
)
def test_who_or_what_can_t_be_told_is_refused_before_anything_happens(what: str, says: str, home: Home) -> None:
    engine = home.engine
    with pytest.raises(InputError, match=says):
        subject_of(engine, what)
    assert subject_of(engine, "person:ann", {"ann": Principal("user:t/ann")}).person == "user:t/ann"


def test_the_command_refuses_beside_a_serving_engine_and_without_a_subject(tmp_path: Path) -> None:
    where = ["--data", str(tmp_path)]
    with announced(tmp_path, Running(1, "http://127.0.0.1:9", None)):
        beside = CliRunner().invoke(cli.app, ["erase", "AB#1", "--yes", *where])
    assert "owns its index" in str(beside.exception)
    for wrong in (["erase"], ["erase", "AB#1", "--resume"], ["erase", "AB#1", "--json"]):
        assert CliRunner().invoke(cli.app, [*wrong, *where]).exit_code != 0
