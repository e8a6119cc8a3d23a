"""Items as the record holds them: written by the ingestion plane, read under a trim (`graph.reading`).

Life of an item: live ⇄ hidden (its source shows it no longer, nobody sees it; `graph.withholding`) → deleted (a
tombstone that keeps nothing but address, versions and times). An item counts for readers from when the index holds
what the record says.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from psycopg import Connection
from psycopg.rows import DictRow

from core.access import ScopeId
from core.items import Chunk, Item, Source
from graph import codec
from graph.db import Database, clean
from graph.epoch import move_epoch
from graph.leases import still_held
from graph.reading import ItemRow as ItemRow
from graph.versions import is_number, order
from graph.withholding import Withholding
from graph.writing import lock_items, write_chunks, write_item

Chunks = Sequence[Chunk] | Callable[[], Sequence[Chunk]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Upsert:
    """What an upsert found. `outdated`: the record, or a tombstone, is newer; nothing was written.

    `in_index`: the index holds this very content already; `in_place`: and on the scope on which it belongs.
    """

    changed_content: bool = False
    scope_changed: bool = False
    new: bool = False
    outdated: bool = False
    in_index: bool = False
    in_place: bool = False


class ItemStore(Withholding):
    """Items, their chunks, links and names."""

    def __init__(self, db: Database) -> None:
        super().__init__(db)

    def upsert(self, item: Item, chunks: Chunks, *, at: datetime) -> Upsert:
        """Bring the record to what `item` says, people edges and links with it, unless what is known is newer.

        A deleted item comes back only where `item` is newer than its deletion (see `tombstone`), a hidden one at once.
        The same content on the same scope writes nothing. `at` is our own time at which the source showed `item` so:
        numbered versions are ordered by number, and others by their times unless `item` was read later. `chunks` may be
        a function that makes them: it is called only where they are written.
        """

        return self.upsert_all([(item, chunks)], at=at)[0]

    def upsert_all(self, items: Sequence[tuple[Item, Chunks]], *, at: datetime) -> list[Upsert]:
        """`upsert` of several items, no two of one address, in one transaction: all of it is written, or nothing.

        Raises LeaseLostError where the lease was lost under which they were read.
        """

        def work(connection: Connection[DictRow]) -> list[Upsert]:
            names = [item.uri for item, _ in items]
            lock_items(connection, names)
            still_held(connection)
            rows = connection.execute(_KNOWN, [names]).fetchall()
            known = {row["uri"]: row for row in rows}
            return [_bring(connection, item, chunks, known.get(item.uri), at) for item, chunks in items]

        return self._db.retrying(work)

    def digest_of(self, uri: str) -> tuple[str, ScopeId] | None:
        """Digest and scope of an item that is not deleted."""
        row = self._one("SELECT digest, scope FROM items WHERE uri = %s AND lifecycle <> 'deleted'", uri)
        return (row["digest"], ScopeId(row["scope"])) if row else None

    def tombstone(
        self,
        uris: Collection[str],
        *,
        at: datetime,
        reason: str,
        stated: bool = True,
        version: str | None = None,
        deleted_at: datetime | None = None,
    ) -> int:
        """Delete items and everything that is derived from them, in one transaction; return how many there were.

        `stated`: the source said so; then only a newer version brings an item back: newer than `version` or
        `deleted_at` where the source told them, else than what we had. Otherwise it was concluded (a list lacks it, a
        label forbids it), and being read again at the version we had will do. A stated deletion with a version or
        time is kept for items that never came, too: they may be on their way.
        """
        names = sorted(set(uris))

        def work(connection: Connection[DictRow]) -> int:
            lock_items(connection, names)
            still_held(connection)
            values = {
                "uris": names,
                "at": at,
                "reason": clean(reason),
                "stated": stated,
                "version": version,
                "deleted_at": deleted_at,
            }
            gone = [r["uri"] for r in connection.execute(_BURY, values).fetchall()]
            for statement in _FORGET:
                connection.execute(statement, [gone])
            if stated:
                connection.execute(_CONFIRM, values)
                if version is not None or deleted_at is not None:
                    connection.execute(_FORESTALL, values)
            if gone:
                move_epoch(connection)
            return len(gone)

        return self._db.retrying(work)

    def record_indexed(self, uri: str, digest: str) -> None:
        """The index holds the item with this content on its present scope. Without effect where the record has moved
        on meanwhile."""
        self.record_all_indexed({uri: digest})

    def record_all_indexed(self, digests: Mapping[str, str]) -> None:
        """`record_indexed` of several items (digest by address), in one transaction."""
        if not digests:
            return
        uris = sorted(digests)
        with self._db.connection() as connection:
            connection.execute(_INDEXED, [uris, [digests[uri] for uri in uris]])

    def record_removed(self, uris: Collection[str]) -> None:
        """The index no longer holds these deleted items."""
        with self._db.connection() as connection:
            connection.execute(
                "UPDATE items SET index_cleared = true WHERE uri = ANY(%s) AND lifecycle = 'deleted'", [sorted(uris)]
            )

    def not_indexed(self, source: Source | None = None) -> Iterator[str]:
        """Live items with which the index is behind, and deleted ones that it still holds (those have no `body`), by
        address, of one source or all. For hidden ones see `Withholding.not_withheld`."""
        with self._db.connection() as connection:
            rows = connection.execute(_BEHIND, {"source": source.value if source else None}).fetchall()
        return iter([r["uri"] for r in rows])

    def forget_index(self) -> None:
        """The index is empty or lost: every item is to be indexed again, and is shown again when it was."""
        with self._db.connection() as connection:
            connection.execute(
                "UPDATE items SET indexed_digest = NULL, indexed_scope = NULL, index_cleared = true "
                "WHERE indexed_digest IS NOT NULL OR NOT index_cleared"
            )

    def body(self, uri: str) -> tuple[Item, tuple[Chunk, ...]] | None:
        """The item with its text, and its chunks, to build the index again; None where it is deleted or unknown."""
        with self._db.connection() as connection:
            row = connection.execute(
                "SELECT body, scope FROM items WHERE uri = %s AND lifecycle <> 'deleted'", [uri]
            ).fetchone()
            if row is None:
                return None
            chunks = connection.execute("SELECT * FROM chunks WHERE uri = %s ORDER BY ordinal", [uri]).fetchall()
        return codec.decode(row["body"], ScopeId(row["scope"])), tuple(_chunk(r) for r in chunks)

    def replace_chunks(self, uri: str, chunks: Sequence[Chunk]) -> None:
        """Cut an item otherwise: the same content in other chunks. Nobody sees it until the index has them."""

        def work(connection: Connection[DictRow]) -> None:
            lock_items(connection, [uri])
            changed = connection.execute(
                "UPDATE items SET chunk_digests = %s, indexed_digest = NULL WHERE uri = %s AND lifecycle <> 'deleted'",
                [[c.digest for c in chunks], uri],
            ).rowcount
            if changed:
                connection.execute("DELETE FROM chunks WHERE uri = %s", [uri])
                write_chunks(connection, uri, chunks)

        self._db.retrying(work)

    def uris(self, source: Source) -> set[str]:
        """Items of a source that are not deleted, hidden ones too: what its own list is held against."""
        with self._db.connection() as connection:
            rows = connection.execute(
                "SELECT uri FROM items WHERE source = %s AND lifecycle <> 'deleted'", [source.value]
            ).fetchall()
        return {r["uri"] for r in rows}

    def _one(self, statement: str, uri: str) -> DictRow | None:
        with self._db.connection() as connection:
            return connection.execute(statement, [uri]).fetchone()


def _bring(connection: Connection[DictRow], item: Item, chunks: Chunks, old: DictRow | None, at: datetime) -> Upsert:
    """Write one item in a transaction that holds its lock; `old` is its row, None where it has none."""
    if old is not None and _outdated(item, old, at):
        return Upsert(outdated=True)
    digest = item.digest
    known = old is not None and old["lifecycle"] != "deleted"
    same_content = known and old is not None and old["digest"] == digest
    same_scope = known and old is not None and old["scope"] == item.scope
    if not same_content:
        made = chunks() if callable(chunks) else chunks
        write_item(connection, item, made, digest=digest, at=at)
    elif old is not None and (not same_scope or old["lifecycle"] != "live" or old["version"] != item.version):
        connection.execute(
            "UPDATE items SET scope = %(scope)s, lifecycle = 'live', reason = NULL, version = %(version)s, misses = 0, "
            "missed_at = NULL, body = jsonb_set(body, '{version}', to_jsonb(%(version)s::text)) WHERE uri = %(uri)s",
            {"scope": item.scope, "version": item.version, "uri": item.uri},
        )
    if known and old is not None and (not same_scope or old["lifecycle"] != "live"):
        move_epoch(connection)
    return Upsert(
        changed_content=not same_content,
        scope_changed=known and not same_scope,
        new=not known,
        in_index=same_content and old is not None and old["indexed_digest"] == digest,
        in_place=same_scope and old is not None and old["indexed_scope"] == item.scope,
    )


def _outdated(item: Item, old: DictRow, at: datetime) -> bool:
    """Whether what is known is newer than `item`; what is deleted stays so unless `item` proves to be newer."""
    numbered = is_number(item.version) and is_number(old["version"])
    if old["lifecycle"] != "deleted" or not old["deletion_stated"]:
        older = order(item.version, item.modified_at, old["version"], old["modified_at"]) == -1
        # Times can run backwards for good reasons (a branch that was reset, a reply that was removed). Then what was
        # read later is the truth; what comes with an earlier reading is an echo.
        return older and (numbered or at <= old["ingested_at"])
    since = old["deleted_at"] or old["modified_at"]
    newer = order(item.version, item.modified_at, old["deletion_version"] or old["version"], since) == 1
    if newer and old["deletion_version"] is None and old["deleted_at"] is not None and item.modified_at is not None:
        # The deletion's own version is not known, so a higher number alone does not show that this came after it.
        newer = item.modified_at > old["deleted_at"]
    if not newer and not numbered and old["deleted_at"] is None and old["deletion_version"] is None:
        # No order at all. A state that we never had, read after the deletion, is no echo of what was deleted.
        newer = item.version != old["version"] and at > old["noticed_at"]
    return not newer


_KNOWN: Final = """
    SELECT uri, lifecycle, digest, scope, version, modified_at, ingested_at, noticed_at, deleted_at, deletion_stated,
        deletion_version, indexed_digest, indexed_scope FROM items WHERE uri = ANY(%s)
