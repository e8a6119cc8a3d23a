"""Where a word still stands: in every column of every table, in every payload of the index, in files of the stores."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import qdrant_edge as q

from core.index.edge import EdgeIndex
from graph.db import Database


def tables_with(database: Database, word: str, *, without: Iterable[str] = ()) -> dict[str, int]:
    """How many rows of each table hold the word, in any case, in any column."""
    with database.connection() as connection:
        names = [
            r["tablename"]
            for r in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1")
        ]
        found = {}
        for name in names:
            row = connection.execute(
                f"SELECT count(*) AS n FROM {name} AS one WHERE one::text ILIKE %s",  # type: ignore[arg-type]
                [f"%{word}%"],
            ).fetchone()
            assert row is not None
            if row["n"] and name not in set(without):
                found[name] = row["n"]
    return found


def points_with(index: EdgeIndex, word: str) -> list[str]:
    """Addresses of the items whose points hold the word."""
    found: set[str] = set()
    offset = None
    while True:
        request = q.ScrollRequest(offset=offset, limit=1000, with_payload=True, with_vector=False)
        records, offset = index.writer._shard.run(lambda shard, r=request: shard.scroll(r))
        for record in records:
            payload = dict(record.payload or {})
            if word.casefold() in json.dumps(payload, ensure_ascii=False, default=str).casefold():
                found.add(str(payload["uri"]))
        if offset is None:
            return sorted(found)


def files_with(folder: Path, word: str) -> list[str]:
    """Files below a folder that hold the word as it is written, or in lower case."""
    wanted = {word.encode(), word.lower().encode()}
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and any(w in path.read_bytes() for w in wanted)
    )
