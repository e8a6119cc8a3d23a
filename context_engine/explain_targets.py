"""What an administrator means by an item and by a person: one row of the record, one account of the directory."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core import principals, uris
from core.errors import InputError
from core.principals import Principal
from graph.db import Database, clean
from graph.item_lookup import ItemLookup, KnownItem
from query.addresses import parse_url

_GUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_WORK_ITEM = re.compile(r"(?:AB)?#?(\d{1,18})", re.IGNORECASE)
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Unknown:
    """An address of ours that the record has no item for."""

    uri: str


def find_item(items: ItemLookup, text: str) -> KnownItem | Unknown:
    """The one item that is meant: a ctx:// or web address, a number (`4101`, `AB#4101`, `!88`) or a title.

    Raises InputError where there is none, or several, and then names them.
    """
    text = text.strip()
    if text.lower().startswith("ctx://"):
        # An address may name a part (a comment); what is permitted is its item.
        uri = uris.item_uri(text)
        found = items.by_uri(uri)
        return found[0] if found else Unknown(uri)
    if re.match(r"https?://", text, re.IGNORECASE):
        return _one(_by_url(items, text), text)
    if m := re.fullmatch(r"!(\d{1,18})", text):
        return _one(items.by_number(m[1], "pull_request"), text)
    if m := _WORK_ITEM.fullmatch(text):
        return _one(items.by_number(m[1], "work_item"), text)
    return _one(items.by_title(text) or items.by_alias([text]), text)


def _by_url(items: ItemLookup, url: str) -> list[KnownItem]:
    exact = items.by_urls([url])
    if exact:
        return exact
    meant = parse_url(url)
    if meant.uri and (found := items.by_uri(meant.uri)):
        return found
    if meant.urls and (found := items.by_urls(meant.urls)):
        return found
    named = items.by_alias(meant.aliases) if meant.aliases else []
    return [i for i in named if meant.source is None or i.source == meant.source.value]


def _one(found: Sequence[KnownItem], text: str) -> KnownItem:
    live = [i for i in found if i.lifecycle != "deleted"] or list(found)
    if not live:
        raise InputError(
            "no item of the record answers to that",
            where=f"item {text!r}",
            mend="Give its ctx:// or web address, its number (4101, AB#4101, !88) or its exact title",
        )
    if len(live) > 1:
        named = ", ".join(i.uri for i in live[:_SHOWN]) + (", …" if len(live) > _SHOWN else "")
        raise InputError(f"several items answer to that: {named}", where=f"item {text!r}", mend="Give one address")
    return live[0]


def find_person(db: Database, text: str, *, keys: Mapping[str, Principal] | None = None) -> Principal:
    """The account that is meant: a user principal name, an object id, a principal (`user:…`) or a world's key.

    An account that no source lists is no error where it is named by id: that is the answer. Raises InputError where a
    name leads to nobody, or to several.
    """
    text = clean(text.strip())
    if keys and (known := keys.get(text.removeprefix("person:"))):
        return known
    if text.lower().startswith("user:"):
        try:
            return principals.parse(text)
        except ValueError as e:
            raise InputError(str(e), where="person") from e
    if _GUID.fullmatch(text):
        return _only(_accounts(db, "%/" + text.lower(), None), text)
    return _only(_accounts(db, None, text.lower()), text)


def _accounts(db: Database, ending: str | None, upn: str | None) -> list[Principal]:
    with db.connection() as connection:
        rows = connection.execute(
            "SELECT DISTINCT principal FROM people WHERE principal LIKE %s OR lower(upn) = %s ORDER BY principal",
            [ending, upn],
        ).fetchall()
    return [Principal(r["principal"]) for r in rows]


def _only(found: Sequence[Principal], text: str) -> Principal:
    if not found:
        raise InputError(
            "no source lists such an account",
            where=f"person {text!r}",
            mend="Give a user principal name, an object id, or user:TENANT/OBJECT-ID",
        )
    if len(found) > 1:
        raise InputError(
            f"several accounts answer to that: {', '.join(found[:_SHOWN])}", where=f"person {text!r}", mend="Give one"
        )
    return found[0]