"""
_BEHIND: Final = """
    SELECT uri FROM (
        SELECT uri, source FROM items WHERE lifecycle = 'live' AND
            (indexed_digest IS DISTINCT FROM digest OR indexed_scope IS DISTINCT FROM scope)
        UNION ALL SELECT uri, source FROM items WHERE NOT index_cleared
    ) behind WHERE %(source)s::text IS NULL OR source = %(source)s ORDER BY uri
"""
_INDEXED: Final = """
    UPDATE items i SET indexed_digest = i.digest, indexed_scope = i.scope
    FROM unnest(%s::text[], %s::text[]) AS held (uri, digest)
    WHERE i.uri = held.uri AND i.lifecycle <> 'deleted' AND held.digest IN (i.digest, i.stored_digest)
"""
_BURY: Final = """
    UPDATE items SET lifecycle = 'deleted', reason = %(reason)s, noticed_at = %(at)s, deleted_at = %(deleted_at)s,
        deletion_stated = %(stated)s, deletion_version = %(version)s, index_cleared = false,
        digest = NULL, stored_digest = NULL, indexed_digest = NULL, indexed_scope = NULL,
        title = '', title_folded = '', url = '', url_key = '', created_at = NULL, validated_at = NULL,
        author_name = NULL, author = NULL, owner_name = NULL, owner = NULL, state = NULL, container = '',
        container_folded = '', number = NULL, label = NULL, replaced_by = '{}', replaced_by_keys = '{}',
        attributes = '{}', body = NULL, chunk_digests = '{}'
    WHERE uri = ANY(%(uris)s) AND lifecycle <> 'deleted' RETURNING uri
