"""An export can be verified without the database, and a table of it opened without harm."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from core.errors import InputError
from graph.audit_erasure import AuditWords
from graph.audit_export import COLUMNS, About, read_jsonl, verifier_of, write_csv, write_jsonl
from graph.audit_reading import EVERYTHING, AuditReader, Selection
from graph.audit_verify import Fault, Link, Verdict, verify
from graph.db import Database
from tests.audit.support import ANN, BEN, appended, entries_of
from tests.audit.test_words_go import ERASED


def exported(db: Database, selection: Selection = EVERYTHING) -> list[str]:
    """The lines of an export."""
    out = io.StringIO()
    with AuditReader(db).snapshot() as log:
        about = About(log.anchor(), log.head(), selection.is_everything)
        write_jsonl(out, about, log.entries(selection))
    return io.StringIO(out.getvalue()).readlines()


def checked(lines: list[str], kept: Link | None = None) -> Verdict:
    """What verification says of an export."""
    about, entries = read_jsonl(lines)
    return verify(entries, verifier_of(about, kept))


@pytest.fixture
def log(query_db: Database, ingest_db: Database, audit_db: Database) -> Database:
    """A log of two people, one without words."""
    appended(query_db, 1, asker=ANN)
    appended(query_db, 3, asker=BEN, interpreted_as='odd \u2028 "words",\r\n\t’ 🐢', agent="=cmd()")
    AuditWords(ingest_db).forget_people(ERASED)
    return audit_db


def test_what_was_exported_comes_back_as_it_was_and_holds(log: Database) -> None:
    lines = exported(log)
    assert list(read_jsonl(lines)[1]) == entries_of(log)
    verdict = checked(lines)
    assert verdict.holds
    assert (verdict.entries, verdict.erased, verdict.head.seq) == (5, 1, 5)
    assert checked(lines, Link(2, entries_of(log)[1].hash)).holds


def test_a_selection_is_held_entry_by_entry(log: Database) -> None:
    lines = exported(log, Selection(asker=BEN))
    assert {e.asker for e in read_jsonl(lines)[1]} == {BEN}
    assert checked(lines).holds
    now = datetime.now(UTC)
    assert len(exported(log, Selection(until=now - timedelta(hours=1)))) == 1
    assert len(exported(log, Selection(since=now - timedelta(hours=1), until=now + timedelta(hours=1)))) == 6


def rewritten(line: str, **values: Any) -> str:
    return json.dumps(json.loads(line) | values) + "\n"


ATTACKS: dict[str, tuple[Callable[[list[str]], list[str]], set[Fault]]] = {
    "a word": (lambda x: [*x[:3], rewritten(x[3], interpreted_as="other"), *x[4:]], {Fault.WORDS_CHANGED}),
    "an asker": (lambda x: [*x[:3], rewritten(x[3], asker="user:t/eve"), *x[4:]], {Fault.CHANGED}),
    "a line less": (lambda x: [*x[:3], *x[4:]], {Fault.MISSING}),
    "no end": (lambda x: x[:-1], {Fault.END_MISSING, Fault.WORDS_GONE}),
    "a line twice": (lambda x: [*x[:3], x[2], *x[3:]], {Fault.OUT_OF_PLACE}),
    "two swapped": (lambda x: [*x[:2], x[3], x[2], *x[4:]], {Fault.MISSING, Fault.OUT_OF_PLACE}),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_change_of_an_export_is_found(log: Database, attack: str) -> None:
    change, faults = ATTACKS[attack]
    assert faults <= {f.fault for f in checked(change(exported(log))).findings}


def test_a_change_of_a_selection_is_found(log: Database) -> None:
    lines = exported(log, Selection(asker=BEN))
    lines[2] = rewritten(lines[2], outcome="failed")
    assert [f.fault for f in checked(lines).findings] == [Fault.CHANGED]


@pytest.mark.parametrize(
    "lines",
    [
        [],
        ["x"],
        ["[]"],
        ["{}"],
        ['{"format": "other"}'],
        ['{"format": "context-engine audit 1", "anchor": "0:0", "head": "x"}'],
    ],
)
def test_what_is_no_export_is_refused(lines: list[str]) -> None:
    with pytest.raises(InputError):
        read_jsonl(lines)


@pytest.mark.parametrize(
    "line",
    ["x", "[]", "{}", "null", '{"seq": 1}', json.dumps(dict.fromkeys(COLUMNS)), json.dumps(dict.fromkeys(COLUMNS, 1))],
)
def test_a_line_that_is_no_entry_is_named(log: Database, line: str) -> None:
    with pytest.raises(InputError) as caught:
        checked([*exported(log)[:2], line])
    assert caught.value.where == "line 3"


def test_a_table_holds_every_column_and_no_formula(log: Database) -> None:
    out = io.StringIO(newline="")
    with AuditReader(log).snapshot() as snapshot:
        assert write_csv(out, snapshot.entries()) == 5
    rows = list(csv.DictReader(io.StringIO(out.getvalue(), newline="")))
    assert tuple(rows[0]) == COLUMNS
    assert rows[1]["agent"] == "'=cmd()"
    assert json.loads(rows[1]["uris"]) == ["ctx://a", "ctx://b"]
    assert rows[0]["interpreted_as"] == ""
    assert [r["hash"] for r in rows] == [e.hash for e in entries_of(log)]
