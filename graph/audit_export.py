"""The audit log as a file: JSON Lines, which can be verified later without the database, or CSV for a spreadsheet.

The first line of JSON Lines is about the file: format, the anchor that the entries hang on, the head of the log when it
was written, and whether it holds every entry. Each further line is one entry with all that its hash covers. `checks`
and `detail` are JSON in a string, since the hash covers them letter by letter.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from decimal import Decimal
from typing import IO, Any, Final

from core.errors import InputError
from graph.audit_chain import FORMAT, ChainedEntry
from graph.audit_verify import Link, Verifier

COLUMNS: Final = tuple(f.name for f in fields(ChainedEntry))
# A cell that begins with one of these would be worked out as a formula by a spreadsheet.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class About:
    """What an export says of itself. `whole`: every entry from the anchor to the head."""

    anchor: Link
    head: Link
    whole: bool


def write_jsonl(out: IO[str], about: About, entries: Iterable[ChainedEntry]) -> int:
    """Write an export that can be verified; how many entries it has."""
    first = {"format": FORMAT, "anchor": str(about.anchor), "head": str(about.head), "whole": about.whole}
    out.write(json.dumps(first) + "\n")
    written = 0
    for entry in entries:
        out.write(json.dumps(as_json(entry), ensure_ascii=False) + "\n")
        written += 1
    return written


def write_csv(out: IO[str], entries: Iterable[ChainedEntry]) -> int:
    """Write a table; how many entries it has. Lists stand as JSON. A cell that a spreadsheet would take for a formula
    gets an apostrophe before it."""
    table = csv.writer(out)
    table.writerow(COLUMNS)
    written = 0
    for entry in entries:
        row = as_json(entry) | {"uris": json.dumps(list(entry.uris), ensure_ascii=False)}
        table.writerow([_cell(row[name]) for name in COLUMNS])
        written += 1
    return written


def read_jsonl(lines: Iterable[str]) -> tuple[About, Iterator[ChainedEntry]]:
    """What an export says of itself, and its entries. Raises InputError for a file that is none, at once or on the way,
    which names the line."""
    numbered = enumerate(lines, start=1)
    first = _parsed(*next(numbered, (1, "")))
    if first.get("format") != FORMAT:
        raise InputError("that is no export of an audit log", where="line 1", mend="Give one made as jsonl")
    about = About(Link.parse(str(first.get("anchor"))), Link.parse(str(first.get("head"))), first.get("whole") is True)
    return about, (_entry(number, line) for number, line in numbered if line.strip())


def verifier_of(about: About, kept: Link | None) -> Verifier:
    """What looks at an export: at the whole chain where it has that, else at each entry and what follows it."""
    if about.whole:
        return Verifier(anchor=about.anchor, head=about.head, kept=kept)
    return Verifier(kept=kept, contiguous=False)


def as_json(entry: ChainedEntry) -> dict[str, Any]:
    """An entry as it is exported."""
    return {name: _plain(getattr(entry, name)) for name in COLUMNS}


def _plain(value: Any) -> Any:
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat(timespec="microseconds")
        case Decimal():
            return f"{value:.3f}"
        case bytes():
            return value.hex()
        case tuple():
            return list(value)
    return value


def _entry(number: int, line: str) -> ChainedEntry:
    row = _parsed(number, line)
    try:
        if set(row) != set(COLUMNS) or not isinstance(row["uris"], list):
            raise ValueError("not the fields of an entry")
        return ChainedEntry(
            **row
            | {
                "seq": int(row["seq"]),
                "recorded_at": datetime.fromisoformat(row["recorded_at"]),
                "at": datetime.fromisoformat(row["at"]),
                "salt": bytes.fromhex(row["salt"]) if row["salt"] is not None else None,
                "uris": tuple(row["uris"]),
                "latency_ms": Decimal(row["latency_ms"]),
            }
        )
    except (ValueError, TypeError, ArithmeticError) as e:
        raise InputError("that is no entry of an audit log", where=f"line {number}") from e


def _parsed(number: int, line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as e:
        raise InputError("that is no JSON", where=f"line {number}") from e
    if not isinstance(row, dict):
        raise InputError("that is no entry of an audit log", where=f"line {number}")
    return row


def _cell(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
