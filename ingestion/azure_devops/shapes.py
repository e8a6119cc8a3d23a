"""Small readings of Azure DevOps' JSON: lists, times, ids, references to people, links to artifacts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, unquote

from core import uris
from core.errors import SourceError

# Git and Azure DevOps write "no time" and "still current" as the ends of the calendar; neither is a time of anything.
_NO_TIME_YEARS = frozenset({1, 9999})
_FRACTION = re.compile(r"\.(\d{1,9})")
_WORK_ITEM_URL = re.compile(r"/_apis/wit/workitems/(\d+)", re.IGNORECASE)
_COMMIT = re.compile(r"^vstfs:///git/commit/[^/]+/([^/]+)/([0-9a-f]{40})$", re.IGNORECASE)
_PULL_REQUEST = re.compile(r"^vstfs:///git/pullrequestid/[^/]+/([^/]+)/(\d+)$", re.IGNORECASE)
# People in Markdown (`@<key>`) and in HTML, by their storage key.
_MENTION = re.compile(r"@<([0-9a-f-]{36})>|data-vss-mention=[\"']version:[\d.]+,\s*([0-9a-f-]{36})", re.IGNORECASE)
_WIKI_PAGE = re.compile(r"^vstfs:///wiki/wikipage/[^/]+/([^/]+)/(.+)$", re.IGNORECASE)


def when(value: Any) -> datetime | None:
    """The aware UTC time that a text says; None for none, for the end-of-calendar marks and for no ISO time."""
    if not isinstance(value, str) or not value:
        return None
    # fromisoformat takes three or six digits; the source writes as many as it needs.
    text = _FRACTION.sub(lambda m: "." + m.group(1)[:6].ljust(6, "0"), value.strip().replace("Z", "+00:00"))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.year in _NO_TIME_YEARS:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def text_of(value: Any) -> str:
    """A text without NUL characters, which Postgres refuses; empty for none."""
    return value.replace("\x00", "") if isinstance(value, str) else ("" if value is None else str(value))


def mapping(value: Any) -> Mapping[str, Any]:
    """`value` if it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def listed(data: Any) -> list[Any]:
    """The rows of a collection, which comes wrapped ({count, value}), twice wrapped (audit), or as a bare list.

    A null in its place is an empty list. Raises SourceError where there is neither, or a count of what is not there:
    that is an answer without the list.
    """
    while isinstance(data, Mapping):
        key = next((k for k in ("value", "items", "members") if k in data), None)
        if key is not None and data[key] is None and not data.get("count"):
            return []
        data = data[key] if key is not None else None
    if not isinstance(data, list):
        raise SourceError("the answer has no list in it")
    return list(data)


def rows_of(data: Any) -> list[Any]:
    """The same of an answer that may be missing: then there are no rows."""
    return [] if data is None else listed(data)


def insensitive(data: Mapping[str, Any]) -> dict[str, Any]:
    """The same with lower-case keys: recycle bin answers come in two spellings."""
    return {str(k).lower(): v for k, v in data.items()}


@dataclass(frozen=True, slots=True)
class Named:
    """A person as the source names them: whatever it gave of descriptor, storage key, unique name and shown name."""

    name: str
    descriptor: str | None = None
    storage_key: str | None = None
    unique_name: str | None = None

    @staticmethod
    def of(value: Any) -> Named | None:
        """Read an identity in any of its forms: object, `Display <unique>`, or a bare name; None for nobody."""
        if isinstance(value, Mapping):
            unique = value.get("uniqueName") or value.get("principalName") or value.get("mailAddress")
            name = value.get("displayName") or value.get("providerDisplayName") or unique or value.get("id")
            if not name:
                return None
            return Named(text_of(name), value.get("descriptor"), value.get("id"), unique)
        if not isinstance(value, str) or not value.strip():
            return None
        match = re.fullmatch(r"(.*?)\s*<([^<>]+)>", value.strip())
        if match:
            return Named(match.group(1) or match.group(2), unique_name=match.group(2))
        return Named(value.strip())


def artifact(url: str, organization: str) -> str | None:
    """The ctx:// address that a relation's URL stands for (work item, commit, pull request); None for others."""
    found = _WORK_ITEM_URL.search(url)
    if found:
        return uris.work_item(organization, int(found.group(1)))
    decoded = unquote(url)
    found = _COMMIT.match(decoded)
    if found:
        return uris.commit(organization, found.group(1), found.group(2))
    found = _PULL_REQUEST.match(decoded)
    if found:
        return uris.pull_request(organization, found.group(1), int(found.group(2)))
    return None


def wiki_artifact(url: str) -> tuple[str, str] | None:
    """Wiki id and page path of a link to a wiki page (it names the page by path, not by id)."""
    found = _WIKI_PAGE.match(unquote(url))
    return (found.group(1).lower(), "/" + found.group(2).strip("/")) if found else None


def web(organization: str, *segments: str) -> str:
    """An address at the real service's web site, whatever host is read from; every segment is encoded once."""
    return "/".join(["https://dev.azure.com", organization, *(quote(s, safe="") for s in segments)])


def mentioned(text: str) -> list[str]:
    """Storage keys of the people whom a text mentions, each once, in order."""
    return list(dict.fromkeys((m.group(1) or m.group(2)).lower() for m in _MENTION.finditer(text)))