"""
_CONFIRM: Final = """
    UPDATE items SET deletion_stated = true, deletion_version = coalesce(%(version)s, deletion_version),
        deleted_at = coalesce(%(deleted_at)s, deleted_at)
    WHERE uri = ANY(%(uris)s) AND lifecycle = 'deleted'
"""
_FORESTALL: Final = """
    INSERT INTO items (uri, lifecycle, reason, source, kind, scope, version, ingested_at, noticed_at, deleted_at,
        deletion_stated, deletion_version)
    SELECT uri, 'deleted', %(reason)s, '', '', '', coalesce(%(version)s, ''), %(at)s, %(at)s, %(deleted_at)s, true,
        %(version)s
    FROM unnest(%(uris)s::text[]) AS uri
    ON CONFLICT DO NOTHING
"""
_FORGET: Final = (
    "DELETE FROM chunks WHERE uri = ANY(%s)",
    "DELETE FROM item_aliases WHERE uri = ANY(%s)",
    "DELETE FROM links WHERE uri = ANY(%s)",
    "DELETE FROM edges WHERE uri = ANY(%s)",
    "DELETE FROM glossary WHERE uri = ANY(%s)",
    "DELETE FROM supersessions WHERE uri = ANY(%s)",
)


def _chunk(row: DictRow) -> Chunk:
    return Chunk(
        uri=row["uri"],
        ordinal=row["ordinal"],
        heading=tuple(row["heading"]),
        text=row["text"],
        embedded_text=row["embedded_text"],
        part_uris=tuple(row["part_uris"]),
    )
