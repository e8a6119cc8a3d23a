"""Writes one item's rows: columns for looking up, the whole of it as JSON, its chunks, names, links and people."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, Final

from psycopg import Connection
from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from core import uris
from core.items import Chunk, Item
from graph import codec
from graph.db import clean
from graph.edges import write_edges
from graph.visible import fold, folded, looks_like_url, url_key

# The first half of the key of an item's advisory lock.
_ITEM_LOCK: Final = 0x6974656D


def lock_items(connection: Connection[DictRow], names: Collection[str]) -> None:
    """Let one writer at a time work on each of these items, there or not yet, in one order for all."""
    connection.execute(
        "SELECT pg_advisory_xact_lock(%s, hashtext(uri)) FROM "
        "(SELECT uri FROM unnest(%s::text[]) AS uri ORDER BY hashtext(uri)) sorted",
        [_ITEM_LOCK, list(names)],
    )


def write_item(
    connection: Connection[DictRow], item: Item, chunks: Sequence[Chunk], *, digest: str, at: datetime
) -> None:
    """Insert or replace the item and everything that it states itself. `digest` is that of the item as it came."""
    body = codec.encode(item)
    stored = codec.decode(body, item.scope)
    values: dict[str, Any] = {
        "uri": item.uri,
        "source": item.source.value,
        "kind": item.kind.value,
        "scope": item.scope,
        "version": stored.version,
        "modified_at": item.modified_at,
        "digest": digest,
        "stored_digest": stored.digest,
        "at": at,
        "title": stored.title,
        "title_folded": fold(stored.title),
        "url": stored.url,
        "url_key": url_key(stored.url),
        "created_at": item.created_at,
        "validated_at": item.validated_at,
        "author_name": stored.author.name if stored.author else None,
        "author": stored.author.principal if stored.author else None,
        "owner_name": stored.owner.name if stored.owner else None,
        "owner": stored.owner.principal if stored.owner else None,
        "authority": item.authority.value,
        "state": stored.state,
        "container": stored.container,
        "container_folded": fold(stored.container),
        "number": stored.number,
        "label": stored.label,
        "deprecated": item.deprecated,
        "replaced_by": list(stored.replaced_by),
        "replaced_by_keys": _names(stored.replaced_by),
        "attributes": Jsonb(dict(stored.attributes)),
        "body": Jsonb(body),
        "chunk_digests": [c.digest for c in chunks],
    }
    with connection.pipeline():
        connection.execute(_UPSERT, values)
        for statement in _CLEAR:
            connection.execute(statement, [item.uri])
        write_chunks(connection, item.uri, chunks)
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO item_aliases (uri, ordinal, alias_folded) VALUES (%s, %s, %s)",
                [(item.uri, n, name) for n, name in enumerate(_alias_names(stored.aliases))],
            )
            cursor.executemany(
                "INSERT INTO links (uri, ordinal, to_uri, to_item, outside, rel) VALUES (%s, %s, %s, %s, %s, %s)",
                [
                    (item.uri, n, link.to, uris.item_uri(link.to), not link.to.startswith("ctx://"), link.rel)
                    for n, link in enumerate(stored.links)
                ],
            )
        write_edges(connection, item.uri, item.contributions)


def write_chunks(connection: Connection[DictRow], uri: str, chunks: Sequence[Chunk]) -> None:
    """Insert the chunks of an item that has none."""
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO chunks (uri, ordinal, digest, heading, text, embedded_text, part_uris) "
            "VALUES (%s, %s, %s, %s, %s, %s, %s)",
            [
                (
                    uri,
                    c.ordinal,
                    c.digest,
                    [clean(h) for h in c.heading],
                    clean(c.text),
                    clean(c.embedded_text),
                    list(c.part_uris),
                )
                for c in chunks
            ],
        )


def _alias_names(aliases: Sequence[str]) -> list[str]:
    """The names under which aliases are found; an address under its plain form as well."""
    return list(dict.fromkeys([*map(fold, aliases), *folded(aliases)]))


def _names(replaced_by: Sequence[str]) -> list[str]:
    """Titles and URLs among the names of a successor; addresses of ours need no looking up."""
    titles = [n for n in replaced_by if n.strip() and not n.startswith("ctx://")]
    return list(dict.fromkeys(url_key(n) if looks_like_url(n) else fold(n) for n in titles))


_UPSERT: Final = """
    INSERT INTO items (uri, lifecycle, source, kind, scope, version, modified_at, digest, stored_digest, ingested_at,
        title, title_folded, url, url_key, created_at, validated_at, author_name, author, owner_name, owner, authority,
        state, container, container_folded, number, label, deprecated, replaced_by, replaced_by_keys, attributes, body,
        chunk_digests)
    VALUES (%(uri)s, 'live', %(source)s, %(kind)s, %(scope)s, %(version)s, %(modified_at)s, %(digest)s,
        %(stored_digest)s, %(at)s, %(title)s, %(title_folded)s, %(url)s, %(url_key)s, %(created_at)s,
        %(validated_at)s, %(author_name)s, %(author)s, %(owner_name)s, %(owner)s, %(authority)s, %(state)s,
        %(container)s, %(container_folded)s, %(number)s, %(label)s, %(deprecated)s, %(replaced_by)s,
        %(replaced_by_keys)s, %(attributes)s, %(body)s, %(chunk_digests)s)
    ON CONFLICT (uri) DO UPDATE SET lifecycle = 'live', reason = NULL, source = excluded.source, kind = excluded.kind,
        scope = excluded.scope, version = excluded.version, modified_at = excluded.modified_at,
        digest = excluded.digest, stored_digest = excluded.stored_digest, ingested_at = excluded.ingested_at,
        deleted_at = NULL, noticed_at = NULL, deletion_stated = false, deletion_version = NULL, index_cleared = true,
        misses = 0, missed_at = NULL,
        title = excluded.title, title_folded = excluded.title_folded, url = excluded.url, url_key = excluded.url_key,
        created_at = excluded.created_at, validated_at = excluded.validated_at, author_name = excluded.author_name,
        author = excluded.author, owner_name = excluded.owner_name, owner = excluded.owner,
        authority = excluded.authority, state = excluded.state, container = excluded.container,
        container_folded = excluded.container_folded, number = excluded.number, label = excluded.label,
        deprecated = excluded.deprecated, replaced_by = excluded.replaced_by,
        replaced_by_keys = excluded.replaced_by_keys, attributes = excluded.attributes, body = excluded.body,
        chunk_digests = excluded.chunk_digests
"""
_CLEAR: Final = (
    "DELETE FROM chunks WHERE uri = %s",
    "DELETE FROM item_aliases WHERE uri = %s",
    "DELETE FROM links WHERE uri = %s",
)
